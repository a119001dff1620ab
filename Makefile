# Every target makes its own .venv: nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check format lint types imports docs bench clean

$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: $(READY)  ## something worth seeing, offline, in about a minute
	$(BIN)/didact demo

test: $(READY)  ## everything but the slow marks; under ten minutes on two cores
	$(BIN)/python -m pytest -n 2 -m "not slow and not browser and not cluster and not network"

check: format lint types imports docs test  ## what CI runs
	$(BIN)/python -m pytest -n 2 -m "(slow or browser or cluster) and not network"

format: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

docs: $(READY)  ## into site/; a broken link is an error
	$(BIN)/mkdocs build --strict --quiet

bench: $(READY)  ## ratios against the bare model, measured here
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache
