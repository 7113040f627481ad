# Every target builds its own environment first: on a fresh machine `make demo` and `make test` are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT ?= out

.PHONY: demo check test test-all bench docs pictures browser lint clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --group docs --editable '.[plots,audit,distributed,explore]'
	@touch $(STAMP)

demo: $(STAMP)
	@mkdir -p $(OUT)
	$(BIN)/noisymean demo --out $(OUT)

# Tests run two at a time: more threads than that only wait for each other.
check test test-all: export OMP_NUM_THREADS ?= 1

# While at work: the mathematics and the command line, in a minute or so. Types are left to `make lint`.
check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 -m "not slow" @tests/check.txt

test: $(STAMP) lint browser
	$(BIN)/python -m pytest -n 2 -m "not slow"

# Hours, in pieces: a run that was broken off goes on where it was.
test-all: $(STAMP) lint browser
	$(BIN)/python tests/all_in_pieces.py --out $(OUT)/test-all.jsonl

# One thread against one thread.
bench: export OMP_NUM_THREADS ?= 1
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group bench
	$(BIN)/python -m benchmarks

docs: $(STAMP)
	$(BIN)/sphinx-build --fail-on-warning --builder html docs $(OUT)/docs

# Every picture in docs/images, made again; the audits among them take minutes.
pictures: $(STAMP) browser
	$(BIN)/python docs/scripts/pictures.py

# The pages are tested in a real browser; Debian's is taken where there is none.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || { echo "The tests open pages in Chromium: install it, e.g. sudo apt-get install chromium, and run make again."; exit 1; }

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) $(OUT) .mypy_cache .pytest_cache .ruff_cache
