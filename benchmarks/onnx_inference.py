"""Inference by torch, by onnxruntime and by torch.compile: python benchmarks/onnx_inference.py

An encoder of three layers (eq. 5, pooled by the maximum) and a linear classifier, on clouds and on packed sets. The
model for onnxruntime is exported once for all sizes; torch.compile compiles for the sizes that it meets. A step repeats
the inference until it is long enough to be timed. Every form is first checked against torch's answer.
"""

import logging
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from instrument import Benchmark, Form, Step, main
from torch import Tensor, nn
from torch.export import Dim

from equiset import PackedSets, SetEncoder

Run = Callable[..., Tensor]
Inputs = tuple[Tensor, ...]


class Classifier(nn.Module):
    """For dense sets, or for rows and offsets, since an ONNX model knows tensors alone."""

    def __init__(self, *widths: int):
        super().__init__()
        self.encoder, self.head = SetEncoder(widths), nn.Linear(widths[-1], 40)

    def forward(self, values: Tensor, offsets: Tensor | None = None, shortcut: bool = True) -> Tensor:
        sets = values if offsets is None else PackedSets(values, offsets)
        # What is exported or compiled goes layer by layer in any case.
        return self.head(self.encoder(sets) if shortcut else self.encoder.plain(sets))


def onnxruntime_of(model: nn.Module, inputs: Inputs, folder: Path) -> Run:
    import onnxruntime

    free = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},) if len(inputs) == 1 else ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC})
    # The exporter's warnings are about itself, and this process does nothing else.
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    torch.onnx.export(model, inputs, dynamo=True, dynamic_shapes=free, verbose=False).save(folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    given = {entry.name: value.numpy() for entry, value in zip(session.get_inputs(), inputs, strict=True)}
    return lambda *_: torch.from_numpy(session.run(None, given)[0])


RUNNERS: dict[str, Callable[[nn.Module, Inputs, Path], Run]] = {
    "torch": lambda model, *_: model,
    "onnxruntime": onnxruntime_of,
    "torch.compile": lambda model, *_: torch.compile(model),
    "torch, layer by layer": lambda model, *_: partial(model, shortcut=False),
}


def benchmark(name: str, widths: tuple[int, ...], make: Callable[[], Inputs], repeats: int) -> Benchmark:
    def form(runner: str) -> Form:
        def prepare(folder: Path) -> Step:
            model, inputs = Classifier(*widths).eval(), make()
            run = RUNNERS[runner](model, inputs, folder)

            @torch.inference_mode()
            def step() -> None:
                for _ in range(repeats):
                    run(*inputs)

            with torch.inference_mode():
                torch.testing.assert_close(run(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)
            return step

        return Form(runner, prepare, kept=True)

    return Benchmark(f"inference, {name}", tuple(map(form, RUNNERS)), rounds=9, memory=False)


def packed() -> Inputs:
    sizes = torch.randint(20, 301, (128,))
    return torch.randn(int(sizes.sum()), 17), torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])


BENCHMARKS = [
    benchmark("8 clouds of 100, width 256", (3, 256, 256, 256), lambda: (torch.randn(8, 100, 3),), 50),
    benchmark("8 clouds of 1000, width 256", (3, 256, 256, 256), lambda: (torch.randn(8, 1000, 3),), 5),
    benchmark("128 packed sets of 20 to 300, width 128", (17, 128, 128, 128), packed, 5),
]

if __name__ == "__main__":
    main(BENCHMARKS)
