# `make demo` and `make test` need nothing but make and Python 3.11 or newer. Both use .venv, which the first of
# them fills with the versions in constraints.txt; name another interpreter with `make demo PYTHON=python3.12`.

SHELL := /bin/sh
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# A virtual environment does not survive being moved or copied: the stamp names the place it was made for.
ifneq "$(shell cat $(STAMP) 2>/dev/null)" "$(CURDIR)"
MOVED := moved
endif

# Tests start Python hundreds of times: without compiled files each of these would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

# Processes that run tests: for two cores, because tests wait for the processes that they start a third of the time.
WORKERS = 3

# Files with tests that are marked `alone`: collecting all of the others takes a quarter of a minute.
ALONE = $(shell grep -rl --include='test_*.py' 'mark\.alone' tests | sort)

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-all lint docs dist venv clean moved

help: ## show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1	\2/p' Makefile

demo: $(STAMP) ## train PPO on CartPole-v1 until it is solved, evaluate it, write its report (runs/demo-*)
	@run="runs/demo-$$(date +%Y%m%d-%H%M%S)" && \
	$(BIN)/veldt train ppo --env CartPole-v1 --until 475 --run-dir "$$run" && \
	$(BIN)/veldt evaluate "$$run" --episodes 30 && \
	$(BIN)/veldt report "$$run" && \
	echo && echo "The run's report:" && ls -1d "$$PWD/$$run"/report.*

test: lint ## lint, types, import rules, then every test that is not marked `long` or `exhaustive`
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not alone and not long and not exhaustive"
	$(BIN)/python -m pytest -m "alone and not long and not exhaustive" $(ALONE)

test-long: $(STAMP) ## the tests marked `long`: all algorithms in all systems, Ray on several nodes, many kills
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "long and not alone and not exhaustive"
	$(BIN)/python -m pytest -m "long and alone and not exhaustive" $(ALONE)

test-all: test test-long ## all tests: also those marked `exhaustive`, more variants of what the others show
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "exhaustive and not alone"
	$(BIN)/python -m pytest -m "exhaustive and alone" $(ALONE)

lint: $(STAMP) ## style, formatting, types and import rules, without the tests
	$(BIN)/ruff check --no-cache . # the cache does not notice that a new file has made an import local
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(STAMP) ## build the documentation's site, from docs/ into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "The site: $(CURDIR)/build/site/index.html"

dist: $(STAMP) ## build the sdist and the wheel, into dist
	$(BIN)/python -m build --no-isolation --outdir dist .

venv: $(STAMP) ## only install, into .venv

clean: ## remove .venv, builds and caches (runs/ stays)
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# The stamp is written last, so an install that failed or was interrupted is taken up again by the next make.
$(STAMP): pyproject.toml constraints.txt $(MOVED)
	@rm -f $(STAMP)
	@set -e; \
	if ! { [ "$$(cat $(VENV)/.place 2>/dev/null)" = "$$(pwd -P)" ] && $(BIN)/python -m pip --version >/dev/null 2>&1; }; then \
	  python=; \
	  for each in $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11); do \
	    if "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then python="$$each"; break; fi; \
	  done; \
	  if [ -z "$$python" ]; then \
	    found="$$($(if $(PYTHON),"$(PYTHON)",python3) --version 2>&1)" || found="no such program"; \
	    echo "veldt needs Python 3.11 or newer, and $(if $(PYTHON),$(PYTHON),python3) is: $$found." >&2; \
	    echo "Install a newer Python, or name one: make PYTHON=/path/to/python3.12" >&2; \
	    exit 1; \
	  fi; \
	  if ! "$$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	    echo "$$python has no venv module. On Debian and Ubuntu: apt install python3-venv" >&2; \
	    exit 1; \
	  fi; \
	  echo "Making $(VENV) with $$("$$python" --version) (the first install takes a few minutes)"; \
	  "$$python" -m venv --clear $(VENV); \
	  pwd -P >$(VENV)/.place; \
	fi
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt setuptools
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt --no-build-isolation --no-compile -e '.[dev]'
	@# pip compiles on one core only. A package may have files for other versions of Python, which do not compile.
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true
	@pwd -P >$(STAMP)

moved:
