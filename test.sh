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

# Once for all that can run beside others, and once for what weighs the machine itself.
beside=0 alone=0
"$bin/python" -m pytest --numprocesses=auto --dist=worksteal --beside "$@" || beside=$?
"$bin/python" -m pytest --alone "$@" || alone=$?
nothing=5  # pytest's word for: no test was chosen
if [ $beside -eq $nothing ]; then exit $alone; fi
if [ $beside -eq 0 ] && [ $alone -eq $nothing ]; then exit 0; fi
exit $((beside ? beside : alone))
