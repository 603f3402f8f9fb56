"""What a job depends on is what it imports: no less, and not everything."""

import subprocess
import sys
from pathlib import Path

import pytest

from equiset.data import DATASETS
from equiset.dependencies import sources_of
from equiset.experiments import EXPERIMENTS, experiment_module

ROOT = Path(__file__).parents[2]
REGISTRIES = {"src/equiset/__init__.py", "src/equiset/data/__init__.py", "src/equiset/experiments/__init__.py"}


def loaded(*modules):
    """Return the files of equiset that importing the modules loads, seen from a process of its own."""
    program = (
        f"import importlib, sys; [importlib.import_module(name) for name in {modules!r}]; "
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'equiset'), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return {f"src/{Path(line).relative_to(ROOT / 'src')}" for line in done.stdout.split()}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_whatever_is_loaded_is_named(experiment):
    modules = ("equiset.stages.train", f"{EXPERIMENTS[experiment]}.task")
    packages = {f"src/equiset/{name}/__init__.py" for name in ("stages", f"experiments/{experiment}")}
    assert loaded(*modules) - REGISTRIES - packages <= set(sources_of(*modules))


def test_lazy_imports_count():
    assert "src/equiset/twins/mnist.py" in sources_of("equiset.data.mnist")


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_data_set_does_not_depend_on_another(dataset):
    files = sources_of("equiset.stages.fetch", "equiset.stages.prepare", DATASETS[dataset])
    assert f"src/equiset/data/{dataset}.py" in files
    others = {f"src/equiset/{part}/{name}.py" for name in DATASETS if name != dataset for part in ("data", "twins")}
    assert not others & set(files)


def test_an_experiment_does_not_depend_on_another_nor_training_on_its_figures():
    files = sources_of("equiset.stages.train", "equiset.experiments.mnist_sums.task")
    assert "src/equiset/nn/layer.py" in files
    assert "src/equiset/experiments/mnist_sums/task.py" in files
    assert not [file for file in files if "point_clouds" in file or "/results/" in file or "/data/" in file]


def test_every_part_of_every_experiment_exists():
    for name, package in EXPERIMENTS.items():
        parts = ["settings", "sets", "task", "results"]
        if experiment_module(name, "settings").ExperimentSettings.analyses:
            parts.append("analyses")
        for part in parts:
            assert sources_of(f"{package}.{part}")
