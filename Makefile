# Every target sets up what it needs first. `make` alone lists them.
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.kbn-ready
# More than cores: many tests wait for processes of their own.
WORKERS ?= 4

.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-slow test-random test-long test-python test-spark check format bench clean

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## the environment in .venv with the pinned dependencies, and Java when there is none

$(STAMP): requirements.lock pyproject.toml scripts/setup
	@scripts/setup $(VENV)
	@scripts/ensure-java
	@touch $@

java:  ## a Java runtime (17+) for Spark and for reasoning at the dl level; fails when there is none
	@scripts/ensure-java --required

demo: setup java  ## a podcast day through the whole pipeline on Spark: who got what and why, and a page with plots
	@$(BIN)/kbn demo

test: setup  ## style, types and the tests that take seconds; the same run every time
	@$(BIN)/python scripts/compile_kernels & compiling=$$!; scripts/check && wait $$compiling
	@scripts/test -n $(WORKERS)

test-slow: setup  ## the tests that take minutes
	@scripts/test -n $(WORKERS) -m slow

# RANDOM_ARGS="--seconds 1800" goes on for half an hour; "--seed N" repeats a run.
test-random: setup  ## the random tests with fresh seeds; prints how to replay
	@$(BIN)/python scripts/test-random --workers $(WORKERS) $(RANDOM_ARGS)

# Longer than a build may take. docs/reference/long-tests.md keeps the last result.
test-long: setup java  ## what takes longer than a build may: thousands of fresh worlds, thorough random tests
	@scripts/test-long

test-python:  ## the fast tests that need no Spark on another Python: VERSION=3.13
	@scripts/test-python $(VERSION)

# The newest release is in the lock: `make test` runs the tests on it.
test-spark: java  ## the fast Spark tests on another release of Spark: VERSION=4.0.1
	@scripts/test-spark $(VERSION)

check: setup  ## formatting, lint, strict types
	@scripts/check

format: setup  ## rewrite the sources in the project's format
	@$(BIN)/ruff check -q --fix --select I src tests
	@$(BIN)/ruff format -q src tests

bench: setup  ## matching, small sizes, ours against the plain evaluator and a poset walk
	@scripts/bench

clean:  ## remove the environment and everything built
	@rm -rf $(VENV) .cache build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	@find src tests -type d -name __pycache__ -prune -exec rm -rf {} +
