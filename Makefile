# Short names for what is done often. `./try.sh` and `./test.sh` do the same on a machine without make.
.PHONY: help try test quick test-313 test-postgresql docs site pictures man messages format lock count bench \
	bench-full bench-against proofs mutants mutants-collect mutants-quick mutants-survey violations dist composed typed nodes packages

help:  ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

try:  ## start a whole network with sample items on this machine
	./try.sh

test:  ## everything that must hold: format, lint, types, tests
	./test.sh

quick:  ## the tests of style, and those that need no socket and no data directory, with fewer examples of each property
	. tools/environment.sh && environment requirements/dev.txt && unset PYTHONDONTWRITEBYTECODE && \
		exec "$$bin/python" tools/quick.py

test-313:  ## the same with Python 3.13
	IBI_PYTHON=python3.13 ./test.sh

test-postgresql:  ## the tests of Archives and resolvers again, with PostgreSQL in place of their files
	IBI_TEST_STORE=postgresql ./test.sh --beside tests/service/archive tests/service/resolver

format:  ## put the code into shape
	.venv/bin/python -m ruff format .
	.venv/bin/python -m ruff check --fix .

docs:  ## write the generated parts of the documents anew, and packaging
	.venv/bin/python tools/coverage_table.py
	.venv/bin/python tools/limits_table.py
	.venv/bin/python tools/reference_pages.py
	.venv/bin/python tools/service_files.py

man:  ## write the manual pages of all commands anew, in both languages, below man
	.venv/bin/python tools/man_pages.py

site:  ## build the site of the documents, in both languages, below build/site (half a minute)
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" tools/site_pages.py

pictures:  ## take the pictures of the documents anew, in a real browser
	IBI_PICTURES=$$PWD/docs/images .venv/bin/python -m pytest -q tests/browser/test_pictures_of_documents.py \
		tests/docs/test_tutorials.py

messages:  ## bring the catalogues up to date after a change of sentences, and compile them
	.venv/bin/python tools/sentences.py

count:  ## count the modules, functions and calls that a cold click and a urlRequest cost; LIST=1 names them (half a minute)
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" tools/count_functions.py $(if $(LIST),--list)

bench:  ## every figure and ratio, printed and written into bench/RESULTS.md (a quarter of an hour)
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" -m bench

bench-full:  ## the same with ten million hints, and longer runs (two hours); RESUME=1 goes on where it was ended
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" -m bench --full $(if $(RESUME),--resume)

bench-against:  ## today's code and that of an earlier commit, measured turn about: make bench-against BASE=COMMIT (ten minutes)
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" -m bench.against $(BASE)

proofs:  ## the long proofs: no label twice, nothing half, nothing lost or missed, one original, every law of resolution (many hours)
	.venv/bin/python -m proofs.minting --full
	.venv/bin/python -m proofs.deposit --full
	.venv/bin/python -m proofs.transfer --full
	.venv/bin/python -m proofs.keeping --full
	.venv/bin/python -m proofs.harvest --full
	.venv/bin/python -m proofs.resolution --full
	.venv/bin/python -m proofs.leases --full
	.venv/bin/python -m proofs.resolver --full
	.venv/bin/python -m proofs.freshness --full
	.venv/bin/python -m proofs.evidence --full
	.venv/bin/python -m proofs.fuzz --full

mutants:  ## mutants of the source that no test notices: make mutants AREAS="minting resolver" NUMBER=50 SEED=1 (half a minute each)
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" tools/mutants.py run $(AREAS) \
		$(if $(NUMBER),--number $(NUMBER)) $(if $(SEED),--seed $(SEED))

mutants-quick:  ## twenty mutants of the lines that differ from main
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" tools/mutants.py quick \
		$(if $(SEED),--seed $(SEED))

mutants-survey:  ## a first look, a second each, in the process of the tests alone: make mutants-survey FILES="identifier minting/state.py"
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" tools/mutants.py survey $(FILES)

mutants-collect:  ## before these three, once: which tests reach which lines; TESTS="tests/unit tests/service/minting" for these alone
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" tools/mutants.py collect $(TESTS)

violations:  ## violate each requirement once and see its test fail; NUMBERS="GEN-17 URL-16" for these alone (half an hour)
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" tools/mutants.py violations $(NUMBERS)

dist:  ## what a release consists of, below dist: wheel, source archive, list of components (SBOM), checksums
	. tools/environment.sh && environment requirements/dev.txt && rm -rf dist && bin=$$bin tools/dist.sh dist

composed:  ## start the services of packaging/container/compose.scale.yaml, kill nodes, restore (minutes; needs root)
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" -m pytest -n 1 tests/packages/trial_scale.py

typed:  ## type the commands of all pages in both languages; .ci/run types each page in one of them (minutes)
	. tools/environment.sh && environment requirements/dev.txt && IBI_ALL_PAGES=1 exec "$$bin/python" -m pytest -n auto tests/docs

nodes:  ## kill nodes, balancer and stores under load, and see that the proof can fail (minutes; needs the engines)
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" -m pytest -n 1 tests/proofs/nodes/trial_nodes.py

packages:  ## the tests of packages: what is built, installed into empty environments on each Python, the lowest versions
	. tools/environment.sh && environment requirements/dev.txt && exec "$$bin/python" -m pytest tests/packages

lock:  ## resolve pyproject.toml and requirements/npm anew (needs npm)
	cd requirements/npm && npm update --package-lock-only --no-audit --no-fund
	.venv/bin/uv pip compile pyproject.toml --extra node --group build --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header --quiet --upgrade -o requirements/node.txt
	.venv/bin/uv pip compile pyproject.toml --extra postgres --extra s3 --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header --quiet --upgrade -c requirements/node.txt -o requirements/stores.txt
	.venv/bin/uv pip compile pyproject.toml --extra node --group dev --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header --quiet -c requirements/node.txt -c requirements/stores.txt -o requirements/dev.txt
