"""The examples reach what they say. The one that runs the workflow is in tests/workflow."""

import importlib.util
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sets_from_a_parquet_file_are_classified(tmp_path):
    assert load("classify").main(str(tmp_path)) > 0.9


def test_members_get_numbers_of_their_own():
    assert load("per_member").main() > 0.95


def test_a_set_layer_takes_the_place_of_a_linear():
    before, after = load("drop_in").main()
    assert before < 0.6
    assert after > 0.9


def test_few_points_of_a_cloud_decide(monkeypatch):
    monkeypatch.chdir(EXAMPLES.parent)
    share, difference = load("winners").main()
    assert 0.02 < share < 0.3
    assert difference < 1e-3
