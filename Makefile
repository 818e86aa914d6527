# "make rehearsal" and "make test" are the main targets. Each installs what it needs.
PYTHON ?= python3
VENV := .venv/bin
ARGS ?=
BASE ?= HEAD

# The tests start hundreds of processes: without bytecode, each compiles again what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help rehearsal rehearsal-actions mlgo-demo test test-rest test-all test-slow fuzz mutants setup setup-tests setup-slow lint types unit size clean

help:
	@echo "make rehearsal           the complete release process on this machine, on real MLIR (options: ARGS='--python 3.12')"
	@echo "make rehearsal-actions   the same by the GitHub workflows, run by act, from the pin to a published release"
	@echo "                         (ARGS='--actions DIR': with the real actions, from clones DIR/OWNER+NAME)"
	@echo "make mlgo-demo           train an eviction policy on LLVM's own libraries, and embed it (ARGS='--minutes 20')"
	@echo "make test                lint, types, the unit tests, the main path of each room, and a real wheel end to end:"
	@echo "                         run it before each commit (one room, whole: ROOM=integrate)"
	@echo "make test-rest           all other tests that CI runs on each commit; tests/rest.toml says why they are here"
	@echo "make test-all            both"
	@echo "make test-slow           what takes hours: exhaustive variants, other distributions; CI runs it on Sundays"
	@echo "                         (one file: ARGS=tests/e2e/test_distributions.py)"
	@echo "make fuzz                malformed files for every reader and every command, part of it guided by coverage"
	@echo "                         (ARGS='--minutes 60 --number 6000'; one kind, one reader: ARGS='coverage --only manifest')"
	@echo "make mutants             faults put into the toolkit on purpose, each of which its tests must notice"
	@echo "                         (one: ARGS='--only pin-base')"
	@echo "make unit                only the tests that take seconds"
	@echo "make lint types          only ruff and the workflow checks; only mypy"
	@echo "make size                how large the package is, room by room, beside a commit (BASE=origin/main)"
	@echo "make clean               remove .venv and build/ (caches are kept)"

setup:
	@$(PYTHON) tools/bootstrap.py

setup-tests:
	@$(PYTHON) tools/bootstrap.py --tests

setup-slow:
	@$(PYTHON) tools/bootstrap.py --slow

rehearsal-actions: setup
	PATH="$(CURDIR)/$(VENV):$$PATH" $(VENV)/python -m tests.workflows.rehearse $(ARGS)

rehearsal: setup
	$(VENV)/mlir-release rehearsal $(ARGS)

mlgo-demo:
	@$(PYTHON) tools/bootstrap.py --mlgo
	$(VENV)/python tools/mlgo_demo.py $(ARGS)

lint: setup
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/python tools/list_errors.py
	$(VENV)/python tools/schemas.py
	$(VENV)/python tools/permissions.py
	$(VENV)/python tools/reference.py
	$(VENV)/zizmor --quiet --offline --persona=auditor .
	"$$($(VENV)/python tools/go_tool.py actionlint)"
	$(VENV)/python tools/parse_workflows.py .github/workflows/*.yml actions/*/action.yml
	$(VENV)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/check-jsonschema --builtin-schema vendor.github-actions actions/*/action.yml
	$(VENV)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(VENV)/check-jsonschema --builtin-schema vendor.renovate .github/renovate.json

types: setup
	$(VENV)/mypy

unit: setup
	$(VENV)/pytest -q tests/*/unit $(ARGS)

# The tests of real wheels first, which take longest. One more process than processors: tests also wait.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST = $(VENV)/pytest -q --instafail --numprocesses $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder
SEAMS = tests/seams tests/commands tests/attacks tests/fuzz tests/platforms
EVERYTHING = tests/e2e tests/*/integration $(SEAMS) tests/*/unit

ifdef ROOM
test: setup-tests
	$(PYTEST) $(if $(filter seams,$(ROOM)),$(SEAMS),tests/$(ROOM)) $(ARGS)
else
test: setup-tests
	@$(MAKE) --no-print-directory --jobs=2 lint types
	$(PYTEST) -m "not slow and not rest" $(EVERYTHING) $(ARGS)
endif

test-rest: setup-tests
	$(PYTEST) -m "rest and not slow" $(EVERYTHING) $(ARGS)

test-all: test test-rest

test-slow: setup-slow
	$(VENV)/pytest -q -m slow --numprocesses auto --dist loadgroup $(ARGS)

fuzz: setup
	$(VENV)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement requirements/fuzz.txt
	$(VENV)/python -m tests.fuzz $(ARGS)

size: setup
	@$(VENV)/python tools/size.py $(BASE)

mutants: setup-tests
	$(VENV)/python -m tests.mutants $(ARGS)

clean:
	rm -rf .venv build
