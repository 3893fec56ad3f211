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
exec "$bin/python" -m pytest --numprocesses=auto "$@"
