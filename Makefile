# Each target does its own set-up on a fresh machine; what it builds stays inside the checkout.
#
#   make demo       the main job on Spark's local mode
#   make test       the tests of a few seconds each (PYTEST_ARGS="-k band" runs a part of them)
#   make test-long  the others: clusters, kills, damaged checkpoints, all figures of the papers
#   make soak       hours of WHAT=answers, kills, damage or memory; goes on where it was left (docs/reliability.md)
#   make bench      side by side with Spark's own joins (BENCH_ARGS="--json")
#   make lint       style, types, layers
#   make clean      removes everything that the others made
#
# PYTHON=/path/to/python chooses the interpreter of the environment.

.DEFAULT_GOAL := test
.DELETE_ON_ERROR:
.PHONY: demo test test-long soak bench lint clean

VENV := .venv
BIN := $(VENV)/bin

DEMO_ARGS ?=
# Two workers, a file of tests each: most of a small Spark job is waiting for the driver.
PYTEST_ARGS ?= -n 2 --dist loadfile
BENCH_ARGS ?=
WHAT ?=
SOAK_ARGS ?=

# An environment knows the path it was made for, and its `anabranch` is the code at that path. So
# does the name of the stamp: a checkout that was copied or moved with its environment gets a new one.
STAMP := $(VENV)/made-for-$(firstword $(shell pwd | cksum))

# The recipe stops here if there is no Java.
WITH_JAVA = JAVA_HOME="$$(scripts/java.sh)" && export JAVA_HOME &&

demo: $(STAMP)
	@$(WITH_JAVA) $(BIN)/anabranch demo $(DEMO_ARGS)

test: $(STAMP)
	@$(WITH_JAVA) $(BIN)/python -m pytest -m "not long" $(PYTEST_ARGS)

test-long: $(STAMP)
	@$(WITH_JAVA) $(BIN)/python -m pytest -m long $(PYTEST_ARGS)

soak: $(STAMP)
	@$(WITH_JAVA) $(BIN)/python -m tests.soak $(WHAT) $(SOAK_ARGS)

bench: $(STAMP)
	@$(WITH_JAVA) $(BIN)/anabranch bench all $(BENCH_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

$(STAMP): requirements.lock pyproject.toml scripts/venv.sh
	@PYTHON="$(PYTHON)" scripts/venv.sh $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) build dist src/*.egg-info
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf spark-warehouse metastore_db derby.log examples/data examples/out examples/out-cameras report
	find src tests examples -type d -name __pycache__ -prune -exec rm -rf {} +
