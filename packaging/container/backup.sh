#!/bin/sh
# Copies what the services of compose.yaml hold into the volume `backups`, while they run. Run it every night.
set -eu
cd "$(dirname "$0")"

for archive in first second; do
    podman-compose exec -T "$archive" ibi archive backup --quiet --to "/backups/$archive"
done

# Of the resolver: what it cannot make again, a folder for each day; those of more than 30 days go.
podman-compose exec -T resolver sh -eu -c '
    umask 077
    to=/backups/resolver/$(date +%Y-%m-%d)
    mkdir -p "$to"
    python -c "
import sqlite3, sys
sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]))
" registry.sqlite "$to/registry.sqlite"
    # The head goes first: a log that is longer than its head is whole, a shorter one is not.
    for name in evidence.head evidence.jsonl resolver.toml institution.toml accounts.json tokens.json attestation.key
    do
        if [ -e "$name" ]; then cp -p "$name" "$to/"; fi
    done
    cp -rp minting "$to/"
    find /backups/resolver -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -r {} +
'
