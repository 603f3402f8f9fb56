"""The point clouds in the whole workflow."""

import sqlite3

import pandas as pd


def test_all_tables_and_figures_are_there(finished):
    folder = finished.folder / "results" / "smoke" / "point_clouds"
    for name in ("tables/table1", "tables/ablations"):
        assert all((folder / f"{name}.{kind}").stat().st_size > 100 for kind in ("csv", "md", "tex"))
    for name in ("figures/figure2", "figures/figure3", "figures/robustness"):
        assert all((folder / f"{name}.{kind}").stat().st_size > 1000 for kind in ("png", "pdf"))
    table = pd.read_csv(folder / "tables" / "table1.csv")
    assert list(table["variant"]) == ["set-1000", "graph-1000"]
    text = (folder / "tables" / "table1.md").read_text()
    assert "STAND-IN" in text
    assert text.count("(quoted)") == 11
    assert "cannot be used: 0" in text


def test_mlflow_has_the_runs(finished):
    with sqlite3.connect(finished.folder / "results" / "mlflow.db") as database:
        query = "select runs.name from runs join experiments using (experiment_id) where experiments.name = ?"
        names = sorted(name for (name,) in database.execute(query, ["point_clouds"]))
    database.close()
    assert names == ["graph-1000/seed0", "set-1000/seed0", "tables and figures"]


def test_every_test_mesh_is_predicted_and_none_is_trained_on(finished):
    """The split of the source is the split of the sets."""
    folder = finished.folder / "results" / "smoke"
    meshes = pd.read_parquet(folder / "data" / "modelnet40" / "store" / "meshes.parquet")
    sets = pd.read_parquet(folder / "point_clouds" / "sets" / "P1000" / "seed0" / "sets.parquet")
    assert ((meshes["split"] == "test") == (sets["split"] == "test")).all()
    predictions = pd.read_parquet(folder / "point_clouds" / "runs" / "set-1000" / "seed0" / "predictions.parquet")
    tested = meshes.index[meshes["split"] == "test"]
    assert predictions.groupby("draw")["mesh"].apply(lambda part: sorted(part) == list(tested)).all()
