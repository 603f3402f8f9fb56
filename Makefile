# The commands of this project. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SCALE ?= demo
PORT ?= 5000
RUN ?= point_clouds/set-100/seed0
ANALYSIS ?= point_clouds/robustness
PUBLISHED := $(BIN)/snakemake --cores all --configfile workflow/reference.yaml
SHELL := bash
.SHELLFLAGS := -o pipefail -c
PIP := $(BIN)/pip install --disable-pip-version-check --progress-bar off
# What pip says, as one line that is rewritten: how many packages, and which one is being downloaded.
COUNTED := awk '/^(Collecting|Processing)/ { n += 1; now = $$2 } /^ *Downloading/ { now = $$2 " " $$3 " " $$4 } \
	/^Installing/ { now = "installing them" } \
	now { printf "\r  %d packages: %-60.60s", n, now; fflush() } END { if (now) print "" }'

.PHONY: help install install-cluster results bench gpu-check reference publish judge verify analyse test test-faults test-cluster \
	fuzz audit lint types format docs ui track lock clean

help:  ## List the commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 17

install: $(VENV)/installed  ## Create .venv with the locked versions

# torch stands outside the lock: its build (CPU, CUDA) differs by machine, its version does not.
$(VENV)/installed: requirements.lock requirements-torch.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "equiset needs Python 3.11 or newer")'
	@echo "Installing into $(VENV): about 2.6 GB, some minutes, most of them for the next two steps"
	@$(PYTHON) -m venv $(VENV)
	@echo "1/3 packages of requirements.lock" && $(PIP) --require-hashes -r requirements.lock | $(COUNTED)
	@echo "2/3 torch" && $(PIP) -r requirements-torch.txt | $(COUNTED)
	@echo "3/3 equiset itself" && $(PIP) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

install-cluster: $(VENV)/installed-cluster  ## Add what a cluster needs: Snakemake's executors, PostgreSQL's driver

$(VENV)/installed-cluster: requirements-cluster.lock $(VENV)/installed
	@$(PIP) --require-hashes -r requirements-cluster.lock | $(COUNTED)
	touch $@

results: install  ## Run the whole workflow (SCALE=smoke|demo|paper)
	@$(BIN)/snakemake --cores all --config scale=$(SCALE)

bench: install  ## Measure speed and memory against rivals, about thirteen minutes: results/bench/
	$(BIN)/python benchmarks --output results/bench

gpu-check: install  ## On a machine with a GPU: compare it with the CPU, time it, and write the table to send in
	$(BIN)/python benchmarks/gpu_check.py $(if $(DEVICE),--device $(DEVICE) --small) --output results/gpu_check

test: install  ## Run the tests, offline
	$(BIN)/python -m pytest

test-faults: install  ## Run the whole fault suite: kills, full disks, servers that go away (half an hour)
	$(BIN)/python -m pytest --numprocesses 0 -m "slow_fault or not slow_fault" tests/faults

fuzz: install  ## Fuzz our own readers, ten minutes of processor time each
	$(PYTHON) -m venv --system-site-packages $(VENV)/fuzz
	$(VENV)/fuzz/bin/pip install --quiet --disable-pip-version-check atheris==3.0.0
	PYTHONPATH=src:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
		$(VENV)/fuzz/bin/python -m tests.faults.fuzz

audit: install  ## Look the locked versions up in the database of known vulnerabilities (needs the network)
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	$(VENV)/audit/bin/pip-audit --disable-pip --no-deps --requirement requirements.lock
	$(VENV)/audit/bin/pip-audit --disable-pip --no-deps --requirement requirements-torch.txt

test-cluster: install-cluster  ## Run the tests with real engines: Slurm, PostgreSQL, MLflow's server (minutes)
	$(BIN)/python -m pytest tests/cluster --numprocesses 0 --capture no -rs

lint: install  ## Check the style of code and workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/snakemake --lint

types: install  ## Check the types of what people import
	$(BIN)/mypy

docs: install  ## Build the API pages: build/docs/equiset.html
	$(BIN)/python docs/build.py build/docs

format: install  ## Bring code and workflow into style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt Snakefile workflow

ui: install  ## Look at the runs in MLflow, also while they train; says where each experiment is
	$(BIN)/python -m equiset.tracking.ui --port $(PORT)

reference: install  ## Make the published runs again, many hours, publish them, and put them into README.md
	$(PUBLISHED) -- reference_runs
	$(PUBLISHED) --forcerun publish_part -- publish
	$(PUBLISHED) -- reference_analyses
	$(MAKE) publish

publish: install  ## Publish what has ended of the runs of workflow/reference.yaml, judge it, and write README.md
	$(PUBLISHED) --forcerun publish_part -- publish
	$(BIN)/snakemake --cores all --forcerun measure_runs -- readme

judge: install  ## Judge the paper's claims by the published runs, from their own files, without training
	$(BIN)/snakemake --cores all --forceall -- judge

verify: install  ## Evaluate a published network again (RUN=experiment/variant/seed), from its weights and the real data
	$(PUBLISHED) -- results/paper/verified/$(RUN).parquet
	@grep published results/paper/logs/verify/$(RUN).log

analyse: install  ## Measure something on the published networks again (ANALYSIS=point_clouds/robustness), from the real data
	$(PUBLISHED) -- results/paper/analysed/$(ANALYSIS).parquet

track: install  ## Send the runs of a scale to MLflow (SCALE=reference: the published ones), also after its server was away
	$(BIN)/snakemake --cores all --forcerun track track_report -- results/$(SCALE)/tracked.json

docs/rulegraph.svg: Snakefile $(wildcard workflow/rules/*.smk)  # needs graphviz
	$(BIN)/snakemake --rulegraph dot --quiet all | dot -Tsvg > $@

lock:  ## Resolve the versions anew (needs uv)
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
		--extra workflow --extra dev --group torch-needs --custom-compile-command 'make lock' --output-file requirements.lock
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
		--extra cluster --constraint requirements.lock --custom-compile-command 'make lock' \
		--output-file requirements-cluster.lock
	$(MAKE) environment.yml

environment.yml: requirements.lock requirements-torch.txt
	printf '%s\n' '# The versions of requirements.lock for conda users; written by `make lock`.' 'name: equiset' \
		'channels: [conda-forge]' 'dependencies:' '  - python=3.11' '  - pip' '  - pip:' > $@
	sed -nE 's/^([a-z0-9.-]+==[^\\]*[^\\ ]) *\\?$$/      - "\1"/p' requirements-torch.txt requirements.lock >> $@

clean:  ## Remove everything that was computed; downloads and published results stay
	rm -rf results/smoke results/demo results/paper results/bench results/mlflow* .snakemake
