# Sourced by try.sh and test.sh: finds a Python, makes an environment in the checkout from a lock file.
# Needs nothing but a POSIX shell and Python 3.11 or newer with its venv module.

find_python() {
    for name in ${IBI_PYTHON:-python3.11 python3 python3.12 python3.13 python}; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "ibi needs Python 3.11 or newer; tried: ${IBI_PYTHON:-python3.11 python3 python3.12 python3.13 python}" >&2
    return 1
}

# environment LOCK: afterwards $bin holds the commands of an environment with what the lock names, and ibi itself.
environment() {
    lock=$1
    python=$(find_python)
    place=.venv
    if [ -n "${IBI_PYTHON:-}" ]; then
        place=.venv-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    fi
    bin=$PWD/$place/bin
    stamp=$place/$(basename "$lock").stamp
    wanted=$( { pwd; cat pyproject.toml "$lock"; } | cksum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && "$bin/python" -c '' 2>/dev/null; then
        return
    fi
    echo "Making the environment in $place (once) ..." >&2
    again=--clear
    "$bin/python" -c '' 2>/dev/null && again=
    if ! "$python" -m venv $again "$place"; then
        echo "This Python cannot make environments; on Debian: apt-get install python3-venv" >&2
        return 1
    fi
    "$bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
    "$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
    echo "$wanted" > "$stamp"
}

# Fetches the programs in JavaScript that tests drive into build/npm, once; without them, those tests say what they need.
node_packages() {
    command -v npm > /dev/null || return 0
    wanted=$(cksum < requirements/npm/package-lock.json)
    [ "$(cat build/npm/stamp 2>/dev/null)" != "$wanted" ] || return 0
    mkdir -p build/npm
    cp requirements/npm/package.json requirements/npm/package-lock.json build/npm
    if (cd build/npm && npm ci --fetch-retries=1 --ignore-scripts --no-audit --no-fund --loglevel=error >&2); then
        echo "$wanted" > build/npm/stamp
    else
        echo "npm could not fetch what requirements/npm names: tests that need them are skipped." >&2
    fi
}

# Print a new folder in memory, or nothing where there is too little room for the files of tests, or IBI_FILES_ON_DISK.
folder_in_memory() {
    room=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || true
    free=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo 2>/dev/null) || true
    if [ -z "${IBI_FILES_ON_DISK:-}" ] && [ -w /dev/shm ] && [ "${room:-0}" -gt 8000000 ] && [ "${free:-0}" -gt 16000000 ]; then
        place=$(mktemp -d /dev/shm/ibi.XXXXXX)
        chmod 711 "$place"  # PostgreSQL runs as another user
        echo "$place"
    fi
}
