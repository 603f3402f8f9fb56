"""Tables and figure of the redshifts, from files as runs leave them."""

import numpy as np
import pandas as pd
import pytest

from equiset.experiments.redshift import results
from equiset.files import write_json
from equiset.results.intervals import Sample, standard_error

from .made_up_runs import results_of, write_run


def leave_run(folder, variant, seed, error, rows=40, holdout=0):
    """Write what a run leaves: its estimates are off by `error` times 1 + z."""
    rng = np.random.default_rng(seed)
    z_spec = rng.uniform(0.12, 0.48, rows).astype(np.float32)
    row = rng.permutation(1000)[:rows]
    table = {"split": "test", "cluster": row // 100, "row": row, "z_spec": z_spec}
    table |= {"z": z_spec + error * (1 + z_spec), "z_catalogue": z_spec - 0.02 * (1 + z_spec)}
    order = rng.permutation(rows) if variant == "mlp" else slice(None)
    table = pd.DataFrame(table).iloc[order]
    if holdout:
        table = pd.concat([table.assign(split="holdout", row=table["row"] + 1000, z=9.0), table])
    counts = {"train_members": 90, "removed_members": 4, "removed_for_holdout": 6}
    more = {"kind": "stand-in", "holdout_clusters": holdout, **counts}
    return write_run(folder, "redshift", variant, table, seed=seed, scale="demo", **more)


@pytest.fixture
def store(tmp_path):
    (tmp_path / "store").mkdir()
    counts = pd.DataFrame({"MEMBERS": [24, 60, 100, 300], "SPECTROSCOPIC": [0, 1, 5, 9]})
    counts.to_parquet(tmp_path / "store" / "clusters.parquet")
    write_json(tmp_path / "store" / "store.json", {"digest": "x"})
    return tmp_path / "store"


@pytest.fixture
def found(tmp_path, store):
    runs = [leave_run(tmp_path, name, seed, off) for name, off in (("set", 0.01), ("mlp", -0.03)) for seed in (0, 1)]
    return results_of("redshift", *runs, store=store)


def test_numbers_of_the_table(found):
    table = results.scatter(found)
    numbers = table.numbers.set_index("variant")
    assert numbers["scatter"].to_dict() == pytest.approx({"set": 0.01, "mlp": 0.03, "catalogue": 0.02}, rel=1e-4)
    assert numbers["bias"].to_dict() == pytest.approx({"set": 0.01, "mlp": -0.03, "catalogue": -0.02}, rel=1e-4)
    assert numbers["scatter_minus_catalogue"]["mlp"] == pytest.approx(0.01, rel=1e-3)
    assert numbers.loc["set", ["scatter_low95", "scatter_high95"]].to_list() == pytest.approx([0.01, 0.01], rel=1e-4)
    assert numbers["test_galaxies"].to_list() == [80] * 3
    assert numbers["paper"].to_dict() == {"set": "0.023", "mlp": "0.026", "catalogue": "0.025"}
    assert "STAND-IN" in " ".join(table.notes)


def test_holdout_is_named_and_not_measured(found, tmp_path, store):
    runs = [leave_run(tmp_path / "held", "set", seed, 0.01, holdout=7) for seed in (0, 1)]
    table = results.scatter(results_of("redshift", *runs, store=store))
    assert table.numbers["scatter"][0] == pytest.approx(0.01, rel=1e-4)
    assert table.numbers["test_galaxies"][0] == 80
    notes = " ".join(table.notes)
    assert "from the 100 for training" in notes
    assert "7 clusters were kept out of training for tuning" in notes
    assert "kept out" not in " ".join(results.scatter(found).notes)


def test_bins_cover_all_galaxies(found):
    table = results.redshift_bins(found)
    one = table.numbers[table.numbers["variant"] == "set"]
    assert one["galaxies"].sum() == 80
    assert list(one["z_spec_from"]) == [0.1, 0.2, 0.3, 0.4]


def test_estimates_of_the_same_galaxies_are_compared_one_by_one(found):
    """The perceptron's are in another order; the difference of two constants has no error."""
    apart = found.measures.get("mlp", "scatter", less="set")
    assert (apart.value, apart.low, apart.high) == pytest.approx((0.02, 0.02, 0.02), rel=1e-3)


def test_intervals_are_over_clusters():
    """Galaxies that share an error count once: the interval is that of 100 clusters, not of 1000 galaxies."""
    rng = np.random.default_rng(0)
    error = np.repeat(rng.normal(0, 0.02, 100), 10)
    found, clusters = standard_error(Sample(error, np.repeat(np.arange(100), 10)))
    assert (found, clusters) == (pytest.approx(error.std() / 10, rel=0.02), 100)
