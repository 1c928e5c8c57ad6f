# make demo: everything from a fresh clone to a trained model.   make test: set-up, lint, types, tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-all lint types setup clean

demo: $(VENV)/.installed
	$(BIN)/lightrnn demo

test: lint types
	$(BIN)/python -m pytest -n auto

test-all: lint types
	$(BIN)/python -m pytest -n auto -m "slow or not slow"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

setup: $(VENV)/.installed-dev

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch comes first and pinned: without the pin, pip would fetch gigabytes of CUDA libraries on some machines.
$(VENV)/.installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[train]"
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
