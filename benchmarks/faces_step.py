"""Time a training step on outlier faces: python benchmarks/faces_step.py [--threads N] [--repeats N] [--bfloat16]

The rival is the straightforward form of the network of appendix B.2: contiguous tensors, pooling after the activation,
torch's own dropout, and the default allocator. Allocators belong to processes, so every form has a process of its own;
they step in turn, never at once.
"""

import argparse
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.experiments.outlier_faces.settings import FaceVariant
from equiset.experiments.outlier_faces.task import POOLS, OutlierNet
from equiset.process import keep_freed_memory

FORMS = {
    "straightforward": "contiguous, default allocator",
    "kept": "the same with freed memory kept",
    "equiset": "equiset: freed memory kept, channels last, pooling first, quick dropout",
    "bfloat16": "equiset in bfloat16",
}
SETTINGS = FaceVariant.model_validate(
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


class Straightforward(nn.Module):
    """The same network as one writes it down."""

    def __init__(self) -> None:
        super().__init__()
        self.net = OutlierNet(SETTINGS, 16)
        layers: list[nn.Module] = []
        convolutions = self.net.convolutions
        for number, (layer, norm) in enumerate(zip(convolutions.layers, convolutions.norms, strict=True)):
            layers += [layer, norm, nn.ELU()]
            layers += [nn.MaxPool2d(POOLS[number // 3])] if number % 3 == 2 else []
            layers += [nn.Dropout(SETTINGS.conv_dropout)]
        self.layers = nn.Sequential(*layers)

    def forward(self, images: Tensor) -> Tensor:
        features = self.layers(images.flatten(0, 1)).flatten(1)
        return self.net.layers(features.unflatten(0, images.shape[:2])).squeeze(2)


def work(form: str, threads: int) -> None:
    """Take one step for every line of the input, and print how long it took."""
    if form != "straightforward":
        keep_freed_memory()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    own = form in ("equiset", "bfloat16")
    model = OutlierNet(SETTINGS, 16).to(memory_format=torch.channels_last) if own else Straightforward()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    images = torch.rand(8, 16, 64, 64, 3).movedim(-1, 2)
    images = images if own else images.contiguous()
    labels = torch.randint(16, (8,))
    for _ in sys.stdin:
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=form == "bfloat16"):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(time.perf_counter() - start, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--bfloat16", action="store_true", help="also in bfloat16; slow on a CPU that lacks it")
    parser.add_argument("--work", choices=FORMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(options.work, options.threads)
    forms = [form for form in FORMS if form != "bfloat16" or options.bfloat16]
    command = [sys.executable, __file__, "--threads", str(options.threads), "--work"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers = {form: subprocess.Popen([*command, form], **pipes) for form in forms}
    rounds = []
    for _ in range(options.repeats + 1):
        taken = {}
        for form, worker in workers.items():
            worker.stdin.write("step\n")
            worker.stdin.flush()
            taken[form] = float(worker.stdout.readline())
        rounds.append(taken)
    for worker in workers.values():
        worker.communicate()
    print(f"torch {torch.__version__}, {options.threads} thread(s), 8 sets of 16 images, float32 unless said otherwise")
    print("| training step | median s | times faster |\n|---|---|---|")
    for form in forms:
        ratio = statistics.median(taken["straightforward"] / taken[form] for taken in rounds[1:])
        print(f"| {FORMS[form]} | {statistics.median(taken[form] for taken in rounds[1:]):.2f} | {ratio:.2f} |")
    return None


if __name__ == "__main__":
    main()
