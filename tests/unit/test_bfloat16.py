"""Every variant of every experiment trains in bfloat16, automatic mixed precision."""

import pytest
import torch

from equiset.training.loop import train

from .small_tasks import VARIANTS, Tasks

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    return Tasks(tmp_path_factory.mktemp("tasks"))


@pytest.mark.parametrize(("experiment", "variant"), VARIANTS)
def test_it_takes_a_step(experiment, variant, tasks, tmp_path):
    task = tasks.make(experiment, variant, CPU, precision="bfloat16")
    model, progress = train(task, task.settings.training, 0, CPU, tmp_path / "checkpoint.pt")
    assert torch.tensor(progress.metrics[0]["train_loss"]).isfinite()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert all(parameter.grad.any() for parameter in model.parameters() if parameter.ndim > 1)
