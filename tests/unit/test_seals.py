"""Every file that a later step reads tells when one of its bits was flipped, and is put aside to be made again."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from equiset.errors import DamagedError, EquisetError
from equiset.files import check_folder, read_json, seal_folder, write_json
from equiset.parquet import read_arrow, read_parquet, write_parquet
from equiset.training.loop import load_weights, save_weights

FLIPS = 100


def write_table(path):
    rng = np.random.default_rng(0)
    columns = {"split": pd.Categorical(["train", "test"] * 50), "label": rng.integers(9, size=100).astype(np.int16)}
    write_parquet(path, pd.DataFrame({**columns, "probability": rng.random(100), "members": list(np.eye(100))}))


def write_weights(path):
    save_weights(nn.Linear(8, 8), path)


KINDS = {
    "run.json": (lambda path: write_json(path, {"seed": 3, "text": "± 1", "list": [1.5, None]}), read_json),
    "predictions.parquet": (write_table, read_parquet),
    "clusters.parquet": (write_table, read_arrow),
    "weights.safetensors": (write_weights, lambda path: load_weights(nn.Linear(8, 8), path)),
}


def flipped(content, rng):
    changed = bytearray(content)
    bit = int(rng.integers(8 * len(content)))
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


@pytest.mark.parametrize("name", KINDS)
def test_no_flipped_bit_and_no_cut_passes(tmp_path, name):
    write, read = KINDS[name]
    path = tmp_path / name
    write(path)
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    read(path)
    mark = whole.index(b"equiset-sha256:")
    for _ in range(FLIPS):
        damaged = flipped(whole, rng)
        # Without its mark a file counts as one of the user's own; then the seal alone is damaged.
        if damaged[mark : mark + 15] != b"equiset-sha256:":
            continue
        path.write_bytes(damaged)
        with pytest.raises(DamagedError, match=name):
            read(path)
    for cut in rng.integers(len(whole), size=20):
        path.write_bytes(whole[:cut])
        with pytest.raises(DamagedError, match=name):
            read(path)


@pytest.mark.parametrize("name", ["features.npy", "pool.f32", "store.json"])
def test_no_flipped_bit_of_a_folder_passes(tmp_path, name):
    np.save(tmp_path / "features.npy", np.random.default_rng(0).random((50, 3)))
    (tmp_path / "pool.f32").write_bytes(bytes(range(256)))
    write_json(tmp_path / "store.json", {"dataset": "x"})
    seal_folder(tmp_path, "store.json")
    assert check_folder(tmp_path, "store.json") == {"dataset": "x"}
    whole, rng = (tmp_path / name).read_bytes(), np.random.default_rng(1)
    for _ in range(FLIPS):
        damaged = flipped(whole, rng)
        if name == "store.json" and b"equiset-sha256:" not in damaged:
            continue
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(DamagedError, match=name):
            check_folder(tmp_path, "store.json")
    (tmp_path / name).unlink()
    with pytest.raises(EquisetError, match=name):
        check_folder(tmp_path, "store.json")


def test_a_file_without_a_seal_is_read(tmp_path):
    (tmp_path / "own.json").write_text(json.dumps({"a": 1}))
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "own.parquet")
    assert read_json(tmp_path / "own.json") == {"a": 1}
    assert read_parquet(tmp_path / "own.parquet")["a"].tolist() == [1]


def test_weights_of_another_network_are_named(tmp_path):
    save_weights(nn.Linear(8, 8), tmp_path / "weights.safetensors")
    with pytest.raises(DamagedError, match="does not hold the weights of this network"):
        load_weights(nn.Linear(4, 8), tmp_path / "weights.safetensors")


def test_loaded_weights_are_those_that_were_saved(tmp_path):
    saved, loaded = nn.Linear(8, 8), nn.Linear(8, 8)
    save_weights(saved, tmp_path / "weights.safetensors")
    load_weights(loaded, tmp_path / "weights.safetensors")
    assert torch.equal(saved.weight, loaded.weight)


@pytest.mark.parametrize("folder", ["demo", "reference"])
def test_a_stage_puts_a_damaged_file_aside_unless_it_is_published(tmp_path, folder):
    path = tmp_path / folder / "run.json"
    write_json(path, {"a": 1})
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    code = (
        "import sys; from equiset.process import run_stage; from equiset.files import read_json; "
        "run_stage(lambda _: read_json(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"{path} is damaged" in done.stderr
    published = folder == "reference"
    assert path.exists() == published
    assert path.with_name("run.json.damaged").exists() != published
    assert ("git checkout" in done.stderr) == published
