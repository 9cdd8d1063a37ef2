# Two commands for a new user: `make app` and `make test`. Everything else is for contributors.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
PROCESSES ?= 2
# Whole files go to one process each, in the order of tests/conftest.py: what takes longest first.
SHARED := -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
BIN := $(VENV)/bin
TORCH := $(shell sed -n '/^torch==/p' requirements.txt)
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
INSTALL := $(PIP) install -c constraints.txt

.PHONY: app test check lint types imports perf ci install install-dev browser format requirements wheel clean help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

app: $(VENV)/.installed ## set everything up and start the web app and one worker
	@$(BIN)/python -m workbench up

test: $(VENV)/.installed-dev browser ## set up what the tests need and run them all
	@$(BIN)/python -m pytest -m "not alone" $(SHARED)
	@$(BIN)/python -m pytest -m alone

check: lint types imports ## what to run between commits: all but the slow tests and those in a browser
	@$(BIN)/python -m pytest -m "not slow and not browser and not alone" $(SHARED)

lint: $(VENV)/.installed-dev ## style and formatting
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## static types
	@$(BIN)/mypy

imports: $(VENV)/.installed-dev ## who may import whom
	@$(BIN)/lint-imports

DATA ?= ../shared/data/ner
perf: $(VENV)/.installed-dev browser ## measure what anybody waits for, beside its best peers; writes docs/performance.md
	@$(INSTALL) --requirement requirements-accelerate.txt || true # one of the peers; without it its figures are missing
	@$(BIN)/python -m benchmarks.perf --data $(DATA)

ci: lint types imports test ## all of it, in the order of CI

format: $(VENV)/.installed-dev ## rewrite the code in the house style
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

install: $(VENV)/.installed ## only the environment of the app
install-dev: $(VENV)/.installed-dev ## only the environment of the tests

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed; $(PYTHON) is older. Name another one: make PYTHON=/path/to/python3.11 app"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "The virtual environment could not be made; on Debian: apt install python3-venv"; rm -rf $(VENV); exit 1; }

# The CPU build of PyTorch where pip can find it; elsewhere the default build of the same version comes with the rest.
$(VENV)/.installed: pyproject.toml requirements.txt constraints.txt crossner_core/gazetteer/_scan.c | $(VENV)/bin/python
	@echo "Installing the environment into $(VENV) (once; a few minutes) …"
	@$(INSTALL) --upgrade pip setuptools setuptools-scm # the last: seqeval is built from source and has no version without it
	@$(PIP) install "$(TORCH)+cpu" 2>/dev/null || true
	@$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@$(INSTALL) --no-build-isolation --editable ".[dev,postgres]"
	@touch $@

requirements: $(VENV)/bin/python ## write requirements*.txt anew from pyproject.toml
	@$(BIN)/python .ci/requirements.py

# From nothing: what an earlier build left in build/ would come along.
wheel: $(VENV)/.installed ## build dist/*.whl, which pip can install anywhere
	@rm -rf build dist
	@$(PIP) wheel . --no-deps --no-build-isolation --wheel-dir dist
	@rm -rf build *.egg-info && ls dist/*.whl

browser: ## find Chromium for the browser tests, or install Debian's
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
		echo "Installing Chromium for the browser tests …"; \
		(apt-get update -qq && apt-get install -y -qq chromium) >/dev/null 2>&1; } || \
		{ echo "No Chromium found and it could not be installed: install the package chromium (as root), then run make test again."; exit 1; }

clean: ## remove the environment and caches, never the data
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build dist *.egg-info
