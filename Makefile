PYTHON ?= python3
# Where it is set, every process of every run of the tests compiles a thousand modules again: 25 s of CPU time each.
export PYTHONDONTWRITEBYTECODE :=
BIN := .venv/bin
CODE := $(wildcard src tests bench examples tools)
# The tests with a server's store behind them, wherever they stand.
WITH_STORE := tests/conformance/channels tests/conformance/ocip tests/interop/openintent tests/surface/http \
	tests/unit/app/team tests/unit/sdk/blocking tests/unit/sdk/client tests/unit/sdk/agent tests/unit/sdk/workflow \
	tests/e2e/test_an_agent_in_ten_lines_outlives_its_crashes.py \
	tests/surface/console/test_approval_links.py tests/surface/console/test_many_agents.py \
	$(wildcard tests/surface/cli/test_team_*.py) tests/surface/cli/test_audit_log.py \
	tests/fault/team/test_rounds.py tests/fault/team/test_decisions.py \
	tests/fault/test_approval_machine.py tests/fault/test_exchange_machine.py
PYTEST := $(BIN)/pytest -n auto --dist worksteal
# While working: 25 examples of a property instead of 100, and nothing that takes seconds.
QUICK := --hypothesis-profile=dev -m "not slow"

# A finished .venv answers for itself in milliseconds. An interpreter named by hand is always heard.
ifeq ($(origin PYTHON),file)
BOOTSTRAP = $(BIN)/python -I -S tools/bootstrap.py $(1) --check 2>/dev/null || $(PYTHON) tools/bootstrap.py $(1)
else
BOOTSTRAP = $(PYTHON) tools/bootstrap.py $(1)
endif

.DEFAULT_GOAL := help
.PHONY: help setup tools wheel run story test system stores postgres counts lint types imports collect static check fault harness mcp bench attention console docs clean

help: ## List the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 12

setup: ## Make .venv with what runs, and the command .venv/bin/parley (PYTHON=... names the interpreter)
	@$(call BOOTSTRAP)

tools: ## Add the development tools to .venv
	@$(call BOOTSTRAP,--tools)

wheel: setup ## Build the package: dist/agent_parley-VERSION-py3-none-any.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

run: setup ## Start the server (Ctrl-C ends it)
	$(BIN)/parley up

story: setup ## Tell a story between three mailboxes, with real commands
	$(BIN)/python examples/mailbox_story.py

test: tools ## Run the tests: unit, contract (both stores), conformance, surface, golden
	$(PYTEST) $(QUICK)

system: tools ## Run the system tests: end to end, documentation, peers, faults (short), API fuzzing
	$(PYTEST) --hypothesis-profile=ci tests/e2e tests/docs tests/interop tests/fault tests/fuzz

stores: tools ## Repeat on PostgreSQL what a store could do differently
	$(PYTEST) --store postgres -m both_stores $(WITH_STORE)

postgres: tools ## Repeat every test that has a server's store behind it on PostgreSQL
	$(PYTEST) --store postgres $(WITH_STORE)

counts: tools ## Compare what requests and commands execute with what is recorded
	$(BIN)/python -m bench count

lint: tools ## Check style and formatting
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: tools ## Check types
	$(BIN)/mypy $(CODE)
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: tools ## Check who may import whom
	$(BIN)/lint-imports

collect: tools ## Check that every test can be found, which compiles them once for all that run them
	@found=$$($(BIN)/pytest --collect-only --quiet --ignore tests/harness --ignore tests/mcp_client tests) || \
		{ echo "$$found" | sed -n '/ ERRORS =/,$$p'; exit 1; }

# Each of these uses one core. What one of them prints stays together. Counts are not among them: on a
# busy machine a plain POST was seen to take 12% more bytecodes.
static: tools
	@$(MAKE) --no-print-directory --jobs --output-sync=target collect lint types imports

check: QUICK := --hypothesis-profile=ci
check: static test system stores counts ## Run all of the above but postgres: what CI runs

fault: tools ## Run the fault tests at full length
	PARLEY_FAULT=full $(PYTEST) -m fault tests/fault tests/fuzz

harness: tools ## Run the real coding agents without a network, with a scripted model (fetches them once: 400 MB)
	$(BIN)/python -m tests.harness.isolation $(BIN)/pytest -n auto --dist worksteal tests/harness

mcp: tools ## Let the official MCP client talk to Parley (fetches it once: 70 MB)
	@test .venv-mcp/lock -nt requirements/mcp.txt || { $(BIN)/python -m venv --clear .venv-mcp && \
		.venv-mcp/bin/pip install --quiet --require-hashes -r requirements/mcp.txt && touch .venv-mcp/lock; }
	$(BIN)/pytest tests/mcp_client

bench: tools ## Measure, side by side with the peers (also "make bench attention", "make bench console")
	$(if $(filter attention console,$(MAKECMDGOALS)),,$(BIN)/python -m bench)

attention: tools
	$(BIN)/python -m bench attention

console: tools
	$(BIN)/python -m bench console

docs: tools ## Regenerate the blocking client and the reference
	$(BIN)/python tools/gen_client.py
	$(BIN)/python tools/gen_docs.py
	$(BIN)/python tools/gen_examples.py

clean: ## Remove .venv, caches and build results
	rm -rf .venv .venv-mcp .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +
