# Everything runs in one virtual environment, .venv, that these rules build by themselves.
PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/
CORE   := $(VENV)/.core-installed
TEST   := $(VENV)/.test-installed
DEV    := $(VENV)/.dev-installed
SCHEMA := $(RUN)check-jsonschema --quiet --builtin-schema
# Modules are compiled when they are first imported: to compile all takes half the installation.
PIP    := $(RUN)python -m pip install --quiet --disable-pip-version-check --no-compile
# uv takes a fifth of pip's time. Where it cannot be had, or does not reach the packages, pip installs.
UV     := UV_CACHE_DIR=$(VENV)/.uv UV_HTTP_RETRIES=1 $(RUN)uv --native-tls pip install --quiet --python $(RUN)python
ALSO   := -c constraints.txt -e
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help quickstart fleet play test lint bench faults fuzz portable surroundings docs wheel clean

help:  ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else \
	  "crosslearning needs Python 3.11 or later, this is %d.%d; try: make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	-@$(PIP) uv 2>/dev/null

$(CORE): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing crosslearning into $(VENV) (about a minute)"
	@$(UV) $(ALSO) . 2>/dev/null || $(PIP) $(ALSO) .
	@touch $@

$(TEST): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing crosslearning with what its tests need into $(VENV) (about a minute)"
	@$(UV) $(ALSO) ".[test]" 2>/dev/null || $(PIP) $(ALSO) ".[test]"
	@touch $@ $(CORE)

$(DEV): pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing crosslearning with all tools for its development into $(VENV) (about a minute)"
	@$(UV) $(ALSO) ".[dev]" 2>/dev/null || $(PIP) $(ALSO) ".[dev]"
	@touch $@ $(TEST) $(CORE)

quickstart: $(CORE)  ## build the environment, run the main job, draw its pictures
	$(RUN)crosslearning quickstart

fleet: $(CORE)  ## build the environment, learn eight pendulums, show them at work
	$(RUN)crosslearning demo fleet

play: $(CORE)  ## build the environment, write the playground and open it
	$(RUN)crosslearning play

test:  ## build the environment and run every test
	@sh scripts/install_chromium.sh & $(MAKE) --no-print-directory $(TEST) && wait
	$(RUN)python -m pytest

lint: $(DEV)  ## style, types, the import contract, and the files that GitHub reads
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy
	$(RUN)lint-imports
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.citation-file-format CITATION.cff

bench: $(TEST)  ## measure speed as ratios, print a table
	$(RUN)python -m benchmarks

faults: $(TEST)  ## break runs on purpose, print a table of what is lost
	OPENBLAS_NUM_THREADS=1 $(RUN)python -m benchmarks.faults

fuzz: SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
fuzz: $(TEST)  ## give files and the command line 100,000 strange things, and all properties new examples
	@echo "These cases again: make fuzz SEED=$(SEED)"
	CROSSLEARNING_FUZZ=100000 $(RUN)python -m pytest -m hypothesis --hypothesis-seed=$(SEED)

surroundings:  ## run the tests as others would: another user, no home, no compiler, twice at once
	sh scripts/surroundings.sh

portable: $(TEST)  ## run the numerical tests as on other processors
	$(RUN)python scripts/portable.py

docs: $(DEV)  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(RUN)mkdocs build --strict --quiet

wheel: $(DEV)  ## build the distributions into dist/ and use the wheel alone
	$(RUN)python -m pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	$(RUN)python scripts/check_wheel.py --dist dist

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) .portable site dist figures .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
