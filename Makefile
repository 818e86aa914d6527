# The two commands that matter: "make rehearsal" and "make test". Both set up everything they need.
PYTHON ?= python3
VENV := .venv/bin
ARGS ?=

.PHONY: help rehearsal test setup setup-tests lint types unit clean

help:
	@echo "make rehearsal   the whole main job on this machine, on real MLIR (ARGS='--python 3.12' and so on)"
	@echo "make test        lint, types, unit and integration tests, and a real wheel end to end"
	@echo "make unit        only the tests that take seconds"
	@echo "make lint types  only ruff and the workflow checks, only mypy"
	@echo "make clean       remove the virtual environment and the rehearsal's workspace (caches stay)"

setup:
	@$(PYTHON) tools/bootstrap.py

setup-tests:
	@$(PYTHON) tools/bootstrap.py --tests

rehearsal: setup
	$(VENV)/mlir-release rehearsal $(ARGS)

lint: setup
	$(VENV)/ruff check .
	$(VENV)/ruff format --check .
	$(VENV)/python tools/list_errors.py
	$(VENV)/zizmor --quiet --offline --persona=auditor .
	$(VENV)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/check-jsonschema --builtin-schema vendor.github-actions actions/*/action.yml

types: setup
	$(VENV)/mypy

unit: setup
	$(VENV)/pytest -q tests/unit $(ARGS)

test: setup-tests lint types
	$(VENV)/pytest -q tests/unit tests/integration --numprocesses auto --dist loadfile $(ARGS)
	$(VENV)/pytest -q tests/e2e $(ARGS)

clean:
	rm -rf .venv build
