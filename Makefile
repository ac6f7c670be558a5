# The six verbs (make alone lists them), and the demos.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install lint test test-real bench calibrate clean demo demo-engines fuzz soak crosscheck format

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(STAMP) ## make .venv with `shadow` in it

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "shadow needs Python 3.11 or newer; name one with PYTHON=python3.12" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (388 MB from PyPI, 1.6 GB on disk, once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)

lint: install ## ruff, mypy, hadolint
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/hadolint Dockerfile

format: install ## let ruff write the formatting
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

test: install ## the fast tests, on every core; then those that measure time, alone
	@$(BIN)/python -m pytest -q -n auto --dist worksteal -m 'not alone' $(PYTEST_ARGS)
	@$(BIN)/python -m pytest -q -m alone $(PYTEST_ARGS)

fuzz: install ## the fuzz of the relay, then that of the decoder, FUZZ_SECONDS (300) each
	@SHADOW_FUZZ_SECONDS=$(or $(FUZZ_SECONDS),300) $(BIN)/python -m pytest -q -k fuzz

soak: install ## every fault of an arm at full length, then all at once for MINUTES (10)
	@SHADOW_SOAK=1 SHADOW_SOAK_MINUTES=$(or $(MINUTES),10) $(BIN)/python -m pytest -q -s tests/faults

bench: install ## measure; writes bench/results/*.json and docs/benchmarks.md
	@$(BIN)/python tests/kafka/with_broker.py --or-without $(BIN)/python -m bench

calibrate: install ## simulate traffic whose truth is known; writes docs/calibration.md
	@$(BIN)/python -m bench.calibration

crosscheck: install ## AIPerf through the proxy, its figures against ours (1.2 GB from PyPI, once)
	@$(BIN)/python -m bench.crosscheck

test-real: install ## long tests of all processes, on a real Kafka (Java and Maven, or KAFKA_BOOTSTRAP_SERVERS) and Envoy
	@$(BIN)/python -c 'from bench.peers import install_envoy; install_envoy(print)'
	@$(BIN)/python -m pytest -q -m 'kafka or gateway or whole' $(PYTEST_ARGS)

demo: install ## three simulated engines, 1,400 requests, a verdict (CANDIDATE=same, STREAM=kafka)
	@$(if $(filter kafka,$(STREAM)),$(BIN)/python tests/kafka/with_broker.py) \
	  $(BIN)/shadow demo $(if $(CANDIDATE),--candidate $(CANDIDATE)) $(if $(STREAM),--stream $(STREAM))

demo-engines: install ## three llama.cpp servers, 40 prompts (PRIMARY= and CANDIDATE= for your own engines)
	@$(BIN)/shadow demo --engines $(if $(PRIMARY),--primary $(PRIMARY)) \
	  $(if $(CANDIDATE),--candidate-url $(CANDIDATE)) $(if $(CONTROL),--control-url $(CONTROL))

clean: ## remove what make made (the demo's output, caches, .venv)
	@rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
