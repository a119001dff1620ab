# Every target makes its own .venv: nothing has to be installed by hand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test check browser format lint words types imports docs wheel models-table bench clean

$(READY): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

demo: $(READY)  ## something worth seeing, offline, in about three minutes
	$(BIN)/didact demo

test: $(READY)  ## everything but the slow marks; under five minutes on two cores
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow and not browser and not cluster and not network"

# Shapes are checked while the fast tests run. The slow ones, which run the same code for longer, do without: it takes a third of their time.
check: format lint words types imports docs wheel browser test  ## what CI runs
	$(BIN)/python -m pytest -n 2 --dist worksteal -o addopts="-ra --strict-markers --strict-config" -m "(slow or browser or cluster) and not network"

# Chromium comes from the system's packages. Where it cannot be installed, tests of pages are skipped, and say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	(test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq && \
	 apt-get install -y -qq --no-install-recommends chromium fonts-noto-core fonts-noto-color-emoji) >/dev/null 2>&1 || \
	echo "No Chromium here, and it could not be installed: tests of pages will be skipped."

format: $(READY)
	$(BIN)/ruff format --check .

lint: $(READY)
	$(BIN)/ruff check .

words: $(READY)  ## names that say nothing, and retired words
	$(BIN)/python .ci/lint_words.py

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

docs: $(READY)  ## into site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: $(READY)  ## the wheel in an empty environment without extras, running the README's first example
	.ci/wheel $(BIN)/python

models-table: $(READY)  ## every architecture of transformers against the plain model, into docs/models.md; a few minutes
	HF_HUB_OFFLINE=1 $(BIN)/python docs/make_models_table.py

bench: $(READY)  ## ratios against the bare model, measured here
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache
