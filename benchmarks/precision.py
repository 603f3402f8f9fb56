"""What bfloat16 does to accuracy: python benchmarks/precision.py [--store FOLDER] [--seeds N] [--native]

Model IV on sums of three digits, in float32 and in bfloat16, from the same seeds on the same sets: what
`precision: bfloat16` changes and nothing else. Few processors compute in bfloat16; elsewhere torch emulates it and is
many times slower than in float32. So, unless --native is given, its rounding is imitated in float32: what goes into and
comes out of every convolution and product is rounded to bfloat16, forward and backward, and sums are carried in
float32, as such processors do. First, the imitation is compared with torch's own bfloat16 on a few sets.

Training sets come from the first 50,000 training images, validation sets from the other 10,000. The networks are half
as wide as the paper's, and see few sets for few epochs: it shows whether short training is harmed, not where long
training ends. The store is that of `snakemake --cores all -- results/demo/data/mnist/store`.
"""

import argparse
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from instrument import keep_freed_memory
from torch import Tensor
from torch.overrides import TorchFunctionMode

from equiset.experiments.mnist_sums.sets import make_sets
from equiset.experiments.mnist_sums.settings import MnistSets, MnistVariant
from equiset.experiments.mnist_sums.task import Task
from equiset.files import read_json, write_json
from equiset.results.tables import Table
from equiset.training import loop as training

SETTINGS = {
    "model": "IV",
    "sets": "N3",
    "channels": [8, 16, 32, 64],
    "hidden": 128,
    "dropout": 0.0,
    "training": {"epochs": 6, "batch_size": 32, "optimizer": {"learning_rate": 0.001}},
}
_PRODUCTS = (F.conv2d, torch.conv2d, F.linear)
_SHORT = (F.elu, torch.max_pool2d, F.max_pool2d)
"""These take what the products give, so that autocast computes them in bfloat16 as well."""


def _rounded(value: object) -> object:
    is_float = isinstance(value, Tensor) and value.dtype == torch.float32
    return value.to(torch.bfloat16).to(torch.float32) if is_float else value


class Imitation(TorchFunctionMode):
    """Rounds to bfloat16 where autocast would; the gradient of a rounding is rounded as well."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        if function in _PRODUCTS:
            arguments = [_rounded(value) for value in arguments]
            options = {name: _rounded(value) for name, value in options.items()}
            return _rounded(function(*arguments, **options))
        result = function(*arguments, **options)
        return _rounded(result) if function in _SHORT else result


def hold_out(store: Path, folder: Path) -> Path:
    """Write a store of the training images alone, the last 10,000 of them for validation."""
    about = read_json(store / "store.json")
    held = folder / "store"
    held.mkdir()
    for name in ("images.npy", "labels.npy"):
        np.save(held / name, np.load(store / name, mmap_mode="r")[: about["train"]])
    write_json(held / "store.json", about | {"train": about["train"] - about["train"] // 6})
    return held


def compare(task: Task) -> float:
    """Return how far the imitation is from torch's own bfloat16, beside how far that is from float32."""
    torch.manual_seed(0)
    model = task.build_model()
    images = next(task.validation_batches()["validation"])[0][:8]
    with torch.no_grad():
        exact = model(images)
        with torch.autocast("cpu", torch.bfloat16):
            native = model(images).float()
        with Imitation():
            imitated = model(images)
    return float((imitated - native).abs().mean() / (native - exact).abs().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, default=Path("results/demo/data/mnist/store"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", type=int, default=3000)
    parser.add_argument("--native", action="store_true", help="torch's own bfloat16")
    parser.add_argument("--output", type=Path, default=Path("results/bench"), help="folder for precision.csv and .md")
    options = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    device, rows, ratio = torch.device("cpu"), [], float("nan")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = hold_out(options.store, folder)
        for seed in range(options.seeds):
            sets = folder / f"sets{seed}"
            make_sets(MnistSets(members=3, train=options.sets, validation=1500), seed, store, sets)
            for kind in ("float32", "bfloat16"):
                precision = kind if options.native else "float32"
                values = SETTINGS | {"training": SETTINGS["training"] | {"precision": precision}}
                settings = MnistVariant.model_validate(values)
                task = Task(settings, store, sets, device)
                if not rows:
                    ratio = compare(task)
                    print(f"imitation to native, as a part of native to float32: {ratio:.2f}", flush=True)
                checkpoint = folder / f"{kind}{seed}.pt"
                with Imitation() if kind == "bfloat16" and not options.native else nullcontext():
                    _, progress = training.train(task, settings.training, seed, device, checkpoint)
                rows.append({"precision": kind, "seed": seed, **progress.metrics[-1]})
                print(rows[-1], flush=True)
    write(pd.DataFrame(rows), options, ratio)


def percent(values: list[float]) -> str:
    """Return the mean in percent, with the standard deviation over seeds if there are several."""
    values = 100 * np.asarray(values)
    return f"{values.mean():.1f}" if len(values) == 1 else f"{values.mean():.1f} ± {values.std(ddof=1):.1f}"


def write(measured: pd.DataFrame, options: argparse.Namespace, ratio: float) -> None:
    wide = measured.pivot(index="seed", columns="precision", values="validation_accuracy")
    change = 100 * (wide["bfloat16"] - wide["float32"])
    columns = {
        "training (%)": "train_accuracy",
        "validation (%)": "validation_accuracy",
    }
    groups = measured.groupby("precision", sort=False)
    shown = groups.apply(lambda part: pd.Series({to: percent(list(part[of])) for to, of in columns.items()}))
    way = "torch's own bfloat16"
    if not options.native:
        way = f"rounding imitated in float32, off torch's own bfloat16 by {ratio:.2f} of what that changes"
    notes = (
        f"Change by bfloat16, seed by seed: {change.mean():+.1f} ± {change.std(ddof=1):.1f} points; {way}.",
        f"Real MNIST, training images only; {options.sets} training and 1,500 validation sets, "
        f"{SETTINGS['training']['epochs']} epochs, {options.seeds} seeds, channels {SETTINGS['channels']}. It does not "
        "show the paper's width, longer training, or any other experiment.",
    )
    table = Table(measured, shown.reset_index(), "bfloat16 and accuracy: sum of three digits, model IV", notes)
    for kind in ("csv", "md"):
        table.write(options.output / f"precision.{kind}")
    print((options.output / "precision.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
