# Everything a contributor runs. It needs make and a Python from 3.11 on; the rest is set up on first use, in .venv.

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq
PEERS := .venv-peers
PEER_PACKAGES := langgraph==1.2.24 langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2
WORKERS := -n auto --maxprocesses 4
ARGS :=

.DEFAULT_GOAL := help
.PHONY: help demo test check format lint nightly coverage bench bench-growth clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  ARGS="…" is passed on, e.g. make test ARGS="-k interrupt"'

demo: $(VENV)/.core ## Run the demo: a run that is killed, resumed and answered
	@$(PY) examples/digest $(ARGS)

test: $(VENV)/.test ## Run the tests
	@$(PY) -m pytest $(WORKERS) $(ARGS)

check: lint test ## All that CI checks: format, lint, types, layers, tests

lint: $(VENV)/.lint
	@$(PY) -m ruff format --check
	@$(PY) -m ruff check
	@$(PY) -m mypy
	@$(VENV)/bin/lint-imports --no-logo

format: $(VENV)/.lint ## Format the code and mend what a tool can mend
	@$(PY) -m ruff format
	@$(PY) -m ruff check --fix

nightly: $(VENV)/.test ## Run the tests that take too long for every change
	@PERDURE_NIGHTLY=1 $(PY) -m pytest $(WORKERS) -m nightly $(ARGS)

coverage: $(VENV)/.coverage ## Run the tests and show which branches they miss
	@$(VENV)/bin/coverage erase
	@$(VENV)/bin/coverage run -m pytest $(ARGS)
	@$(VENV)/bin/coverage combine --quiet
	@$(VENV)/bin/coverage report

bench: $(VENV)/.core $(PEERS)/.done ## Compare a super-step with the peer and with the machine's limits
	@$(PY) benchmarks/super_step.py --peer-python $(PEERS)/bin/python $(ARGS)

bench-growth: $(VENV)/.core $(PEERS)/.done ## Show what a conversation costs as it grows: a table and growth.png
	@$(PY) benchmarks/growth.py --peer-python $(PEERS)/bin/python --json growth.json $(ARGS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check -qq install matplotlib
	@$(PEERS)/bin/python benchmarks/growth.py --draw-from growth.json --png growth.png

clean: ## Remove what this Makefile and the tools made
	rm -rf $(VENV) $(PEERS) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage .coverage.* dist
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A stamp stands for a finished step; a change of the requirements makes it stale.

$(VENV)/.made:
	@python=$$(sh requirements/find-python.sh) && echo "Setting up $(VENV) with $$python (once) …" && $$python -m venv --clear $(VENV)
	@$(PIP) install --upgrade --constraint requirements/dev.txt pip
	@touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml requirements/dev.txt
	@$(PIP) install --constraint requirements/dev.txt --editable .
	@touch $@

$(VENV)/.test $(VENV)/.lint $(VENV)/.coverage: $(VENV)/.%: $(VENV)/.core
	@$(PIP) install --constraint requirements/dev.txt --group test --group $*
	@touch $@

$(PEERS)/.done: Makefile requirements/find-python.sh
	@python=$$(sh requirements/find-python.sh) && echo "Setting up $(PEERS) (once) …" && $$python -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip --disable-pip-version-check -qq install $(PEER_PACKAGES)
	@touch $@
