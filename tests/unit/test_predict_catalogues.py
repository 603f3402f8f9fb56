"""`python -m equiset predict` on catalogues of galaxies."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from equiset.errors import EquisetError
from tests.unit.untrained_runs import UntrainedRun, predicted


def catalogue(made: UntrainedRun, folder: Path, kept: np.ndarray) -> Path:
    """Write some members of the store, and the clusters, as Parquet."""
    folder.mkdir()
    shutil.copy(made.store / "clusters.parquet", folder / "clusters.parquet")
    pq.write_table(pq.read_table(made.store / "members.parquet").filter(kept), folder / "members.parquet")
    return folder


@pytest.mark.parametrize("variant", ["set", "mlp"])
def test_redshifts_are_those_of_the_evaluation(make_run, variant, tmp_path):
    made = make_run("redshift", variant)
    expected = made.evaluated().query("split == 'test'")
    offsets, known = np.load(made.store / "offsets.npy"), expected["row"].to_numpy()
    cluster = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # The evaluation sees clusters that hold a galaxy with a spectrum; the perceptron sees those galaxies alone.
    kept = np.isin(cluster, cluster[known]) if variant == "set" else np.isin(np.arange(len(cluster)), known)
    found = predicted(made.run, catalogue(made, tmp_path / "sky", kept))
    assert found["z"].to_numpy()[np.isin(np.flatnonzero(kept), known)].tolist() == expected["z"].tolist()
    objid = pd.read_parquet(made.store / "members.parquet", columns=["ID", "OBJID"])[kept]
    assert found[["ID", "OBJID"]].to_numpy().tolist() == objid.to_numpy().tolist()


def test_a_catalogue_in_fits_gives_what_the_same_in_parquet_gives(make_run, tmp_path):
    made = make_run("redshift", "set", seeds=3)
    whole = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    fits = next(made.store.parent.joinpath("cache").glob("redmapper-stand-in-*"))
    one, other = predicted(made.variant, whole), predicted(made.variant, fits)
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    alone = [predicted(made.variant / f"seed{seed}", fits)["z"] for seed in range(3)]
    np.testing.assert_allclose(one["z"], np.mean(alone, 0), rtol=1e-6)
    np.testing.assert_allclose(one["z_spread"], np.std(alone, 0, ddof=1), rtol=1e-4)
    assert one["z_spread"].gt(0).all()


def test_clusters_need_not_be_in_order(make_run, tmp_path, monkeypatch):
    made = make_run("redshift", "set", seeds=2)
    monkeypatch.setattr("equiset.experiments.redshift.task.EVALUATION_BATCH", 7)
    sky = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    expected = predicted(made.variant, sky)
    table = pq.read_table(sky / "members.parquet")
    # Clusters in any order, with their members apart, which keep their own order.
    order = np.random.default_rng(0).permutation(len(table))
    order = order[np.argsort(expected["ID"].to_numpy()[order], kind="stable")]
    places = np.concatenate([np.sort(order[0::3]), np.sort(order[1::3]), np.sort(order[2::3])])
    pq.write_table(table.take(places), sky / "members.parquet")
    found = predicted(made.variant, sky)
    assert found["OBJID"].tolist() == expected["OBJID"].to_numpy()[places].tolist()
    np.testing.assert_allclose(found["z"], expected["z"].to_numpy()[places], rtol=1e-5)


@pytest.mark.parametrize(
    ("column", "change", "reason"),
    [
        ("ID", lambda ids: pc.binary_join_element_wise("cluster", ids.cast(pa.string()), "-"), "ID, .* whole numbers"),
        ("ID", lambda ids: pc.add(ids.cast(pa.float64()), 0.5), "ID, .* whole numbers"),
        ("MODEL_MAG_I", lambda values: values.cast(pa.string()), "MODEL_MAG_I must hold numbers, and holds string"),
    ],
)
def test_a_column_of_the_wrong_kind_is_one_line(make_run, tmp_path, column, change, reason):
    made = make_run("redshift", "set")
    sky = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    table = pq.read_table(sky / "members.parquet")
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, change(table[column])), sky / "members.parquet")
    with pytest.raises(EquisetError, match=f"members.parquet: {reason}"):
        predicted(made.run, sky)


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.int32()])
def test_ids_may_be_written_in_any_way(make_run, tmp_path, kind):
    made = make_run("redshift", "set")
    sky = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    expected = predicted(made.run, sky)
    table = pq.read_table(sky / "members.parquet")
    place = table.column_names.index("ID")
    pq.write_table(table.set_column(place, "ID", table["ID"].cast(kind)), sky / "members.parquet")
    pd.testing.assert_frame_equal(predicted(made.run, sky), expected)


def test_p_cen_of_text_is_one_line(make_run, tmp_path):
    made = make_run("redshift", "set")
    sky = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    table = pq.read_table(sky / "clusters.parquet")
    text = pa.array(["0.9 0.1"] * len(table))
    pq.write_table(table.set_column(table.column_names.index("P_CEN"), "P_CEN", text), sky / "clusters.parquet")
    with pytest.raises(EquisetError, match="P_CEN must hold 5 numbers in each row, and holds string"):
        predicted(made.run, sky)


def test_columns_that_are_missing_are_named(make_run, tmp_path):
    made = make_run("redshift", "set")
    whole = catalogue(made, tmp_path / "sky", np.ones(len(np.load(made.store / "z_spec.npy")), bool))
    members = whole / "members.parquet"
    with pytest.raises(EquisetError, match="lacks the columns P_CEN"):
        predicted(made.run, members)
    pq.write_table(pq.read_table(members).drop_columns(["RA"]), members)
    with pytest.raises(EquisetError, match="lacks the columns RA"):
        predicted(made.run, whole)
    table = pq.read_table(made.store / "members.parquet")
    ids = pc.if_else(pc.equal(table["ID"], table["ID"][0]), None, table["ID"])
    pq.write_table(table.set_column(0, "ID", ids), members)
    with pytest.raises(EquisetError, match=r"holds a member without its cluster \(ID\)"):
        predicted(made.run, whole)
    pq.write_table(table.append_column("P_CEN", pa.array([[0.5, 0.5]] * len(table))), members)
    with pytest.raises(EquisetError, match="P_CEN must hold 5 numbers in each row"):
        predicted(made.run, members)
