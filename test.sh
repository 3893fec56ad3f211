#!/bin/sh
# Everything that must hold before a change lands. Arguments go to pytest, and then only tests run: ./test.sh tests/style -x
set -eu
cd "$(dirname "$0")"
. tools/environment.sh
environment requirements/dev.txt
node_packages
# The tests start a thousand processes of ours; each would read the sources anew where no bytecode may be written.
unset PYTHONDONTWRITEBYTECODE
"$bin/python" -m compileall -q src proofs tests
if [ $# -eq 0 ]; then
    "$bin/python" -m ruff format --check .
    "$bin/python" -m ruff check .
fi

# The folders that pytest makes for tests lie in memory where there is room, which saves a tenth of the time; what is
# written elsewhere (databases of PostgreSQL, tests with --alone, the second Python of .ci/run) lies on the disk.
files=$(folder_in_memory)
if [ -n "$files" ]; then
    trap 'rm -rf "$files"' EXIT
    trap 'exit 130' INT TERM
fi

# First what weighs the machine, one after the other and nothing else. Then all the others together. With --alone or
# --beside only one of the two.
alone() { "$bin/python" -m pytest --numprocesses=1 --alone "$@"; }
beside() { "$bin/python" -m pytest --numprocesses=auto --dist=worksteal --beside ${files:+"--basetemp=$files/tests"} "$@"; }
case " $* " in
    *" --alone "*) alone "$@"; exit ;;
    *" --beside "*) beside "$@"; exit ;;
esac
nothing=5  # pytest's word for: no test was chosen
first=0 second=0
if [ $# -eq 0 ]; then
    # Types are checked meanwhile, in what these tests leave of the processors.
    idle=$(command -v chrt > /dev/null && echo "chrt --idle 0" || echo "nice -n 19")
    $idle "$bin/python" -m mypy &
    types=$!
fi
alone "$@" || first=$?
[ $# -gt 0 ] || wait $types
beside "$@" || second=$?
if [ $second -eq $nothing ]; then exit $first; fi
if [ $first -eq 0 ] || [ $first -eq $nothing ]; then exit $second; fi
exit $first
