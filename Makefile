# Everything here builds .venv by itself; `make test` is exactly what CI runs.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: .venv test lint types imports pytest test-cluster test-compiled campaigns test-hostile bench bench-engine bench-zoo bench-compiled format clean

test: lint types imports pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

imports: $(INSTALLED)
	$(BIN)/lint-imports

pytest: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal

# On real clusters that the tests start and stop themselves: Ray (installed here), and Slurm (apt-get install slurm-wlm).
test-cluster: $(INSTALLED)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev,ray]'
	OMP_NUM_THREADS=1 $(BIN)/pytest -m cluster

# Every cell on the compiled engine, with torch.compile's own code generator: about half an hour of one core.
test-compiled: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m compiled -n auto --dist worksteal

# Long checks that are run before a release: hostile input, damaged files, killed processes.
campaigns: $(INSTALLED) test-hostile
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/damage.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/kills.py

# 600 mutated configs, arguments and data files; `SEED=3` for others.
SEED ?= 0
test-hostile: $(INSTALLED)
	$(BIN)/python benchmarks/hostile.py --seed $(SEED)

bench: $(INSTALLED)
	$(BIN)/gatelab bench configs/digits.yaml --output-dir experiments/digits

bench-engine: $(INSTALLED)
	$(BIN)/python benchmarks/engine.py --save docs/benchmarks.md

# A training step of every cell; about 25 minutes on two cores that do nothing else.
bench-zoo: $(INSTALLED)
	$(BIN)/python benchmarks/zoo.py --save docs/benchmarks.md

# The compiled engine beside the eager one; about half an hour on two cores that do nothing else, most of it compiling.
bench-compiled: $(INSTALLED)
	$(BIN)/python benchmarks/compiled.py --save docs/benchmarks.md

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv: $(INSTALLED)

# The stamp is written last: an interrupted installation is taken up again, a finished one costs nothing.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
