"""On a GPU as on a CPU, without one: every variant on a device that refuses to mix and counts what is dear there."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from equiset.config.specs import analysis_spec
from equiset.config.training import Training
from equiset.experiments.point_clouds import analyses
from equiset.nn import SetEncoder, encoder
from equiset.nn.sets import PackedSets
from equiset.training import devices, feeding
from equiset.training.loop import make_optimizer, read_checkpoint, train

from .card import CARD, CardTensor, card
from .small_tasks import VARIANTS, gpu_check
from .test_training import CPU, Line, training

# Launches of a training step, from above: the network's own, those of the loss and of its metrics, and one or a few of
# the optimizer. None depends on the number of sets or members.
LAUNCHES = {"mnist_sums": 110, "point_clouds": 150, "outlier_faces": 175, "redshift": 125}
# Attention is one launch on a GPU, and here as many as it has products and sums.
LAUNCHES |= {"set-transformer-100": 300}
# As small as they are, the stand-ins give at least two batches of these sizes.
BATCH = {"mnist_sums": 2, "point_clouds": 20, "outlier_faces": 1, "redshift": 4}


class Watched:
    """A task that keeps what is counted from one training step to the next."""

    def __init__(self, task, counts):
        self.task, self.counts, self.steps = task, counts, []
        self.build_model, self.train_batches, self.validation_batches = (
            task.build_model,
            task.train_batches,
            task.validation_batches,
        )

    def loss(self, model, batch):
        if model.training:
            self.steps.append((self.counts.launches, self.counts.waits, self.counts.copies))
            self.counts.reset()
        return self.task.loss(model, batch)


@pytest.mark.parametrize(("experiment", "variant"), VARIANTS)
def test_a_step_never_waits_and_launches_few_kernels(tasks, experiment, variant, tmp_path):
    """The whole loop: training, validation, checkpoint. Then the network predicts, as `evaluate` lets it."""
    with card() as counts:
        task = tasks.make(experiment, variant, CARD, batch_size=BATCH[experiment], epochs=2)
        watched = Watched(task, counts)
        model, progress = train(watched, task.settings.training, 0, CARD, tmp_path / "a.pt")
        assert all(isinstance(weight, CardTensor) for weight in model.state_dict().values())
        launches, waits, copies = watched.steps[-1]  # between the last two steps: one of them, and the next batch
        assert not waits
        assert not copies["that wait"]
        assert sum(launches.values()) <= LAUNCHES.get(variant, LAUNCHES[experiment])
        predictions = task.predict(model.eval())
        state = {name: value.cpu() for name, value in model.state_dict().items()}
    on_cpu = tasks.make(experiment, variant, CPU)
    same = on_cpu.build_model().eval()
    same.load_state_dict(state)
    expected = on_cpu.predict(same)
    column = "z" if experiment == "redshift" else "probability"
    found, wanted = (torch.from_numpy(np.stack(table[column])) for table in (predictions, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
    assert len(read_checkpoint(tmp_path / "a.pt")["progress"]["metrics"]) == len(progress.metrics) == 2


@pytest.mark.parametrize(("experiment", "variant"), VARIANTS)
def test_loss_and_gradient_are_those_of_a_cpu(tasks, experiment, variant):
    with card():
        loss, gradient = gpu_check.differences(tasks, experiment, variant, CARD)
    assert loss < 1e-5
    assert gradient < 1e-4


@pytest.mark.parametrize(("experiment", "variant"), VARIANTS)
def test_it_trains_in_bfloat16(tasks, experiment, variant, tmp_path):
    """Automatic mixed precision, on the CPU."""
    task = tasks.make(experiment, variant, CPU, precision="bfloat16")
    model, progress = train(task, task.settings.training, 0, CPU, tmp_path / "checkpoint.pt")
    assert torch.tensor(progress.metrics[0]["train_loss"]).isfinite()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert all(parameter.grad.any() for parameter in model.parameters() if parameter.ndim > 1)


def test_analyses_run_on_the_card(tasks, monkeypatch):
    """Robustness and activation maximisation: nothing is mixed, and within the iterations nothing is waited for."""
    monkeypatch.setattr(analyses, "choose_device", lambda name: CARD)
    with card() as counts:
        task = tasks.make("point_clouds", "set-1000", CARD)
        model = task.build_model()
        monkeypatch.setattr(analyses, "load_run", lambda _, device: SimpleNamespace(network=model.to(device).eval()))
        info = {"spec": {"device": "auto"}, "sets": {"particles": 12}}
        run = SimpleNamespace(
            folder=tasks.folder,
            info=info,
            settings={"training": {"precision": "float32"}},
            seed=0,
            variant="set-1000",
        )
        runs, store = {"set-1000": [run]}, tasks.store("modelnet40")
        settings = analysis_spec(tasks.config, "point_clouds", "robustness")
        table = analyses.robustness(runs, store, settings | {"particles": [5], "meshes": 4})
        assert all(len(right) == 4 for right in table["right"])
        waits = []
        for iterations in (1, 4):
            settings = analysis_spec(tasks.config, "point_clouds", "activations")
            counts.reset()
            analyses.activations(runs, store, settings | {"particles": 6, "units": 2, "iterations": iterations})
            waits.append(sum(counts.waits.values()))
        assert waits[0] == waits[1]


def test_the_check_of_a_first_gpu_runs_without_one(tmp_path, capsys):
    assert gpu_check.main(["--device", "cpu", "--small", "--only", "mlp", "--output", str(tmp_path)]) == 0
    said = (tmp_path / "gpu_check.md").read_text()
    assert said in capsys.readouterr().out
    assert "two jobs: no GPU to share" in said
    assert "| redshift/mlp | 0.0e+00       | 0.0e+00           | yes      | yes " in said


# SetEncoder


def encoded(sets, packed, short, monkeypatch):
    """Return the launches and waits of a step, its output and gradients, on the card and on the CPU."""
    monkeypatch.setattr(encoder, "KEPT_BYTES", 0 if short else 2**32)
    torch.manual_seed(0)
    module, x = SetEncoder([3, 8, 8, 8]), torch.randn(sets, 12, 3)
    if packed:
        x = PackedSets.from_list([rows[: 3 + number % 9] for number, rows in enumerate(x)])
    results = []
    with card() as counts:
        for device in (CPU, CARD):
            module, x = module.to(device), x.to(device)
            module.zero_grad()
            counts.reset()
            y = module(x)
            y.square().sum().backward()
            launched = sum(counts.launches.values()), sum(counts.waits.values())
            results.append([y.detach().cpu(), *(parameter.grad.cpu() for parameter in module.parameters())])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    return launched


@pytest.mark.parametrize(
    ("packed", "short", "launches", "waits"), [(0, 0, 55, 0), (1, 0, 70, 0), (0, 1, 140, 4), (1, 1, 155, 4)]
)
def test_what_the_encoder_launches_does_not_depend_on_the_number_of_sets(packed, short, launches, waits, monkeypatch):
    few, many = (encoded(sets, packed, short, monkeypatch) for sets in (8, 64))
    assert few == many
    assert few[0] <= launches
    assert few[1] == waits


def test_the_encoder_is_plain_while_a_cuda_graph_is_captured(monkeypatch):
    monkeypatch.setattr(encoder, "KEPT_BYTES", 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    values = SimpleNamespace(device=torch.device("cuda"), is_cuda=True)
    assert SetEncoder([3, 4])._fits(values)
    assert not SetEncoder([3, 4])._fits(torch.ones(2, 3, 3))


# Feeding


def test_batches_are_fed_ahead_in_order():
    made = []

    def batches():
        for number in range(5):
            made.append(number)
            yield torch.full((2,), number), f"batch {number}"

    with card() as counts:
        fed = feeding.feed(batches(), CARD)
        for number, (values, said) in enumerate(fed):
            assert values.device == CARD
            assert values.cpu().tolist() == [number, number]
            assert said == f"batch {number}"
        assert counts.copies == {"ahead": 5}
    assert made == [0, 1, 2, 3, 4]
    on_cpu = feeding.feed(batches(), CPU)
    next(on_cpu)
    assert made == [0, 1, 2, 3, 4, 0]


def test_what_goes_wrong_while_loading_is_raised_where_batches_are_used():
    def batches():
        yield (torch.ones(1),)
        raise OSError("the disk is gone")

    with card():
        fed = feeding.feed(batches(), CARD)
        next(fed)
        with pytest.raises(OSError, match="the disk is gone"):
            next(fed)


# Arithmetic, optimizers, resuming


@pytest.mark.parametrize(("precision", "expected"), [("float32", "ieee"), ("tf32", "tf32"), ("bfloat16", "ieee")])
def test_tf32_is_used_by_all_or_by_none(precision, expected, caplog):
    Training.model_validate({"epochs": 1, "batch_size": 1, "optimizer": {"learning_rate": 1.0}, "precision": precision})
    devices.fix_arithmetic(precision, CPU)
    parts = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    assert {part.fp32_precision for part in parts} == {expected}
    # The old flags, which torch.export reads: they raise an error where they contradict the new ones.
    old = (torch.backends.cuda.matmul, torch.backends.cudnn)
    assert {part.allow_tf32 for part in old} == {precision == "tf32"}
    assert torch.are_deterministic_algorithms_enabled()
    assert not torch.is_deterministic_algorithms_warn_only_enabled()
    assert ("a CPU has no TF32" in caplog.text) == (precision == "tf32")
    devices.fix_arithmetic("float32", CPU)


def test_a_run_says_which_card_and_what_it_computed_with(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100")
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 3 * 2**20)
    monkeypatch.setattr(devices, "gpu_driver", lambda: "570.1")
    said = devices.describe(torch.device("cuda"))
    assert said["device"] == "NVIDIA A100"
    assert said["gpu"] | {"cuda": None, "cudnn": None} == {
        "driver": "570.1", "cuda": None, "cudnn": None, "tf32": False, "peak_memory_mb": 3.0
    }  # fmt: skip
    assert set(devices.describe(CPU)) == {"device"}


@pytest.mark.parametrize("name", ["adam", "adamax"])
def test_a_run_goes_on_without_a_wait_for_counters_of_steps(name, tmp_path):
    settings = training(epochs=1, optimizer={"name": name, "learning_rate": 0.01})
    waits = []

    class OnCard(Line):
        def train_batches(self, generator):
            for batch in super().train_batches(generator):
                counts.reset()
                yield tuple(part.to(CARD) for part in batch)
                waits.append(sum(counts.waits.values()))

        def validation_batches(self):
            return {}

    with card() as counts:
        train(OnCard(), settings, 7, CARD, tmp_path / "a.pt")
        model, _ = train(OnCard(), settings.model_copy(update={"epochs": 2}), 7, CARD, tmp_path / "a.pt")
        options = make_optimizer(settings.optimizer, model).defaults
    assert waits == [0] * 10
    assert options["fused" if name == "adam" else "foreach"] is True
