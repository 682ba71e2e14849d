# make book   run every page and build the book      make lab     open the pages in JupyterLab
# make test   run every test                         make clean   remove what was built (not .venv)
PYTHON ?= python3
BIN = .venv/bin

.PHONY: book test lab clean

book: .venv/installed
	$(BIN)/probebook build

test: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup

lab: .venv/installed
	$(BIN)/probebook pair
	$(BIN)/jupyter lab notebooks

clean:
	rm -rf _build

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -c constraints.txt -e '.[book,dev]'
	touch $@
