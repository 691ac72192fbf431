# Everything a person or CI does, each in one word. `demo` and `test` set up what they need by themselves.

PYTHON ?= python3
# The release our bits were checked on, and one whose CPU build is small. Set TORCH=torch for the newest.
TORCH ?= torch==2.13.*
DATA ?= ../shared/eval-data
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif
READY := $(VENV)/ready
EXTENSION := vscode-extension
EXTENSION_READY := $(EXTENSION)/node_modules/.package-lock.json
NO_NPM = npm is missing; install Node.js 20 or newer, which brings it, then run make again

.PHONY: demo check test test-editors bench vsix clean

demo: $(READY)
	$(BIN)/foretype pull cpu
	$(BIN)/foretype complete docs/demo/shop.py:20:5 --buffer docs/demo/orders.py --profile cpu --trace

test: $(READY)
	$(BIN)/foretype pull cpu-small
	$(BIN)/python -m pytest --data=$(DATA) --ignore=tests/editors

check: $(READY) $(EXTENSION_READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	cd $(EXTENSION) && npm run check

test-editors: $(READY)
	$(BIN)/python -m pytest tests/editors

bench: $(READY)
	$(BIN)/foretype pull cpu
	$(BIN)/foretype bench --suite infill,buffers,edit,passes --profile cpu --data $(DATA) --count 2 --repeats 1 --max-tokens 32

vsix: $(READY) $(EXTENSION_READY)
	cd $(EXTENSION) && npm run package

$(EXTENSION_READY): $(EXTENSION)/package-lock.json
	$(if $(shell npm --version),,$(error $(NO_NPM)))
	cd $(EXTENSION) && npm ci

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	$(BIN)/python -c "open('$(READY)', 'w').close()"

clean:
	$(PYTHON) -c "import shutil; [shutil.rmtree(f, ignore_errors=True) for f in ('$(VENV)', '$(EXTENSION)/node_modules', '$(EXTENSION)/dist')]"
