"""The loop: same bits after an interruption, no silent NaN, weights and checkpoints that can be trusted."""

import hashlib
import io
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from equiset.config.training import Training
from equiset.errors import EquisetError
from equiset.training import loop
from equiset.training.devices import choose_device
from equiset.training.loop import checkpoint_key, fix_seeds, make_optimizer, read_checkpoint, train

CPU = torch.device("cpu")
SPEC = {
    "experiment": "mnist_sums",
    "variant": "v",
    "seed": 0,
    "scale": "demo",
    "device": "cpu",
    "settings": {"width": 4, "training": {"epochs": 3}},
}


def training(**changes):
    values = {"epochs": 4, "batch_size": 8, "optimizer": {"learning_rate": 0.01}} | changes
    return Training.model_validate(values)


class Line:
    """Fits a line with a dropout layer, so that every random number counts. Stops where a test wants it to."""

    def __init__(self, stop_in_epoch=None, bad_batch=None):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(40, 3, generator=generator)
        self.y = self.x @ torch.tensor([1.0, -2.0, 3.0]) + 0.1 * torch.randn(40, generator=generator)
        self.epoch, self.stop_in_epoch, self.bad_batch = 0, stop_in_epoch, bad_batch

    def build_model(self):
        return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 1))

    def train_batches(self, generator):
        self.epoch += 1
        for number, order in enumerate(torch.randperm(40, generator=generator).split(8)):
            if self.epoch == self.stop_in_epoch and number == 2:
                raise KeyboardInterrupt
            scale = float("nan") if (self.epoch, number) == self.bad_batch else 1.0
            yield self.x[order] * scale, self.y[order]

    def validation_batches(self):
        return {"validation": iter([(self.x, self.y)])}

    def loss(self, model, batch):
        x, y = batch
        loss = (model(x).squeeze(1) - y).square().mean()
        return loss, {"sets": len(y), "loss": loss.detach() * len(y)}


def weights(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


@pytest.mark.parametrize("optimizer", ["adam", "adamax"])
@pytest.mark.parametrize("stop", [1, 2, 4])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, stop, optimizer):
    settings = training(optimizer={"name": optimizer, "learning_rate": 0.01})
    whole, progress = train(Line(), settings, 7, CPU, tmp_path / "whole.pt")
    with pytest.raises(KeyboardInterrupt):
        train(Line(stop_in_epoch=stop), settings, 7, CPU, tmp_path / "cut.pt")
    torch.rand(99)  # whatever else the new process does with random numbers
    resumed, resumed_progress = train(Line(), settings, 7, CPU, tmp_path / "cut.pt")
    assert torch.equal(weights(whole), weights(resumed))
    pd.testing.assert_frame_equal(
        pd.DataFrame(progress.metrics), pd.DataFrame(resumed_progress.metrics), check_exact=True
    )


def test_seeds_decide_everything(tmp_path):
    first, _ = train(Line(), training(), 7, CPU, tmp_path / "a.pt")
    second, _ = train(Line(), training(), 7, CPU, tmp_path / "b.pt")
    other, _ = train(Line(), training(), 8, CPU, tmp_path / "c.pt")
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(other))


def test_training_learns(tmp_path):
    _, progress = train(Line(), training(epochs=60), 0, CPU, tmp_path / "a.pt")
    assert progress.metrics[-1]["validation_loss"] < 0.2 * progress.metrics[0]["validation_loss"]


def test_a_longer_run_goes_on_and_equals_one_made_at_once(tmp_path):
    train(Line(), training(epochs=2), 7, CPU, tmp_path / "grown.pt")
    task = Line()
    grown, progress = train(task, training(epochs=5), 7, CPU, tmp_path / "grown.pt")
    whole, _ = train(Line(), training(epochs=5), 7, CPU, tmp_path / "whole.pt")
    assert task.epoch == 3
    assert [row["epoch"] for row in progress.metrics] == [1, 2, 3, 4, 5]
    assert torch.equal(weights(grown), weights(whole))


def test_validation_may_be_rarer_than_epochs_and_decides_nothing(tmp_path):
    every, _ = train(Line(), training(), 0, CPU, tmp_path / "every.pt")
    rare, progress = train(Line(), training(validate_every=3), 0, CPU, tmp_path / "rare.pt")
    assert [row["epoch"] for row in progress.metrics if "validation_loss" in row] == [3, 4]
    assert torch.equal(weights(every), weights(rare))


@pytest.mark.parametrize("first", [2, 3, 4])
def test_a_longer_run_leaves_the_metrics_of_one_made_at_once(tmp_path, first):
    """The last epoch is always validated; once it is no longer the last, that is not to be seen."""
    train(Line(), training(epochs=first, validate_every=3), 7, CPU, tmp_path / "grown.pt")
    _, grown = train(Line(), training(epochs=6, validate_every=3), 7, CPU, tmp_path / "grown.pt")
    _, whole = train(Line(), training(epochs=6, validate_every=3), 7, CPU, tmp_path / "whole.pt")
    pd.testing.assert_frame_equal(pd.DataFrame(grown.metrics), pd.DataFrame(whole.metrics), check_exact=True)
    assert grown.metrics == whole.metrics


def test_a_run_that_was_cut_where_a_shorter_one_ends_is_validated_there(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(Line(stop_in_epoch=5), training(epochs=6, validate_every=3), 7, CPU, tmp_path / "cut.pt")
    _, cut = train(Line(), training(epochs=4, validate_every=3), 7, CPU, tmp_path / "cut.pt")
    _, whole = train(Line(), training(epochs=4, validate_every=3), 7, CPU, tmp_path / "whole.pt")
    assert cut.metrics == whole.metrics


def test_a_shorter_run_starts_anew(tmp_path):
    train(Line(), training(epochs=5), 7, CPU, tmp_path / "a.pt")
    shorter, progress = train(Line(), training(epochs=2), 7, CPU, tmp_path / "a.pt")
    whole, _ = train(Line(), training(epochs=2), 7, CPU, tmp_path / "b.pt")
    assert len(progress.metrics) == 2
    assert torch.equal(weights(shorter), weights(whole))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a checkpoint", pickle.dumps({"model": 1}, protocol=2)])
def test_a_broken_checkpoint_is_said_and_not_used(tmp_path, content, caplog):
    (tmp_path / "a.pt").write_bytes(content)
    _, progress = train(Line(), training(epochs=1), 7, CPU, tmp_path / "a.pt")
    assert len(progress.metrics) == 1
    assert "a.pt is damaged" in caplog.text


def test_no_cut_and_no_flipped_bit_of_a_checkpoint_is_used(tmp_path):
    train(Line(), training(epochs=1), 7, CPU, tmp_path / "a.pt")
    whole = (tmp_path / "a.pt").read_bytes()
    rng = np.random.default_rng(0)
    damaged = [whole[:cut] for cut in rng.integers(len(whole), size=150)]
    for bit in rng.integers(8 * len(whole), size=600):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << (bit % 8)
        damaged.append(bytes(flipped))
    for content in damaged:
        (tmp_path / "a.pt").write_bytes(content)
        with pytest.raises(EquisetError, match=r"a\.pt is damaged"):
            read_checkpoint(tmp_path / "a.pt")


def test_a_checkpoint_never_runs_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    content = io.BytesIO()
    torch.save(Evil(), content)
    (tmp_path / "a.pt").write_bytes(hashlib.sha256(content.getvalue()).digest() + content.getvalue())
    with pytest.raises(pickle.UnpicklingError):
        read_checkpoint(tmp_path / "a.pt")
    assert not (tmp_path / "ran").exists()


def test_nan_stops_the_run_with_a_remedy_and_keeps_the_last_good_checkpoint(tmp_path):
    with pytest.raises(EquisetError, match=r"epoch 2: loss nan.*learning_rate"):
        train(Line(bad_batch=(2, 1)), training(), 7, CPU, tmp_path / "a.pt")
    assert read_checkpoint(tmp_path / "a.pt")["progress"]["epochs"] == 1


def test_a_gradient_that_overflows_stops_the_run_though_its_loss_is_finite(tmp_path):
    """Adam's second moment becomes infinite, and its weight would never move again."""

    class Steep(Line):
        def loss(self, model, batch):
            loss, sums = super().loss(model, batch)
            return (loss * 1e20 if self.epoch == 2 else loss), sums

    with pytest.raises(EquisetError, match=r"epoch 2: weights that are not finite.*gradient_clip"):
        train(Steep(), training(), 7, CPU, tmp_path / "a.pt")
    assert read_checkpoint(tmp_path / "a.pt")["progress"]["epochs"] == 1


def test_gradients_are_clipped(tmp_path):
    moved = []
    for clip in (None, 1e-6):
        settings = training(epochs=1, optimizer={"learning_rate": 0.01, "eps": 1.0}, gradient_clip=clip)
        fix_seeds(7)
        start = weights(Line().build_model())
        moved.append((weights(train(Line(), settings, 7, CPU, tmp_path / f"{clip}.pt")[0]) - start).norm())
    assert moved[1] < 1e-3 * moved[0]


def test_the_checkpoint_key_tells_runs_apart():
    def changed(**changes):
        return checkpoint_key(SPEC | changes, {"digest": "1"}, "code")

    same = checkpoint_key(SPEC, {"digest": "1"}, "code")
    assert changed(settings={"width": 4, "training": {"epochs": 99}}) == same
    assert changed(settings={"width": 5, "training": {"epochs": 3}}) != same
    assert changed(seed=1) != same
    assert changed(device="cuda") != same
    assert changed(experiment="redshift") != same
    assert changed(scale="paper") == same
    assert checkpoint_key(SPEC, {"digest": "2"}, "code") != same
    assert checkpoint_key(SPEC, {"digest": "1", "particles": 9}, "code") != same
    assert checkpoint_key(SPEC, {"digest": "1", "data": "in other words"}, "code") == same
    assert checkpoint_key(SPEC, {"digest": "1"}, "other code") != same


def test_who_listens_is_told_of_the_start_and_of_each_epoch(tmp_path):
    told = []

    def listener(progress):
        told.append((progress.epochs, len(progress.metrics), len(progress.epoch_seconds)))

    train(Line(), training(epochs=2), 7, CPU, tmp_path / "a.pt", listener)
    assert told == [(0, 0, 0), (1, 1, 1), (2, 2, 2)]
    told.clear()
    train(Line(), training(epochs=3), 7, CPU, tmp_path / "a.pt", listener)
    assert told == [(2, 2, 2), (3, 3, 3)], "it goes on"


def test_devices():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    if not torch.cuda.is_available():
        with pytest.raises(EquisetError, match=r"config key 'device' is 'cuda'.*use 'auto' or 'cpu'"):
            choose_device("cuda")


ASK = """
import sys
from types import SimpleNamespace
import torch
from equiset.training.devices import _free_gpu
torch.cuda.get_device_properties = lambda number: SimpleNamespace(uuid=f"uuid-{number}")
count = int(sys.argv[1])
print(_free_gpu(count), _free_gpu(count), flush=True)
sys.stdin.read()
"""
"""A job on a machine with some GPUs, which asks twice for one and keeps it until it is told to end."""


def test_jobs_side_by_side_take_gpus_of_their_own(tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}

    def job():
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        started = subprocess.Popen([sys.executable, "-c", ASK, "2"], env=environment, **pipes)
        one, again = started.stdout.readline().split()
        assert one == again, "a job stays where it is"
        return started, int(one)

    first, second = job(), job()
    assert [first[1], second[1]] == [0, 1]
    third = job()
    assert third[1] in (0, 1), "all are taken, so it shares one"
    for started, _ in (first, third):
        started.communicate()
    last = job()
    assert last[1] == 0, "whoever ends gives it back"
    for started, _ in (last, second):
        started.communicate()


def test_the_learning_rate_is_lowered_after_some_epochs(tmp_path):
    rates = []

    class Watched(Line):
        def train_batches(self, generator):
            rates.append(optimizers[-1].param_groups[0]["lr"])
            return super().train_batches(generator)

    optimizers = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            loop, "make_optimizer", lambda *given: optimizers.append(make_optimizer(*given)) or optimizers[-1]
        )
        train(Watched(), training(epochs=5, lower_after=[1, 3], lower_by=0.5), 7, CPU, tmp_path / "a.pt")
    first = training().optimizer.learning_rate
    assert rates == [first, first / 2, first / 2, first / 4, first / 4]
