# Short names for what is done often. `./try.sh` and `./test.sh` do the same on a machine without make.
.PHONY: help try test test-313 docs format lock bench bench-full proofs

help:  ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

try:  ## start a whole network with sample items on this machine
	./try.sh

test:  ## everything that must hold: format, lint, types, tests
	./test.sh

test-313:  ## the same with Python 3.13
	IBI_PYTHON=python3.13 ./test.sh

format:  ## put the code into shape
	.venv/bin/python -m ruff format .
	.venv/bin/python -m ruff check --fix .

docs:  ## write the generated parts of the documents anew
	.venv/bin/python tools/room_table.py
	.venv/bin/python tools/coverage_table.py

bench:  ## every figure and ratio, printed and written into bench/RESULTS.md (ten minutes)
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" -m bench

bench-full:  ## the same with ten million hints, and longer runs (ninety minutes); RESUME=1 goes on where it was ended
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" -m bench --full $(if $(RESUME),--resume)

proofs:  ## the long proofs: no label twice, nothing half, nothing lost or missed, one original, every law of resolution (many hours)
	.venv/bin/python -m proofs.minting --full
	.venv/bin/python -m proofs.deposit --full
	.venv/bin/python -m proofs.transfer --full
	.venv/bin/python -m proofs.keeping --full
	.venv/bin/python -m proofs.harvest --full
	.venv/bin/python -m proofs.resolution --full
	.venv/bin/python -m proofs.resolver --full
	.venv/bin/python -m proofs.evidence --full
	.venv/bin/python -m proofs.fuzz --full

lock:  ## resolve pyproject.toml anew (needs uv)
	uv pip compile pyproject.toml --extra node --group build --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header --quiet --upgrade -o requirements/node.txt
	uv pip compile pyproject.toml --extra node --group dev --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header --quiet -c requirements/node.txt -o requirements/dev.txt
