#!/bin/sh
# Everything that must hold before a change lands. Arguments go to pytest: ./test.sh tests/house -x
set -eu
cd "$(dirname "$0")"
. tools/environment.sh
environment requirements/dev.txt
"$bin/python" -m ruff format --check .
"$bin/python" -m ruff check .
"$bin/python" -m mypy
exec "$bin/python" -m pytest --numprocesses=auto "$@"
