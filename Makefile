# The main targets are `make up` and `make test`. `make help` lists all of them.
# Paths are relative, so that a checkout with a space in its path works.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLIENT_VENV := .venv-client
export PORT ?= 8000
export DATA_DIR ?= .ariadne
export DEMO ?= 1
export PROCESSES ?= 1
export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.PHONY: help up test test-client test-matrix test-agents test-release dist docs lint lint-fast format types requirements bench histories soak lock browser clean

help: ## list all targets
	@grep -E '^[a-z-]+:.*## ' $(firstword $(MAKEFILE_LIST)) | sed -E 's/^([a-z-]+):[^#]*## /\1|/' | awk -F'|' '{printf "  make %-14s %s\n", $$1, $$2}'

up: $(VENV)/.runtime ## start the server on http://127.0.0.1:$(PORT). DEMO=0 starts it empty
	@exec $(BIN)/python -m ariadne.runtime.up

test: $(VENV)/.dev ## run all tests, with Postgres and a browser. SEED=random shuffles. CI=true forbids second attempts
	@$(BIN)/python -m tools.browser
	@# The client tests run once, against the wheel. PYTEST_ARGS selects tests and runs only those.
	@# Tests often wait for a server or a browser, so three processes keep two cores busy. conftest.py orders the files.
	@# Tests that fail while three processes share the machine run again, alone. The output shows both attempts.
	@$(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder $(if $(SEED),--seed $(SEED)) $(PYTEST_ARGS) \
		|| { [ $$? -eq 1 ] && echo "Second attempt of the tests that failed, one at a time:" \
		&& $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(PYTEST_ARGS) \
		&& { [ -z "$$CI" ] || { echo "With CI set, a test that needs a second attempt is a failure. Its first output is above."; exit 1; }; }; }
	@$(if $(PYTEST_ARGS),,$(MAKE) --no-print-directory test-client)

test-client: $(VENV)/.dev $(CLIENT_VENV)/.ready ## run the client tests against the built wheel, without Django
	@rm -rf dist && $(BIN)/python -m build --wheel --no-isolation --outdir dist compact_client >/dev/null
	@$(CLIENT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/*.whl
	@! $(CLIENT_VENV)/bin/python -c 'import django' 2>/dev/null || { echo "$(CLIENT_VENV) must not contain Django"; exit 1; }
	@env -u PYTHONPATH $(CLIENT_VENV)/bin/python -m pytest --numprocesses 2 tests/client $(if $(SEED),--seed $(SEED)) --cov --cov-config=compact_client/pyproject.toml --cov-report=term

test-matrix: $(VENV)/.dev ## test the oldest and newest version of each optional package, which takes minutes
	@$(BIN)/python -m tools.version_matrix $(MATRIX)

test-agents: $(VENV)/.dev ## run real agents and SDKs, in pinned versions, behind the gateway
	@$(BIN)/python -m pytest tests/real_agents -p no:cacheprovider $(PYTEST_ARGS)

test-release: $(VENV)/.dev ## build both distributions, install them into a clean environment and run them
	@$(BIN)/python -m pytest -m release tests/docs/test_wheels.py $(PYTEST_ARGS)

dist: $(VENV)/.dev ## build wheel and sdist of both distributions into dist/, and their bills of materials into build/sbom/
	@rm -rf dist
	@for folder in . compact_client; do $(BIN)/python -m build --no-isolation --outdir dist $$folder >/dev/null || exit 1; done
	@$(BIN)/python -m twine check --strict dist/*
	@$(BIN)/python -m tools.sbom

requirements: $(VENV)/.dev ## print each requirement with its tests and results
	@$(BIN)/python -m tools.requirements_matrix

# mypy and the documentation site import the settings, which create keys in DATA_DIR.
lint: export DATA_DIR := .mypy_cache/ariadne
docs: export DATA_DIR := build/ariadne

lint: lint-fast ## check format, rules, types, layers, complexity, words, spelling and JavaScript
	$(BIN)/mypy ariadne ingest viewer compact_client/src/compact tests/builders.py tests/receiver.py tests/client/integrations/typed_clients.py
	$(BIN)/lint-imports
	$(BIN)/python -m tools.complexity
	$(BIN)/python -m tools.javascript

lint-fast: $(VENV)/.dev ## the part of lint that pre-commit runs before each commit
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python -m tools.words
	$(BIN)/codespell

format: $(VENV)/.dev ## format the code and apply safe fixes
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## run the benchmarks, which takes minutes
	@$(BIN)/python -m pytest tests/bench -q -s -p no:cacheprovider --timeout=3600

histories: $(VENV)/.dev ## play 2,000 random sessions through all layouts. FIRST and COUNT repeat some
	@HISTORIES_FIRST=$${FIRST:-$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')} HISTORIES_COUNT=$${COUNT:-2000} \
		$(BIN)/python -m pytest -q -p no:cacheprovider --numprocesses 2 tests/providers/histories -k session_is_right

soak: $(VENV)/.dev ## run agents, pages and faults for ten minutes
	@$(BIN)/python -m tests.soak

docs: $(VENV)/.docs ## build the documentation site into site/
	@$(BIN)/python -m tools.docs_site

lock: $(VENV)/.dev ## compile the lock files in requirements/
	$(BIN)/python -m tools.lock

clean: ## remove environments and caches, but not DATA_DIR
	rm -rf $(VENV) $(CLIENT_VENV) dist build site .mypy_cache .ruff_cache .pytest_cache .hypothesis node_modules

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Ariadne needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Creating $(VENV) …"
	@$(PYTHON) -m venv $(VENV) || { echo "Could not create a virtual environment. On Debian or Ubuntu: apt install python3-venv"; rm -rf $(VENV); exit 1; }

# The two distributions are installed from the checkout. A lock file cannot contain their hashes.
$(VENV)/.runtime: requirements/runtime.txt pyproject.toml compact_client/pyproject.toml | $(VENV)/bin/python
	@echo "Installing locked dependencies …"
	@$(BIN)/python tools/install.py requirements/runtime.txt --editable compact_client .
	@touch $@

$(CLIENT_VENV)/.ready: requirements/client.txt | $(VENV)/bin/python
	@$(BIN)/python -m venv $(CLIENT_VENV)
	@echo "Installing the client's environment …"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(CLIENT_VENV)/bin/python tools/install.py requirements/client.txt
	@touch $@

$(VENV)/.docs: requirements/docs.txt $(VENV)/.dev
	@echo "Installing locked documentation tools …"
	@$(BIN)/python tools/install.py requirements/docs.txt
	@touch $@

$(VENV)/.bench: requirements/bench.txt $(VENV)/.dev
	@echo "Installing locked baselines …"
	@$(BIN)/python tools/install.py requirements/bench.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	@echo "Installing locked test tools …"
	@$(BIN)/python tools/install.py requirements/dev.txt
	@touch $@
