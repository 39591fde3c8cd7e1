# Every command makes the environment by itself, or reuses it. PYTHON=python3.12 make test picks the interpreter.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH_VENV := .venv-bench
BENCH_BIN := $(BENCH_VENV)/bin
BENCH_READY := $(BENCH_VENV)/.ready
# tests run side by side, so that each takes one thread
TEST_ENV := OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

.DEFAULT_GOAL := help
.PHONY: help demo test check bench mutants format clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

# what is compared with needs packages that tformer does not
$(BENCH_READY): pyproject.toml constraints.txt scripts/bench-requirements.txt
	@test -x $(BENCH_BIN)/python || $(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --requirement scripts/bench-requirements.txt --editable .
	@touch $@

demo: $(READY) ## train on the built-in corpus, translate, evaluate: minutes on a laptop
	$(BIN)/tformer train --output runs/demo --overwrite
	$(BIN)/tformer translate --model runs/demo "I love maths." \
	  "The animal did not cross the street because it was tired." \
	  "The animal did not cross the street because it was wide."
	$(BIN)/tformer eval --model runs/demo

test: $(READY) ## run the tests
	$(TEST_ENV) $(BIN)/pytest --numprocesses auto --dist loadfile

check: $(READY) ## format, lint, types and the layers of the design
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(BENCH_READY) ## speed of training and decoding, beside other libraries; decodes with MODEL=FOLDER, or the newest in runs
	$(BENCH_BIN)/python scripts/bench_training.py
	@test -n "$(MODEL)" -o -d runs || $(BENCH_BIN)/tformer train --output runs/demo
	$(BENCH_BIN)/python scripts/bench_decoding.py $(if $(MODEL),--model $(MODEL)) --lines 10000

mutants: $(READY) ## plant known faults one by one; each must turn a test red
	$(TEST_ENV) $(BIN)/python scripts/mutants.py

format: $(READY) ## put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove what was made here, but for runs/
	rm -rf $(VENV) $(BENCH_VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
