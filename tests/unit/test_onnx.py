"""Layers and networks as ONNX models, run by onnxruntime: the same numbers, for sets of other sizes as well."""

import copy
import logging
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

from equiset import PackedSets, SetEncoder, SetLayer, SetNorm, SetPool, load_run

onnxruntime = pytest.importorskip("onnxruntime")
ROOT = Path(__file__).parents[2]
FORMS = ("sum", "mean", "max", "mean-norm", "max-norm")
MODULES = {
    **{f"SetLayer {form}": lambda form=form: SetLayer(3, 8, form, "tanh") for form in FORMS},
    **{f"SetPool {pooling}": lambda pooling=pooling: SetPool(pooling) for pooling in ("sum", "mean", "max")},
    "SetNorm": SetNorm,
    "SetEncoder": lambda: SetEncoder([3, 16, 8]),
}


class OfPacked(nn.Module):
    """Takes rows and offsets, since an ONNX model knows tensors alone."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, rows: Tensor, offsets: Tensor) -> Tensor:
        output = self.module(PackedSets(rows, offsets))
        return output.rows if isinstance(output, PackedSets) else output


def check(module: nn.Module, example: tuple[Tensor, ...], free: tuple[dict, ...], cases: list, path: Path) -> None:
    module = copy.deepcopy(module).eval()
    logging.getLogger("onnxscript").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's exporter, about itself
        torch.onnx.export(module, example, dynamo=True, dynamic_shapes=free, verbose=False).save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for case in cases:
        names = [entry.name for entry in session.get_inputs()]
        (found,) = session.run(None, dict(zip(names, (value.numpy() for value in case), strict=True)))
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(found), module(*case), rtol=1e-5, atol=1e-5)


def dense(*sizes: tuple[int, int]) -> list[tuple[Tensor]]:
    """Sets of some sizes; values are rounded, so that many members share a maximum."""
    torch.manual_seed(0)
    return [(torch.randn(batch, members, 3).round(decimals=1),) for batch, members in sizes]


@pytest.mark.parametrize("name", MODULES)
def test_dense_sets_of_any_size(name, tmp_path):
    example, *cases = dense((4, 7), (3, 5), (6, 20), (2, 1))
    check(MODULES[name](), example, ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},), cases, tmp_path / "model.onnx")


@pytest.mark.parametrize("name", MODULES)
def test_packed_sets_of_any_sizes(name, tmp_path):
    torch.manual_seed(0)
    example, *cases = [
        (torch.randn(sum(sizes), 3).round(decimals=1), torch.tensor([0, *sizes]).cumsum(0))
        for sizes in ([2, 3, 4], [1, 1], [5, 1, 7, 2, 1], [1, 30])
    ]
    check(OfPacked(MODULES[name]()), example, ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}), cases, tmp_path / "model.onnx")


def test_a_trained_classifier(tmp_path):
    network = load_run(ROOT / "results/reference/point_clouds/runs/set-1000/seed0").network
    example, *cases = dense((2, 1000), (1, 100), (3, 77), (2, 2))
    check(network, example, ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},), cases, tmp_path / "model.onnx")
