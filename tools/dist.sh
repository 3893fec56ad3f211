#!/bin/sh
# Builds what a release consists of into a folder (dist, or the one that is named): the wheel, the source archive, the
# list of what the services need (SBOM, CycloneDX), and checksums. `bin`: the commands of the environment of the tests.
set -eu
cd "$(dirname "$0")/.."
to=${1:-dist}
bin=${bin:-.venv/bin}
mkdir -p "$to"
"$bin/python" -m hatchling build --directory "$to" > /dev/null
wheel=$(cd "$to" && ls "$PWD"/ibi-*.whl)
services=$(mktemp -d)
trap 'rm -rf "$services"' EXIT
"$bin/uv" venv --quiet --python "$bin/python" "$services"
"$bin/uv" pip install --quiet --python "$services/bin/python" --constraint requirements/node.txt "ibi[node] @ file://$wheel"
"$bin/python" -m cyclonedx_py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
    --output-format JSON --output-file "${wheel%-py3-none-any.whl}.cdx.json" "$services/bin/python"
cd "$to"
sha256sum ibi-* > SHA256SUMS
