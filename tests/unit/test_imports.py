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


WITH_TORCH_ALONE = """
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
import equiset, torch
assert SetLayer(3, 4)(PackedSets.from_list([torch.randn(2, 3), torch.randn(5, 3)])).rows.shape == (7, 4)
try:
    import pandas
except ModuleNotFoundError:
    print("alone")
"""
"""A program in which every package is refused that is neither torch's own nor in the standard library."""


def test_the_library_imports_with_torch_alone():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITH_TORCH_ALONE],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )
    assert done.stdout.strip() == "alone", done.stderr


BASE = {"errors", "files", "fingerprint", "parquet", "settings", "process", "provenance", "masking", "progress"}
"""Helpers that know nothing of the project's subject."""
TOOLKIT = {"results.intervals", "results.measures", "results.runs"}
ALLOWED = {
    # What may be imported from equiset itself, by parts of the package; a name stands for all below it.
    "nn": {"nn", "sets", "layout"},
    "sets": {"layout"},
    "layout": set(),
    "parallel": {"errors", "nn.shares"},
    "feeding": {"parallel"},
    "placement": {"errors", "provenance"},
    "devices": {"errors", "provenance"},
    "training_settings": {"settings"},
    "roles": {"settings"},
    "data": BASE | {"data", "stand_ins"},
    "stand_ins": BASE | {"data", "stand_ins"},
    "training": BASE | {"parallel", "devices", "training_settings"},
    "results": BASE | {"results", "roles"},
    "experiments": BASE | {"experiments", "training_settings", "roles"},
    "experiments.*.settings": {"experiments.base", "settings", "training_settings"},
    "experiments.*.sets": BASE | {"data", "experiments"},
    "experiments.*.networks": BASE | {"experiments", "nn", "sets", "parallel"},
    "experiments.*.graphs": {"nn"},
    "experiments.*.task": BASE | {"experiments", "nn", "sets", "parallel", "feeding", "training", "data"},
    "experiments.*.measures": BASE | TOOLKIT,
    "experiments.*.analyses": BASE | {"experiments", "nn", "devices", "feeding", "training", "results"},
    "experiments.*.results": BASE | {"data", "experiments", "results"},
    "experiments.*.about": set(),
    "laws": BASE | {"laws", "nn", "training", "training_settings", "results", "experiments.point_clouds"},
    "laws.settings": {"settings", "training_settings"},
    "experiments.*.model": BASE | {"experiments", "sets"},
    "experiments.*.predict": BASE | {"experiments", "data", "nn", "sets", "trained"},
    "trained": BASE | {"devices", "experiments", "given", "training"},
    "tracking": BASE | {"results", "experiments", "model_file", "views"},
    "views": {"results.measures"},
    "model_file": {"experiments", "given", "trained"},
    "pages": set(),
    "stages": {""},
}
"""The rest (config, space, ...) stands at the top, as the stages do, and may import anything below."""
WITHOUT_TORCH = ("data", "stand_ins", "results", "experiments.*.settings", "experiments.*.sets",
                 "experiments.*.measures", "experiments.*.results", "experiments.*.about", "laws.settings",
                 "laws.measures", "config", "training_settings", "tracking")  # fmt: skip
FOREIGN = {
    "nn": {"torch"},
    "sets": {"torch"},
    "layout": {"torch"},
    "experiments.*.settings": {"pydantic"},
    "training_settings": {"pydantic"},
    "experiments.*.measures": {"numpy", "pandas"},
}
"""What else may be imported from outside the standard library, where that is little."""


def parts_of(module: str) -> list[str]:
    """Return the names that a module may be listed under, the narrowest last."""
    words = module.split(".")
    names = [".".join(words[: count + 1]) for count in range(len(words))]
    if words[0] == "experiments" and len(words) == 3:
        names.append(f"experiments.*.{words[2]}")
    return names


def own(name: str) -> str:
    """Return the module of equiset that an imported name is, or is in."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    found = path.is_dir() or path.with_suffix(".py").exists()
    return ".".join(name.split(".")[1:] if found else name.split(".")[1:-1])


MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def test_imports_point_one_way():
    """What is not allowed is forbidden."""
    wrong = []
    for module, path in MODULES.items():
        listed = [name for name in parts_of(module) if name in ALLOWED]
        if not listed or module == "experiments":
            continue  # stands at the top, or names the experiments
        allowed = ALLOWED[listed[-1]]
        for name in (own(name) for name in imported(path) if name.split(".")[0] == "equiset"):
            if not any(one in ("", name) or name.startswith(f"{one}.") for one in allowed):
                wrong.append(f"{module} imports {name}")
    assert not wrong


def test_an_experiment_imports_no_other():
    for module, path in MODULES.items():
        if module.startswith("experiments.") and module.count(".") == 2:
            package = module.rpartition(".")[0]
            others = {own(name) for name in imported(path) if name.startswith("equiset.experiments.")}
            assert not [name for name in others if name.count(".") == 2 and not name.startswith(f"{package}.")], module


def test_torch_and_others_stay_where_they_are_needed():
    for module, path in MODULES.items():
        names = {name.split(".")[0] for name in imported(path)}
        if any(name in WITHOUT_TORCH for name in parts_of(module)):
            assert "torch" not in names, module
        for listed in (name for name in parts_of(module) if name in FOREIGN):
            assert names - {"equiset", *sys.stdlib_module_names} <= FOREIGN[listed], module


def test_the_toolkit_of_results_knows_no_experiment_by_name():
    names = [path.name for path in (PACKAGE / "experiments").iterdir() if (path / "settings.py").exists()]
    for path in (PACKAGE / "results").glob("*.py"):
        assert not [name for name in names if re.search(rf"[\"']{name}[\"']", path.read_text())], path.name


def test_only_tracking_imports_mlflow():
    """And what stands in front of its own server."""
    users = {path.name for path in PACKAGE.rglob("*.py") if any(name.startswith("mlflow") for name in imported(path))}
    assert users == {"tracking.py", "pages.py"}


def test_reading_the_config_does_not_import_torch():
    program = "import equiset.config, sys; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
