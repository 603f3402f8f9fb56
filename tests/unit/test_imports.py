"""What may import what: the library needs torch alone, and imports point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "equiset"


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_library_imports_with_torch_alone():
    """A finder refuses every package that is neither torch's own nor in the standard library."""
    program = """
import importlib.metadata, sys
allowed = {"torch", "torchgen", "functorch", "filelock", "typing_extensions", "setuptools", "sympy", "mpmath",
           "networkx", "jinja2", "markupsafe", "fsspec", "equiset", "_distutils_hack", "pkg_resources"}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"{top} is not installed here", name=top)
sys.meta_path.insert(0, Refuse())
from equiset import PackedSets, SetDropout, SetLayer, SetNorm, SetPool
import torch
assert SetLayer(3, 4)(PackedSets.from_list([torch.randn(2, 3), torch.randn(5, 3)])).rows.shape == (7, 4)
try:
    import pandas
except ModuleNotFoundError:
    print("alone")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )
    assert done.stdout.strip() == "alone", done.stderr


@pytest.mark.parametrize(
    ("files", "forbidden"),
    [
        ("nn/*.py", ("equiset.experiments", "equiset.data", "equiset.training", "equiset.results", "numpy", "pandas")),
        ("sets.py", ("equiset.nn", "equiset.experiments", "equiset.training", "numpy", "pandas")),
        ("layout.py", ("equiset.nn", "equiset.experiments", "equiset.training", "numpy", "pandas")),
        ("data/*.py", ("torch", "mlflow", "equiset.nn", "equiset.experiments", "equiset.training", "equiset.results")),
        ("twins/*.py", ("torch", "mlflow", "equiset.nn", "equiset.experiments", "equiset.training")),
        ("experiments/*/settings.py", ("torch", "mlflow", "numpy", "pandas", "equiset.training", "equiset.nn")),
        ("experiments/*/sets.py", ("torch", "mlflow", "equiset.training", "equiset.nn", "equiset.results")),
        ("experiments/*/task.py", ("mlflow", "matplotlib", "equiset.results", "equiset.stages")),
        ("experiments/*/results.py", ("torch", "mlflow", "equiset.nn", "equiset.training")),
        ("laws/settings.py", ("torch", "mlflow", "numpy", "pandas", "equiset.training", "equiset.nn")),
        ("laws/*.py", ("mlflow", "matplotlib", "equiset.results", "equiset.stages")),
        ("results/*.py", ("torch", "mlflow", "equiset.nn", "equiset.training", "equiset.experiments")),
        ("parallel.py", ("mlflow", "numpy", "pandas", "equiset.experiments", "equiset.training", "equiset.stages")),
        ("training.py", ("mlflow", "equiset.results", "equiset.stages")),
        ("config.py", ("torch", "mlflow", "matplotlib")),
    ],
)
def test_imports_point_one_way(files, forbidden):
    paths = sorted(PACKAGE.glob(files))
    assert paths
    for path in paths:
        wrong = {name for name in imported(path) for root in forbidden if name == root or name.startswith(f"{root}.")}
        assert not wrong, f"{path.relative_to(PACKAGE)} imports {wrong}"


def test_only_tracking_imports_mlflow():
    users = {path.name for path in PACKAGE.rglob("*.py") if any(name.startswith("mlflow") for name in imported(path))}
    assert users == {"tracking.py"}


def test_reading_the_config_does_not_import_torch():
    program = "import equiset.config, sys; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
