"""Images of the engines that composed services name, made of programs of this machine: no registry is asked.

Each has of the original what the services use: its name, program, user, folder, variables and entry point. The base is
a Debian that is not older than this machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from support.engines.haproxy import haproxy_program
from support.engines.postgresql import programs
from support.engines.seaweedfs import weed
from support.engines.world import PATH, World

_LIBRARIES = "opt/libraries"
# What belongs to the C library is that of the base.
_BASIC = ("libc.", "libm.", "libdl.", "libpthread.", "librt.", "ld-linux", "linux-vdso")

_POSTGRESQL = """\
FROM {base}
COPY root /
RUN echo "postgres:x:999:999::/var/lib/postgresql:/bin/sh" >> /etc/passwd && echo "postgres:x:999:" >> /etc/group && \\
    install -d -o 999 -g 999 -m 0700 /var/lib/postgresql/data
ENV LD_LIBRARY_PATH=/{libraries} PATH={programs}:/usr/bin:/bin
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["/entrypoint.sh"]
"""
_ENTRY = """\
#!/bin/sh
set -eu
export PGDATA=/var/lib/postgresql/data
run=/run/postgresql
if [ ! -e "$PGDATA/PG_VERSION" ]; then
    echo "$POSTGRES_PASSWORD" > $run/password
    initdb --username="$POSTGRES_USER" --pwfile=$run/password --auth-host=scram-sha-256 --auth-local=trust \\
        --no-sync $POSTGRES_INITDB_ARGS
    rm $run/password
    echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
    pg_ctl -w -o "-c listen_addresses= -c unix_socket_directories=$run" start
    for file in /docker-entrypoint-initdb.d/*.sql; do
        psql -h $run -U "$POSTGRES_USER" -d postgres -v ON_ERROR_STOP=1 -f "$file"
    done
    pg_ctl -w stop
fi
exec "$@" -c listen_addresses=* -c unix_socket_directories=$run
"""
_SEAWEEDFS = """\
FROM {base}
COPY root /
ENTRYPOINT ["weed"]
"""
_WGET = (
    '#!/bin/sh\nexec python3 -c "import sys, urllib.request as r; r.urlopen(sys.argv[-1], timeout=4)" "$@"\n'
)
_HAPROXY = """\
FROM {base}
COPY root /
ENV LD_LIBRARY_PATH=/{libraries}
USER 99:99
STOPSIGNAL SIGUSR1
CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]
"""
_CADDY = """\
FROM {base}
COPY root /
ENV XDG_DATA_HOME=/data XDG_CONFIG_HOME=/config
"""


def make_engines(machine: World, folder: Path, base: str) -> None:
    """Make postgres:17, seaweedfs:4.48, haproxy:3.2 and caddy:2.11, each with the whole name that services have."""
    root, bin_folder = _root(folder, "postgresql"), programs()
    assert bin_folder is not None
    # Programs look for their files where they were built to have them.
    for place in (bin_folder.parent, Path("/usr/share/postgresql") / bin_folder.parent.name):
        shutil.copytree(
            place, root / place.relative_to("/"), ignore=shutil.ignore_patterns("llvmjit*", "bitcode")
        )
    (root / "usr/share/zoneinfo").mkdir(parents=True)
    shutil.copy("/usr/share/zoneinfo/Etc/UTC", root / "usr/share/zoneinfo/UTC")
    _copy_libraries(root, bin_folder.iterdir())
    _write_program(root / "entrypoint.sh", _ENTRY)
    _build(machine, root, "docker.io/library/postgres:17", _POSTGRESQL, base, programs=str(bin_folder))

    root = _root(folder, "seaweedfs")
    shutil.copy(str(weed()), root / "usr/bin/weed")
    _write_program(root / "usr/bin/wget", _WGET)
    _build(machine, root, "docker.io/chrislusf/seaweedfs:4.48", _SEAWEEDFS, base)

    root, program = _root(folder, "haproxy"), Path(str(haproxy_program()))
    shutil.copy(program, root / "usr/bin/haproxy")
    _copy_libraries(root, [program])
    _build(machine, root, "docker.io/library/haproxy:3.2", _HAPROXY, base)

    root = _root(folder, "caddy")
    shutil.copy(str(shutil.which("caddy", path=PATH)), root / "usr/bin/caddy")
    _build(machine, root, "docker.io/library/caddy:2.11", _CADDY, base)


def _root(folder: Path, name: str) -> Path:
    root = folder / name / "root"
    (root / "usr/bin").mkdir(parents=True)
    return root


def _write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _copy_libraries(root: Path, files: Iterable[Path]) -> None:
    """Copy the libraries that programs are linked with."""
    (root / _LIBRARIES).mkdir(parents=True, exist_ok=True)
    listed = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    found = {words[2] for line in listed.splitlines() if len(words := line.split()) > 2 and words[1] == "=>"}
    for path in map(Path, found):
        if path.is_file() and not path.name.startswith(_BASIC):
            shutil.copy(path, root / _LIBRARIES / path.name)


def _build(machine: World, root: Path, name: str, recipe: str, base: str, **more: str) -> None:
    (root.parent / "Containerfile").write_text(recipe.format(base=base, libraries=_LIBRARIES, **more))
    machine.done(root.parent, f"buildah build --quiet --format docker --tag {name} {root.parent}")
