#!/bin/sh
# Starts a whole network on this machine, with sample items, and prints the links to click. Ctrl-C stops it.
set -eu
cd "$(dirname "$0")"
. tools/environment.sh
environment requirements/node.txt
exec "$bin/python" -m ibi up "$@"
