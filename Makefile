# Needs Python 3.11 or newer and a package index; everything else is installed into .venv.
PYTHON  ?= python3
WORKERS ?= 2
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check -qq
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint campaign campaign-parity bench golden

help:  ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-15s %s\n", $$1, $$2 }'

demo: $(VENV)/.base  ## install without extras and answer one question
	.venv/bin/meshwright plan serve Qwen/Qwen3-32B --on hgx-h100 --sessions 4 --context 131064 --new-tokens 8 --deadline 130ms --on-time 75% --discipline fifo --all-reduce ring

test: lint  ## every gate, then every test
	$(BIN)/pytest -n $(WORKERS) --durations=10

lint: $(VENV)/.test  ## the gates: style, format, spelling, types, architecture
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/codespell
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --no-logo --no-cache

campaign: $(VENV)/.test  ## long randomised tests, and docs/campaign.md
	$(BIN)/python -m tests.campaign

campaign-parity: $(VENV)/.test  ## the part of it that runs every kind of layout on real processes
	$(BIN)/python -m tests.campaign parity

bench: $(VENV)/.test  ## speed budgets, as ratios within one run
	$(BIN)/python -m benchmarks

golden: $(VENV)/.test  ## the golden values, and how far each one is from its expectation
	$(BIN)/python -m tests.golden.report

# The workers already fill the cores: numpy and torch inside them take one thread each.
test campaign campaign-parity: export OMP_NUM_THREADS = 1

# Stamps: an install is repeated only when pyproject.toml or constraints.txt changed.
$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "installing meshwright into $(VENV)"
	@$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "installing meshwright and the tools of its gates into $(VENV)"
	@$(PIP) install -c constraints.txt -e ".[test]"
	@touch $@ $(VENV)/.base
