# Everything happens in .venv, from Python and a package index alone. The index is the one that pip is set up for.
#
#   make demo     set up, and run the main job
#   make test     set up, and run all tests
#   make lint     style, types, and the rules of who imports whom
#   make bench    measure, beside peers
#   make clean    remove what was made here; downloads and compiled guests stay in the user's cache

PYTHON ?= python3
# Tests wait for processes and clocks as well. A file is one worker's, so that what its tests share is made once; slow ones begin first.
WORKERS ?= 4

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
GUESTS := src/holdfast/sandbox/guests/javascript.wasm src/holdfast/sandbox/guests/lua.wasm
GUEST_SOURCES := $(shell find guests -type f -not -path '*/__pycache__/*' -not -path '*/node_modules/*')

# Stamps: a file that is newer than all that its step depends on.
TOOLS := .venv/.tools
PACKAGE := .venv/.package
DEVELOPMENT := .venv/.development
PEERS := .venv/.peers

.PHONY: demo test lint bench clean

demo: $(PACKAGE)
	$(BIN)/holdfast demo

# Tests start Python hundreds of times: where it may keep no compiled files, each time it would compile all of Holdfast.
test: $(DEVELOPMENT)
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

lint: $(DEVELOPMENT)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src guests/build hatch_build.py $(wildcard benchmarks)
	$(BIN)/lint-imports

bench: $(PEERS)
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist $(GUESTS)
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; say which: make PYTHON=...") if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv .venv

# The build requirements are installed once: an isolated build would unpack 600 MB of them each time.
$(TOOLS): pyproject.toml | $(BIN)/python
	$(PIP) install --quiet $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"])')
	@touch $@

$(PACKAGE): $(TOOLS) hatch_build.py $(GUEST_SOURCES)
	@echo 'The guests are compiled if they have changed: a minute for the first time.'
	$(PIP) install --quiet --no-build-isolation --editable .
	@touch $@

$(DEVELOPMENT): $(PACKAGE)
	$(PIP) install --quiet --no-build-isolation --editable '.[dev]'
	@touch $@

$(PEERS): $(DEVELOPMENT)
	$(PIP) install --quiet --no-build-isolation --editable '.[bench]'
	@touch $@

# Guests that were removed are built again, whatever the stamp says.
ifneq ($(words $(wildcard $(GUESTS))),2)
.PHONY: $(PACKAGE)
endif
