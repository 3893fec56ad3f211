#!/bin/sh
# Everything that must hold before a change lands. Arguments go to pytest, and then only tests run: ./test.sh tests/style -x
set -eu
cd "$(dirname "$0")"
. tools/environment.sh
environment requirements/dev.txt
# The tests start a thousand processes of ours; each would read the sources anew where no bytecode may be written.
unset PYTHONDONTWRITEBYTECODE
"$bin/python" -m compileall -q src proofs tests
if [ $# -eq 0 ]; then
    "$bin/python" -m ruff format --check .
    "$bin/python" -m ruff check .
    # While one core checks types, the other one collects the tests once, which compiles what each process of pytest imports.
    "$bin/python" -m mypy &
    "$bin/python" -m pytest --collect-only --quiet > /dev/null 2>&1 || true
    wait $!
fi

# First what weighs the machine, one after the other and nothing else. Then all the others together. With --alone or
# --beside only one of the two.
alone() { "$bin/python" -m pytest --numprocesses=1 --alone "$@"; }
beside() { "$bin/python" -m pytest --numprocesses=auto --dist=worksteal --beside "$@"; }
case " $* " in
    *" --alone "*) alone "$@"; exit ;;
    *" --beside "*) beside "$@"; exit ;;
esac
nothing=5  # pytest's word for: no test was chosen
first=0 second=0
alone "$@" || first=$?
beside "$@" || second=$?
if [ $second -eq $nothing ]; then exit $first; fi
if [ $first -eq 0 ] || [ $first -eq $nothing ]; then exit $second; fi
exit $first
