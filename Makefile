# All that a fresh machine needs is make and Python 3.11 or newer. The network is needed once, for the package
# index, when the environment is made. `make PYTHON=/path/to/python venv` takes another Python.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
NOTEBOOKS = $(wildcard notebooks/*.ipynb)

LOWEST := .venv-lowest
# One for each version of Python, of which an environment keeps its own.
INTEROP = .venv-interop-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
OTHER := .venv-other
OTHER_PYTHON ?= python3.13
# Tests of one file in one process, for two would compile the same loops; and files in their order, for those of few
# tests, which would come last otherwise, are the longest. Three processes keep two cores busy: some wait for clusters.
SHARED := -n 3 --dist loadfile --no-loadscope-reorder
# Tests write some hundred thousand small files of stores, which a disk takes minutes for: they are in memory where there
# are 4 GB of room for them, which is Linux outside of containers of 64 MB, and go when the tests end.
ROOM := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')
IN_MEMORY := $(if $(ROOM),folder=$$(mktemp -d $(ROOM)/dspectral-XXXXXX) && trap 'rm -rf "$$folder"' EXIT INT TERM; \
  export TMPDIR="$$folder";)
# An environment and what is in it: uv needs a fifth of pip's time, and leaves modules to be compiled when imported.
define environment
$(PYTHON) -m venv $(1)
$(1)/bin/python -m pip install --quiet --disable-pip-version-check uv
$(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2)
endef
# Modules and assertions are compiled once for all processes, also in a container that says to keep no bytecode.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help venv demo test test-all collected tests test-cluster lint style types measure coverage lowest interop notebooks docs docs-links wheel-check clean

help:
	@echo 'make venv       make $(VENV) and install dspectral and its tools into it'
	@echo 'make demo       run the main job on the Python standard library; writes out/demo/report.html'
	@echo 'make test       lint, types and all tests but the slow ones, before a commit'
	@echo 'make test-all   the same with the slow tests, which start clusters, processes and programs'
	@echo 'make test-cluster  faults on clusters of real processes; writes docs/faults_table.md'
	@echo 'make lint       lint and types'
	@echo 'make measure    print the sizes of the project, tokens first'
	@echo 'make coverage   tests, and the share of the lines that they run; writes out/coverage/index.html'
	@echo 'make lowest     tests with the lowest versions that pyproject.toml allows, in $(LOWEST)'
	@echo 'make interop    tests against other programs, in $(INTEROP); writes docs/interoperation_table.md'
	@echo 'make notebooks  run all notebooks; writes out/notebooks'
	@echo 'make wheel-check  install the wheel into an empty environment, and run the first programs there'
	@echo 'make docs       build the documentation; writes out/docs/index.html'
	@echo 'make docs-links look whether the links of the documentation to other sites hold; needs the network'
	@echo 'make clean      remove what these wrote, except environments'

venv: $(INSTALLED)

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'make: $(PYTHON) is missing or older than 3.11; name another: make PYTHON=/path/to/python venv' >&2; \
	  exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'make: $(PYTHON) cannot make environments; on Debian and Ubuntu: apt install python3-venv' >&2; \
	  exit 1; }
	$(call environment,$(VENV),--editable '.[test]' --editable '.[notebooks]' --editable '.[docs]')
	@echo 'make: compiling the loops of the main methods, once'
	$(BIN)/dspectral warm
	@touch $@

demo: venv
	$(BIN)/python -m workflows.demo --out out/demo --workers 2

lint: style types

style: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

measure: venv
	$(BIN)/python tools/measure_house.py

# Types are checked while tests wait for processes; make ends with an error where either fails. Each process of pytest
# would compile all modules and assertions of a fresh clone: one does so before, on the core that style leaves.
test test-all: venv
	$(MAKE) --no-print-directory WHICH="$(if $(filter test,$@),-m 'not slow')" --jobs 2 BEFORE_TESTS='style collected' style collected types tests

collected: venv
	@mkdir -p out
	$(BIN)/pytest --collect-only -qq > out/collected.txt || { tail out/collected.txt; exit 1; }

tests: venv $(BEFORE_TESTS)
	$(IN_MEMORY) OMP_NUM_THREADS=1 $(BIN)/pytest $(SHARED) --durations=25 $(WHICH) $(PYTEST_OPTIONS)

$(VENV)/.cluster: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cluster]'
	@touch $@

# Another version of Python with the same versions of all packages, where this machine has one.
$(OTHER)/.installed: pyproject.toml $(VENV)/.cluster
	rm -rf $(OTHER)
	if $(OTHER_PYTHON) -m venv $(OTHER) 2>/dev/null; then \
	  $(BIN)/python -m pip freeze --quiet --exclude-editable > $(OTHER)/constraints.txt && \
	  $(OTHER)/bin/python -m pip install --quiet --disable-pip-version-check -c $(OTHER)/constraints.txt --editable .; \
	else mkdir -p $(OTHER); fi
	@touch $@

test-cluster: $(OTHER)/.installed
	OMP_NUM_THREADS=1 DSPECTRAL_OTHER_PYTHON=$$(ls $(OTHER)/bin/python 2>/dev/null) \
	  $(BIN)/python -m pytest tests/cluster --faults --faults-table -rs

coverage: venv
	$(IN_MEMORY) OMP_NUM_THREADS=1 $(BIN)/pytest $(SHARED) --cov --cov-report=term --cov-report=html:out/coverage

# A separate environment: uv picks the lowest versions that pyproject.toml names, pip only the newest.
$(LOWEST)/.installed: pyproject.toml
	$(call environment,$(LOWEST),--resolution lowest-direct --editable '.[test]')
	@touch $@

lowest: $(LOWEST)/.installed
	$(IN_MEMORY) OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest $(SHARED) -W 'ignore:Liblinear failed to converge' \
	  $(WHICH) $(TESTS)

# These come without their needs: PyTorch, which their models do not call where the embedder is ours.
$(INTEROP)/.installed: pyproject.toml
	$(call environment,$(INTEROP),--editable '.[interop]')
	$(INTEROP)/bin/uv pip install --quiet --python $(INTEROP)/bin/python --no-deps \
	  'bertopic>=0.17' 'turftopic>=0.28'
	@touch $@

interop: $(INTEROP)/.installed
	OMP_NUM_THREADS=1 $(INTEROP)/bin/python -m pytest tests/interop tests/test_documents.py --write-table -rs

# Two at a time, each on one thread.
notebooks: venv
	@test -n '$(NOTEBOOKS)' || { echo 'make: there is no notebook in notebooks/' >&2; exit 1; }
	printf '%s\n' $(NOTEBOOKS) | OMP_NUM_THREADS=1 xargs -n 1 -P 2 \
	  $(BIN)/python -m nbconvert --to notebook --execute --output-dir out/notebooks

wheel-check: venv
	$(BIN)/python tools/empty_environment.py

# A warning is an error; links within the pages are checked, those to other sites by docs-links alone.
docs: venv
	$(BIN)/sphinx-build -q -W --keep-going -j auto -d out/.doctrees docs out/docs
	@echo 'make: open out/docs/index.html'

docs-links: venv
	$(BIN)/sphinx-build -q -b linkcheck -d out/.doctrees docs out/docs-links

clean:
	rm -rf out docs/api/generated docs/api/packages docs/notebooks build dist .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path './.venv*' -prune -o -name __pycache__ -type d -exec rm -rf {} +
