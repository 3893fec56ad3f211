#!/bin/sh
# Makes a small network with an earlier version of this program: tests/support/older/make.sh COMMIT FOLDER
# first.tar.xz is of 122a0882 (2026-11-21), second.tar.xz of df04a3f9 (2026-11-26): the folders `archive` and `resolver`.
set -eu
top=$(git rev-parse --show-toplevel)
mkdir -p "$2/program" "$2/data"
git -C "$top" archive "$1" | tar -x -C "$2/program"
python3 -m venv "$2/venv"
"$2/venv/bin/pip" install --quiet --requirement "$2/program/requirements/node.txt"
python=$2/venv/bin/python
PYTHONPATH=$2/program/src
export PYTHONPATH
cd "$2/data"
printf 'The first text.\n' > text.txt
printf 'O segundo texto.\n' > texto.txt
cat > items.jsonl <<'END'
{"rep": "old.archive.example/w/2009/07.21.13.23", "language": "en", "files": {"text.txt": "text.txt"}, "target": "text.txt", "translations": {"pt": "old.archive.example/w/2010/01.02.03.04"}, "metadata": {"title": ["First text"], "creator": ["Silva, Maria"], "date": ["2009"]}}
{"rep": "old.archive.example/w/2010/01.02.03.04", "language": "pt", "files": {"texto.txt": "texto.txt"}, "target": "texto.txt", "metadata": {"title": [{"value": "Segundo texto", "lang": "pt"}]}}
{"rep": "old.archive.example/w/2011/05.06.07.08", "url": "http://elsewhere.example/text.html", "metadata": {"title": ["A text elsewhere"]}}
{"rep": "old.archive.example/w/2012/05.06.07.08", "url": "http://elsewhere.example/removed.html", "metadata": {"title": ["A removed text"]}}
{"key": "thesis-1", "url": "http://elsewhere.example/thesis", "metadata": {"title": ["A thesis"]}}
END
archive=archive.example/old/2020/01.01.00.00
key=12345678901234567890
run() { "$python" -m ibi "$@"; }
run resolver init --data resolver --address 127.0.0.1:18100 \
    --service-ibi resolver.example/old/2020/01.01.00.00 --allow-private-archives
run archive init --data archive --address 127.0.0.1:18101 --ip 127.0.0.1 --service-ibi $archive --for-trying \
    --mint-host old.archive.example --mint-ip 192.0.2.1 --admin maria@archive.example \
    --resolver http://127.0.0.1:18100 --key $key
run resolver register --data resolver --archive-service $archive --key $key
run archive import --data archive items.jsonl
run archive delete --data archive old.archive.example/w/2012/05.06.07.08
if run archive --help | grep -q account; then
    run archive account add maria --role administrator --generate --data archive
    run archive token --data archive --name program --scope deposit
fi
"$python" -m ibi resolver serve --data resolver --bind 127.0.0.1:18100 & first=$!
"$python" -m ibi archive serve --data archive --bind 127.0.0.1:18101 & second=$!
sleep 6
curl --silent --output /dev/null http://127.0.0.1:18100/old.archive.example/w/2009/07.21.13.23
sleep 3
kill $second; wait $second || true
kill $first; wait $first || true
tar --sort=name --owner=0 --group=0 --numeric-owner -cf - archive resolver | xz -9e > "$2/older.tar.xz"
