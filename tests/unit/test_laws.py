"""The measurements on the layers themselves: what they must find, and that they find the same again."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch
import yaml

from equiset.config.resolve import resolve
from equiset.experiments.laws import measurements
from equiset.experiments.laws.measurements import MEASUREMENTS, measure_layers
from equiset.experiments.laws.measures import NAMES
from equiset.experiments.laws.settings import CommutingMaps, DeepStack, Laws, TimeBySetSize
from equiset.files import read_json
from equiset.nn import SetLayer

ROOT = Path(__file__).parents[2]
SPEC = resolve(yaml.safe_load((ROOT / "config.yaml").read_text()), "smoke").laws.model_dump(mode="json")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("laws")
    measure_layers(SPEC, folder, threads=1)
    about = read_json(folder / "run.json")
    assert about["settings"] == SPEC
    assert set(about["processor_seconds"]) == set(MEASUREMENTS)
    assert about["machine"]["processor"]
    return {path.stem: pd.read_parquet(path) for path in folder.glob("*.parquet")}


def test_every_measurement_is_written(measured):
    assert set(measured) == set(MEASUREMENTS) == set(Laws.model_fields)


def test_every_number_of_the_layers_has_its_column(measured):
    assert {item for item, _ in NAMES.values()} == set(MEASUREMENTS)
    for name, (item, _) in NAMES.items():
        assert measured[item][name].notna().all()


def test_batch_normalisation_is_a_control_that_learns():
    settings = SPEC["deep_stack"] | {"seeds": 1, "layers": 2, "steps": 300, "first_steps": 100, "width": 16}
    row = measurements.deep_stack(DeepStack.model_validate(settings)).iloc[0]
    assert row["relative_loss"] < row["relative_loss_first"]
    assert row["relative_loss_normalised"] < row["relative_loss_first"]


def test_all_but_times_are_the_same_on_a_rerun(measured, tmp_path):
    measure_layers(SPEC, tmp_path, threads=1)
    for name, table in measured.items():
        if not name.startswith("time_"):
            pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / f"{name}.parquet"), table, check_exact=True)


def test_the_maps_that_commute_are_two_dimensional_and_our_layers(measured):
    table = measured["commuting_maps"]
    assert (table["excess_dimensions"] == 0).all()
    assert table[["outside", "layer_error"]].to_numpy().max() < 1e-12


def test_a_layer_that_is_not_of_the_family_is_found_out(monkeypatch):
    class Wrong(SetLayer):
        def forward(self, sets):
            return super().forward(sets) + sets[:, :1]  # adds the first member to all

    monkeypatch.setattr(measurements, "SetLayer", Wrong)
    assert MEASUREMENTS["commuting_maps"](CommutingMaps(sizes=[3]))["layer_error"].max() > 0.5


def test_a_layer_that_compares_all_pairs_is_not_linear(monkeypatch):
    """The measurement can fail: it sees the square in a layer that has one."""

    class Pairs(SetLayer):
        def forward(self, sets):
            return (sets.unsqueeze(2) - sets.unsqueeze(1)).tanh().mean(2)

    settings = TimeBySetSize(sizes=[20, 100, 500], rows=500, width=16, repetitions=3)
    monkeypatch.setattr(measurements, "SetLayer", Pairs)
    assert MEASUREMENTS["time_by_set_size"](settings)["exponent"].min() > 1.4


def test_the_exponent_is_the_slope_of_the_times(measured):
    row = measured["time_by_set_size"].iloc[0]
    times = [row[f"seconds_per_set_{size}"] for size in (10, 100, 1000)]
    # For three sizes at equal distances, the fitted slope is that between the ends.
    assert row["exponent"] == pytest.approx(math.log10(times[2] / times[0]) / 2)


def test_members_of_a_set_share_their_features():
    settings = Laws.model_validate(SPEC).shared_dropout
    torch.manual_seed(0)
    x, y = measurements._similar_members(settings, 50, torch.ones(settings.features))
    assert x.std(dim=1).mean() < 0.15 * x.mean(dim=1).std()
    assert torch.corrcoef(torch.stack([x.mean(1).sum(1), y.flatten()]))[0, 1] > 0.99


def test_set_dropout_is_all_that_differs():
    settings = Laws.model_validate(SPEC).shared_dropout
    torch.manual_seed(0)
    first = measurements._regressor(settings, 0.5, at_once=True)
    torch.manual_seed(0)
    second = measurements._regressor(settings, 0.5, at_once=False)
    x, _ = measurements._similar_members(settings, 4, torch.ones(settings.features))
    assert not torch.equal(first(x), second(x))
    assert torch.equal(first.eval()(x), second.eval()(x))
