#!/bin/sh
# Everything that must hold before a change lands. Arguments go to pytest, and then only tests run: ./test.sh tests/house -x
set -eu
cd "$(dirname "$0")"
. tools/environment.sh
environment requirements/dev.txt
if [ $# -eq 0 ]; then
    "$bin/python" -m ruff format --check .
    "$bin/python" -m ruff check .
    "$bin/python" -m mypy
fi
# The tests start a thousand processes of ours; each would read the sources anew where no bytecode may be written.
unset PYTHONDONTWRITEBYTECODE
"$bin/python" -m compileall -q src proofs tests

# First what must run alone, then all that can run beside others; with --alone or --beside only one of the two.
case " $* " in
    *" --alone "*) exec "$bin/python" -m pytest "$@" ;;
    *" --beside "*) exec "$bin/python" -m pytest --numprocesses=auto --dist=worksteal "$@" ;;
esac
nothing=5  # pytest's word for: no test was chosen
alone=0 beside=0
"$bin/python" -m pytest --alone "$@" || alone=$?
"$bin/python" -m pytest --numprocesses=auto --dist=worksteal --beside "$@" || beside=$?
if [ $beside -eq $nothing ]; then exit $alone; fi
if [ $alone -eq 0 ] || [ $alone -eq $nothing ]; then exit $beside; fi
exit $alone
