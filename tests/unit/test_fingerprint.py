"""What a job depends on is the code that can change its result: no less, not everything, and no comment of it."""

import hashlib
import inspect
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from equiset import fingerprint as fingerprints
from equiset.config import fetch_spec, manifest_spec, prepare_spec, resolve
from equiset.data import DATASETS, dataset_module
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.files import digest_json
from equiset.fingerprint import PLUMBING, fingerprint, modules_of
from equiset.training import checkpoint_key

from ..rewriting import other_number, other_words

ROOT = Path(__file__).parents[2]
FILES = sorted(path.relative_to(ROOT / "src") for path in (ROOT / "src" / "equiset").rglob("*.py"))
TASKS = {name: f"{package}.task" for name, package in EXPERIMENTS.items()}
SPEC = {"seed": 0, "settings": {"training": {"epochs": 1}}}


def name_of(file):
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The package in a folder where it can be changed, and fingerprints of what is there."""
    shutil.copytree(ROOT / "src" / "equiset", tmp_path / "equiset", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprints, "_ROOT", tmp_path)
    forget()
    yield tmp_path
    forget()


def forget():
    fingerprint.cache_clear()
    fingerprints._read.cache_clear()


def read(path, source):
    path.write_text(source)
    return fingerprints._read(path)


def keys():
    """Return the checkpoint key of a run of each experiment."""
    return {name: checkpoint_key(SPEC | {"experiment": name}, {"digest": "1"}, task) for name, task in TASKS.items()}


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_no_comment_and_no_docstring_of_any_module_counts(file, tmp_path):
    source = (ROOT / "src" / file).read_text()
    rewritten = other_words(source)
    assert rewritten != source
    assert read(tmp_path / "rewritten.py", rewritten) == read(tmp_path / "source.py", source)
    if changed := other_number(source):
        assert read(tmp_path / "changed.py", changed) != read(tmp_path / "source.py", source)


def test_checkpoints_stay_good_whatever_is_said_in_the_code(copied):
    before = keys()
    for file in FILES:
        (copied / file).write_text(other_words((copied / file).read_text()))
    forget()
    assert keys() == before


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_one_number_in_a_network_concerns_the_checkpoints_of_its_experiment(copied, experiment):
    before = keys()
    network = copied / "equiset" / "experiments" / experiment / "networks.py"
    network.write_text(other_number(network.read_text()))
    forget()
    assert [name for name, key in keys().items() if key != before[name]] == [experiment]


@pytest.mark.parametrize("file", ["nn/layer.py", "sets.py", "training.py", "parallel.py"])
def test_one_number_in_the_layers_or_the_loop_concerns_all_checkpoints(copied, file):
    before = keys()
    (copied / "equiset" / file).write_text(other_number((copied / "equiset" / file).read_text()))
    forget()
    after = keys()
    assert not [name for name in EXPERIMENTS if after[name] == before[name]]


def test_code_is_compared_as_a_tree(tmp_path):
    def content(source):
        return read(tmp_path / f"{digest_json(source)[:8]}.py", source)[0]

    plain = content("def f(x, *, y=0.001):\n    return [x, (y, None)]\n")
    assert (
        content("def f(\n    x,\n    *,\n    y=1e-3,  # small\n):\n\n    'Said.'\n    return [x, (y, None,)]") == plain
    )
    others = [
        "[x, (y,), None]",
        "[x, y, None]",
        "[x, (y, 'None')]",
        "[x, (y, 0)]",
        "x, (y, None)",
        "[(x, y), None]",
        "...",
    ]
    contents = {content(f"def f(x, *, y=0.001):\n    return {other}\n") for other in others}
    assert len(contents | {plain}) == len(others) + 1
    # A text that is not alone in its line is a value.
    assert content("x = 'a'") != content("x = 'b'")
    assert content("f('a')") != content("f('b')")


def test_a_table_of_the_package_counts_with_the_module_that_reads_it(copied):
    package = copied / "equiset"
    marker = package / "py.typed"  # says to type checkers that there are annotations, by being there
    assert marker.read_bytes() == b""
    tables = [path for path in package.rglob("*.*") if path.suffix != ".py" and path != marker]
    assert tables
    assert [path for path in tables if not path.with_suffix(".py").is_file()] == []
    before = fingerprint("equiset.stages.fetch", "equiset.data.modelnet40")
    with (package / "data" / "modelnet40_official.txt").open("a") as file:
        file.write("\n")
    forget()
    assert fingerprint("equiset.stages.fetch", "equiset.data.modelnet40") != before


def loaded(*modules):
    """Return the modules of equiset that importing some loads, seen from a process of its own."""
    program = (
        f"import importlib, sys; [importlib.import_module(name) for name in {modules!r}]; "
        "print(*(name for name in sys.modules if name.split('.')[0] == 'equiset'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_whatever_is_loaded_counts_or_is_plumbing(experiment):
    modules = ("equiset.stages.train", TASKS[experiment])
    packages = {"equiset.stages", EXPERIMENTS[experiment]}
    assert loaded(*modules) - packages - PLUMBING.keys() <= modules_of(*modules)


def test_plumbing_is_there_and_is_not_followed():
    assert {name for name in PLUMBING if not fingerprints._file(name)} == set()
    found = modules_of("equiset.stages.train", "equiset.experiments.point_clouds.task")
    assert not found & PLUMBING.keys()
    assert "equiset.settings" in modules_of("equiset.settings"), "asked for by its name"


def test_seeds_hang_on_digests_that_never_change():
    assert digest_json((7, 1)) == hashlib.sha256(b"[7,1]").hexdigest()
    assert digest_json({"b": None, "a": 0.1}) == hashlib.sha256(b'{"a":0.1,"b":null}').hexdigest()


DECLARING = [
    name
    for name in PLUMBING
    if name.endswith(("settings", ".base", ".source", ".roles")) and name != "equiset.settings"
]
MAY_COMPUTE = {
    # `make_sets` names the module, for what it writes with `describe`.
    "equiset.experiments.base": {
        "Sets.describe",
        "Experiment.sets_class",
        "Experiment.variant_class",
        "Experiment.running",
        "Experiment.shown",
    },
    # Which tables and figures there are, and so which jobs.
    "equiset.experiments.mnist_sums.settings": {"ExperimentSettings.shown"},
    "equiset.experiments.outlier_faces.settings": {"OutlierFaces.shown", "ExperimentSettings.shown"},
    "equiset.data.source": {"_is_address", "SourceSettings.space"},
}
# They reach jobs by the files that a job reads and writes, or by its parameters.
CONSTANTS = {"title", "dataset", "tables", "figures", "private", "analyses", "name", "holds"}
CONSTANTS |= {"bringing", "choosing", "preparing", "endings", "depth"}


@pytest.mark.parametrize("name", DECLARING)
def test_settings_that_do_not_count_only_declare(name):
    module = import_module(name)
    computing = {key for key, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == name}
    for key, kind in vars(module).items():
        if not (inspect.isclass(kind) and issubclass(kind, BaseModel) and kind.__module__ == name):
            continue
        checks = {*kind.__pydantic_decorators__.model_validators, *kind.__pydantic_decorators__.field_validators}
        own = {
            part
            for part, value in vars(kind).items()
            if isinstance(value, property | classmethod) or inspect.isfunction(value)
        }
        own = {part for part in own if not part.startswith(("__", "model_", "_abc")) and part not in checks}
        computing |= {f"{key}.{part}" for part in own}
        assert kind.__class_vars__ <= CONSTANTS
    assert computing <= MAY_COMPUTE.get(name, set())


def test_lazy_imports_count_unless_they_are_left_out():
    assert "equiset.stand_ins.mnist" in modules_of("equiset.data.mnist")
    assert "equiset.stand_ins.mnist" not in modules_of("equiset.data.mnist", without="equiset.stand_ins")


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_data_set_does_not_depend_on_another(dataset):
    found = modules_of("equiset.stages.fetch", "equiset.stages.prepare", DATASETS[dataset])
    assert f"equiset.data.{dataset}" in found
    assert not found & {
        f"equiset.{part}.{name}" for name in DATASETS if name != dataset for part in ("data", "stand_ins")
    }


def test_an_experiment_does_not_depend_on_another_nor_training_on_its_figures():
    found = modules_of("equiset.stages.train", TASKS["mnist_sums"])
    assert {"equiset.nn.layer", TASKS["mnist_sums"]} <= found
    assert not [name for name in found if "point_clouds" in name or ".results" in name or ".data" in name]


def test_neither_training_nor_the_laws_depend_on_how_meshes_are_read():
    for stage, more in (("train", [TASKS["point_clouds"]]), ("measure_layers", [])):
        found = modules_of(f"equiset.stages.{stage}", *more)
        assert "equiset.experiments.point_clouds.networks" in found
        assert not [name for name in found if name.startswith("equiset.data.") and name != "equiset.data.pool"]


def test_every_part_of_every_experiment_exists():
    for name, package in EXPERIMENTS.items():
        parts = ["settings", "sets", "task", "measures", "results", "about"]
        if experiment_module(name, "settings").ExperimentSettings.analyses:
            parts.append("analyses")
        for part in parts:
            assert fingerprint(f"{package}.{part}")


BRINGING = {
    "timeout_s": 7,
    "attempts": 9,
    "mirrors": ["https://example.org/"],
    "image_mirrors": ["https://example.org/"],
}


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("source", ["download", "folder", "stand-in"])
def test_how_files_are_brought_is_in_no_spec_that_is_compared(dataset, source):
    raw = yaml.safe_load((ROOT / "config.yaml").read_text())

    def specs(**changes):
        config = resolve(raw, "paper", {"datasets": {dataset: {"source": source, "folder": "/mine"} | changes}})
        return [of(config, dataset) for of in (fetch_spec, manifest_spec, prepare_spec)]

    kind = dataset_module(dataset).SETTINGS
    whole, files, arrays = specs()
    for key in BRINGING.keys() & kind.model_fields.keys():
        changed = specs(**{key: BRINGING[key]})
        assert changed[0] != whole, "the job itself must see it"
        assert changed[1:] == [files, arrays]
    for key, value in {"folder": "/other", "stand_in": {"seed": 5}}.items():
        changed = specs(**{key: value})
        assert (changed[1] != files) == (key == source.replace("-", "_"))
        assert changed[2] == arrays
    assert set(arrays["settings"]) == kind.model_fields.keys() - kind.bringing - kind.choosing
