# Every target sets itself up: the first call makes an environment in .venv and installs what the
# target needs; later calls reuse it until pyproject.toml changes.
#
#   make demo     fit the two data sets that come with the package, save demo.png
#   make test     the test suite            (make test ARGS="-m slow" for the long ones)
#   make test-bare    the same without the extras; make test-lowest: with the lowest versions allowed
#   make lint     ruff, mypy --strict, the order of the rooms, spelling and prose
#   make docs     the documentation, in docs/_build/html
#   make bench    what can be measured      (make bench NAME=moments ARGS="--long" to do it)
#   make experiments  the paper's tables (make experiments NAME=phase_transition ARGS="--quick")
#   make dist     wheel and sdist in dist/, each tried in a fresh environment
#   make refresh  rerun the code of README and docs, write its output into them, redraw the rooms
#   make format   let ruff rewrite the code
#   make clean    remove what was built; make distclean removes the environment too
#
# VENV=DIR uses another environment, PYTHON=EXE another interpreter (3.11 or later).

VENV ?= .venv
WITH ?= dev
PYTHON ?=
ARGS ?=
NAME ?=

BIN := $(VENV)/bin
CODE := src tests benchmarks experiments docs tools neighbours
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --prefer-binary

.DEFAULT_GOAL := help
.PHONY: help demo test test-bare test-lowest lint format docs bench experiments refresh dist clean \
  distclean

help:
	@sed -n '/^#   make/s/^#   /  /p' Makefile

demo: $(VENV)/.ready-plots
	@$(BIN)/python -m polysharp demo $(ARGS)

# One thread per worker: the workers already fill the cores.
test: $(VENV)/.ready-$(WITH)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n auto --maxprocesses 8 $(ARGS)

# Tests that need what is not installed are skipped.
test-bare:
	@$(MAKE) --no-print-directory test VENV=$(VENV)-bare WITH=test

# Warnings are not errors there: old versions warn of what newer ones below them have changed.
test-lowest:
	@$(MAKE) --no-print-directory test VENV=$(VENV)-lowest WITH=lowest ARGS="-W default $(ARGS)"

lint: $(VENV)/.ready-dev
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/codespell $(CODE) README.md CHANGELOG.md CONTRIBUTING.md paper
	@$(BIN)/python tools/prose.py

format: $(VENV)/.ready-dev
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

docs: $(VENV)/.ready-docs
	@rm -rf docs/api
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

refresh: $(VENV)/.ready-dev
	@$(BIN)/python docs/architecture.py
	@$(BIN)/python docs/trace.py
	@$(BIN)/python docs/refresh.py $(ARGS)

bench: $(VENV)/.ready-dev
	@if [ -n "$(NAME)" ]; then $(BIN)/python benchmarks/$(NAME).py $(ARGS); \
	else grep -h '^    python benchmarks/' benchmarks/*.py; fi

experiments: $(VENV)/.ready-dev
	@if [ -n "$(NAME)" ]; then $(BIN)/python -m experiments.$(NAME) $(ARGS); \
	else grep -h '^    python -m experiments' experiments/*.py; fi

dist: $(VENV)/.ready-dev
	@$(PIP) build
	@rm -rf dist
	@$(BIN)/python -m build --outdir dist . >/dev/null
	@PYTHON=$(abspath $(BIN)/python) tools/check_dist.sh dist

clean:
	rm -rf build dist .asv docs/_build docs/api docs/gallery demo.png
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	@if [ -f "$(VENV)/pyvenv.cfg" ]; then echo "rm -rf $(VENV)"; rm -rf "$(VENV)"; fi

# The environment. A name on the PATH is not enough (version managers leave shims of interpreters
# that are not there), so each candidate is asked for its version.
$(BIN)/python:
	@for candidate in $(PYTHON) python3.14 python3.13 python3.12 python3.11 python3 python; do \
	  if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    found="$$candidate"; break; \
	  fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "polysharp needs Python 3.11 or later, and none was found on the PATH." >&2; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
	  exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version)"; \
	if ! "$$found" -m venv "$(VENV)"; then \
	  rm -f "$(BIN)/python"; \
	  echo "$$found could not make an environment (on Debian and Ubuntu: install python3-venv)." >&2; \
	  exit 1; \
	fi

$(VENV)/.ready-lowest: pyproject.toml | $(BIN)/python
	@echo "Installing polysharp and its extras at their lowest versions into $(VENV)"
	@$(BIN)/python tools/lowest.py >$(VENV)/lowest.txt
	@$(PIP) --constraint $(VENV)/lowest.txt --editable ".[all,neighbours,test]"
	@touch $@

$(VENV)/.ready-%: pyproject.toml | $(BIN)/python
	@echo "Installing polysharp[$*] into $(VENV) (once; a minute or two)"
	@$(PIP) --editable ".[$*]"
	@touch $@
