"""What may import what: the library needs torch alone, and imports point one way."""

import ast
import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "equiset"


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


BASE = {"errors", "files", "fingerprint"}
ALLOWED = {
    # What each part of the package may import from equiset, besides itself.
    "errors": set(),
    "files": {"errors"},
    "fingerprint": set(),
    "nn": set(),
    "config": {*BASE, "data", "experiments"},  # of these two the settings alone
    "data": {*BASE, "config"},
    "training": {*BASE, "nn", "config", "experiments"},  # of the last only by name
    "results": {*BASE, "config"},
    "experiments": {*BASE, "nn", "config", "data", "training", "results"},
    "tracking": {*BASE, "config", "training", "results", "experiments"},
}
COMMAND_LINE = {"__init__", "__main__"}
"""The public names and the command line, which may import anything."""
WITHOUT_TORCH = (
    "files",
    "config",
    "data",
    "results",
    "tracking.tracker",
    "settings",
    "sets",
    "measures",
    "results",
    "about",
)
"""Parts of the package, and modules of an experiment, that work where torch is not installed or would start slowly."""


def own(name: str) -> str:
    """Return the part of the package that an imported name is in."""
    return name.split(".")[1] if name.count(".") else ""


MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def test_every_module_belongs_to_a_part():
    assert {module.split(".")[0] for module in MODULES} == {*ALLOWED, *COMMAND_LINE}


def test_imports_point_one_way():
    """What is not allowed is forbidden."""
    wrong = []
    for module, path in MODULES.items():
        part = module.split(".")[0]
        for name in (own(name) for name in imported(path) if name.split(".")[0] == "equiset"):
            if part not in COMMAND_LINE and name not in ALLOWED[part] | {part}:
                wrong.append(f"{module} imports {name}")
    assert not wrong


def test_the_training_and_the_config_know_experiments_by_their_registry():
    """But for the measurements on layers, which are no experiment of the registry."""
    for module, path in MODULES.items():
        if module.split(".")[0] in ("training", "config"):
            named = {name for name in imported(path) if name.startswith("equiset.experiments.")}
            own = {"EXPERIMENTS", "experiment_module"}
            known = {f"equiset.experiments.{name}" for name in own} | {"equiset.experiments.laws.settings.Laws"}
            assert named <= known, module


def test_an_experiment_imports_no_other():
    """But for the measurements on layers, which time those of the point clouds."""
    for module, path in MODULES.items():
        if module.startswith("experiments.") and module.count(".") == 2 and ".laws." not in module:
            package = module.rpartition(".")[0]
            others = {
                name for name in imported(path) if name.startswith("equiset.experiments.") and name.count(".") > 2
            }
            assert not [name for name in others if not name.startswith(f"equiset.{package}.")], module


def test_torch_stays_where_it_is_needed():
    for module, path in MODULES.items():
        part, *_, last = [*module.split("."), ""] if "." not in module else module.split(".")
        listed = part in WITHOUT_TORCH or module in WITHOUT_TORCH or (part == "experiments" and last in WITHOUT_TORCH)
        if listed:
            assert "torch" not in {name.split(".")[0] for name in imported(path)}, module


def test_the_layers_import_torch_alone():
    for module, path in MODULES.items():
        if module.startswith("nn"):
            names = {name.split(".")[0] for name in imported(path)}
            assert names <= {"equiset", "torch", *sys.stdlib_module_names}, module


def test_results_know_no_experiment_by_name():
    names = [path.name for path in (PACKAGE / "experiments").iterdir() if (path / "settings.py").exists()]
    for path in (PACKAGE / "results").glob("*.py"):
        assert not [name for name in names if re.search(rf"[\"']{name}[\"']", path.read_text())], path.name


def test_only_tracking_imports_mlflow():
    users = {module for module, path in MODULES.items() if any(name.startswith("mlflow") for name in imported(path))}
    assert {module.split(".")[0] for module in users} == {"tracking"}


def test_reading_the_config_does_not_import_torch():
    program = "import equiset.config.resolve, sys; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
