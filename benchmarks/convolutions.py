"""Training steps of the two networks with convolutions: python benchmarks/convolutions.py

Sets of digits (model IV, three images each) and outlier faces (sets of sixteen). The rivals are the straightforward
forms: contiguous tensors, pooling after the activation, torch's own dropout, and the allocator as it comes. In
bfloat16 only where the processor has it; elsewhere it is many times slower.
"""

from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from instrument import Benchmark, Form, Step, main
from torch import Tensor, nn

from equiset.experiments.mnist_sums.networks import SumNet
from equiset.experiments.mnist_sums.settings import MnistVariant
from equiset.experiments.outlier_faces.networks import POOLS, OutlierNet
from equiset.experiments.outlier_faces.settings import FaceVariant

DIGITS = MnistVariant.model_validate(
    {
        "model": "IV",
        "sets": "N3",
        "channels": [16, 32, 64, 128],
        "hidden": 128,
        "dropout": 0.2,
        "training": {"epochs": 1, "batch_size": 32, "optimizer": {"learning_rate": 0.0003}},
    }
)
FACES = FaceVariant.model_validate(
    {
        "model": "set-layer",
        "sets": "one",
        "channels": [32, 32, 64, 64, 64, 128, 128, 128, 256],
        "set_channels": [256, 128],
        "conv_dropout": 0.2,
        "set_dropout": 0.5,
        "training": {"epochs": 1, "batch_size": 8, "optimizer": {"learning_rate": 0.001}},
    }
)


class StraightDigits(nn.Module):
    """Model IV as one writes it down."""

    def __init__(self) -> None:
        super().__init__()
        self.net = SumNet(DIGITS, 3)
        layers: list[nn.Module] = []
        for layer in self.net.convolutions.layers:
            layers += [layer, nn.ELU(), nn.MaxPool2d(2, ceil_mode=True), nn.Dropout(DIGITS.dropout)]
        self.layers = nn.Sequential(*layers, nn.Flatten())

    def forward(self, images: Tensor) -> Tensor:
        features = self.layers(images.flatten(0, 1).unsqueeze(1)).unflatten(0, images.shape[:2])
        return self.net.set_layers(self.net.pool(self.net.member_layers(features)))


class StraightFaces(nn.Module):
    """The network of appendix B.2 as one writes it down."""

    def __init__(self) -> None:
        super().__init__()
        self.net = OutlierNet(FACES, 16)
        layers: list[nn.Module] = []
        convolutions = self.net.convolutions
        for number, (layer, norm) in enumerate(zip(convolutions.layers, convolutions.norms, strict=True)):
            layers += [layer, norm, nn.ELU()]
            layers += [nn.MaxPool2d(POOLS[number // 3])] if number % 3 == 2 else []
            layers += [nn.Dropout(FACES.conv_dropout)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        features = self.layers(images.flatten(0, 1)).flatten(1)
        return self.net.layers(features.unflatten(0, images.shape[:2])).squeeze(2)


def digits() -> tuple[Tensor, Tensor]:
    return torch.rand(32, 3, 28, 28), torch.randint(28, (32,))


def faces() -> tuple[Tensor, Tensor]:
    return torch.rand(8, 16, 64, 64, 3).movedim(-1, 2), torch.randint(16, (8,))


def step_of(
    make: Callable[[], nn.Module], data: Callable[[], tuple[Tensor, Tensor]], ours: bool, half: bool = False
) -> Callable[[Path], Step]:
    def prepare(_: Path) -> Step:
        model = make()
        model = model.to(memory_format=torch.channels_last) if ours else model
        optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
        images, labels = data()
        images = images if ours else images.contiguous()

        def step() -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                loss = F.cross_entropy(model(images).float(), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return step

    return prepare


def products(convolutions: list[tuple[int, int, int, int]]) -> Callable[[Path], Step]:
    """Return the products of (images, pixels of the output, kernel x channels in, channels out), without unfolding."""

    def prepare(_: Path) -> Step:
        sizes = []
        for number, (images, pixels, into, out) in enumerate(convolutions):
            x, grad, weight = (
                torch.randn(images * pixels, into),
                torch.randn(images * pixels, out),
                torch.randn(into, out),
            )
            sizes.append((number, x, grad, weight))

        def step() -> None:
            for number, x, grad, weight in sizes:
                _ = x @ weight, x.t() @ grad
                if number:  # the images need no gradient
                    _ = grad @ weight.t()

        return step

    return prepare


def benchmark(name: str, ours, straight, data, convolutions, bar: float, rounds: int) -> Benchmark:
    half = [Form("in bfloat16", step_of(ours, data, True, True), kept=True)]
    return Benchmark(
        name,
        (
            Form("channels last, pooling first, memory kept", step_of(ours, data, True), kept=True),
            Form("straightforward", step_of(straight, data, False)),
            Form("straightforward, freed memory kept", step_of(straight, data, False), kept=True),
            *(half if torch.ops.mkldnn._is_mkldnn_bf16_supported() else []),
            Form("bare matrix products of the convolutions", products(convolutions), kept=True, limit=True),
        ),
        bar=bar,
        rounds=rounds,
    )


BENCHMARKS = [
    benchmark(
        "MNIST step, 32 sets of 3",
        lambda: SumNet(DIGITS, 3),
        StraightDigits,
        digits,
        [(96, side**2, 25 * into, out) for side, into, out in [(28, 1, 16), (14, 16, 32), (7, 32, 64), (4, 64, 128)]],
        bar=2,
        rounds=7,
    ),
    benchmark(
        "faces step, 8 sets of 16",
        lambda: OutlierNet(FACES, 16),
        StraightFaces,
        faces,
        [
            (128, side**2, 9 * into, out)
            for side, into, out in zip(
                (62, 60, 58, 27, 25, 23, 9, 7, 5), (3, *FACES.channels), FACES.channels, strict=False
            )
        ],
        bar=2,
        rounds=3,
    ),
]

if __name__ == "__main__":
    main(BENCHMARKS)
