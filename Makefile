PYTHON ?= python3
BIN := .venv/bin
CODE := $(wildcard src tests bench examples tools)
# What the API says of itself is fuzzed once: it takes minutes, and the store has no say in it.
ON_POSTGRES := tests/conformance/channels tests/conformance/ocip tests/interop/openintent tests/surface/http \
	tests/unit/app/team tests/unit/sdk/client tests/unit/sdk/agent tests/unit/sdk/workflow \
	tests/e2e/test_an_agent_in_ten_lines_outlives_its_crashes.py \
	$(wildcard tests/surface/cli/test_team_*.py) tests/surface/cli/test_audit_log.py \
	tests/fault/team/test_rounds.py tests/fault/team/test_decisions.py \
	tests/fault/test_approval_machine.py tests/fault/test_exchange_machine.py \
	--ignore=tests/surface/http/test_described_by_openapi.py

# A finished .venv answers for itself in milliseconds. An interpreter named by hand is always heard.
ifeq ($(origin PYTHON),file)
READY := $(BIN)/python -I -S tools/bootstrap.py --check 2>/dev/null ||
endif

.DEFAULT_GOAL := help
.PHONY: help setup run story test lint types imports check fault bench docs clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 12

setup: ## Make .venv with the locked versions (PYTHON=... names the interpreter)
	@$(READY) $(PYTHON) tools/bootstrap.py

run: setup ## Start the server (Ctrl-C ends it)
	$(BIN)/parley up

story: setup ## Tell a story between three mailboxes, with real commands
	$(BIN)/python examples/mailbox_story.py

test: setup ## Run all tests, and those that a server's store matters for on PostgreSQL, too
	$(BIN)/pytest -n auto
	$(BIN)/pytest -n auto --store postgres $(ON_POSTGRES)

lint: setup ## Check style and formatting
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: setup ## Check types
	$(BIN)/mypy $(CODE)
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: setup ## Check who may import whom
	$(BIN)/lint-imports

check: lint types imports test ## lint, types, imports and test: what CI runs

fault: setup ## Run the fault tests at full length
	PARLEY_FAULT=full $(BIN)/pytest -n auto -m fault tests/fault

bench: setup ## Measure, side by side with the peers
	$(BIN)/python -m bench

docs: setup ## Regenerate the generated reference
	$(BIN)/python tools/gen_docs.py

clean: ## Remove .venv, caches and build results
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
