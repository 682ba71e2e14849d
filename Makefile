# make book   run every page and build the book      make lab     open the pages in JupyterLab
# make test   run the tests (10 to 50 minutes)       make clean   remove what was built (not .venv)
# make read   unpack a stored copy of the book: nothing is installed or run
# make archive  the built book as one zip file       make pdf     the built book as PDF, a file a chapter
# make verify   measure what is shipped again, and what takes hours: CONTRIBUTING.md says when
PYTHON ?= python3
BIN = .venv/bin
UV := $(shell command -v uv 2>/dev/null)

.PHONY: read book test verify lab archive pdf clean

read:
	@$(PYTHON) -c "import shutil; shutil.unpack_archive('data/book.tar.xz', '_build/stored')"
	@echo $(CURDIR)/_build/stored/index.html

book: .venv/installed
	$(BIN)/probebook build

# three workers for two cores: while one waits for a kernel, a clock or the browser, two compute
test: .venv/installed
	$(BIN)/pytest -n 3 --dist loadgroup

verify: .venv/installed
	$(BIN)/pytest -n 2 --dist loadgroup -m verify --durations=0
	$(BIN)/python benchmarks/faults.py
	$(BIN)/python benchmarks/sweep_load.py
	$(BIN)/probebook build
	$(BIN)/python benchmarks/durations.py

lab: .venv/installed
	$(BIN)/probebook pair
	$(BIN)/jupyter lab notebooks

archive: book
	$(BIN)/python -m zipfile -c _build/probebook.zip _build/book/
	@echo _build/probebook.zip

pdf: book
	$(BIN)/probebook pdf

clean:
	rm -rf _build

# uv takes a Python that fits, unless PYTHON names one
.venv/installed: pyproject.toml constraints.txt
	$(if $(UV),uv venv -q --allow-existing --seed $(if $(filter file,$(origin PYTHON)),,-p $(PYTHON)),$(PYTHON) -m venv) .venv
	$(if $(UV),uv pip install --compile-bytecode -p .venv,$(BIN)/pip install) -c constraints.txt -e '.[book,dev]'
	touch $@
