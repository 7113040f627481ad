# Every target builds its own environment first: on a fresh machine `make demo` and `make test` are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT ?= out

.PHONY: demo test test-all bench lint clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable '.[plots,audit,distributed]'
	@touch $(STAMP)

demo: $(STAMP)
	@mkdir -p $(OUT)
	$(BIN)/noisymean demo --out $(OUT)

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: $(STAMP) lint
	$(BIN)/python -m pytest -n 2

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group bench
	$(BIN)/python -m benchmarks

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) $(OUT) .mypy_cache .pytest_cache .ruff_cache
