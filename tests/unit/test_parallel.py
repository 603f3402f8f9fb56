"""Two processes train as one does; one that dies takes the other with it."""

import pytest
import torch
from torch import nn

from equiset import launch, parallel
from equiset.errors import EquisetError
from equiset.nn import SetDropout
from equiset.nn.sets import PackedSets
from equiset.nn.shares import Share
from equiset.training.loop import read_checkpoint, train

from . import two_processes
from .two_processes import CASES, CPU, Packed, run, training

MODULE = two_processes.__name__


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What one process has to show, what each of two has, their folder, and how they ended."""
    alone, together = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("together")
    torch.set_num_threads(1)
    # One process begins what two go on with.
    train(Packed(), training(epochs=2), 7, CPU, together / "resumed.pt")
    with pytest.raises(EquisetError) as death:  # at the end, one is killed
        launch.launch(2, MODULE, [str(together)])
    loaded = [torch.load(together / f"results{rank}.pt", weights_only=True) for rank in (0, 1)]
    return {name: run(name, alone) for name in CASES}, *loaded, together, str(death.value)


@pytest.mark.parametrize("name", CASES)
def test_two_processes_give_what_one_gives(results, name):
    """Dropout, batch normalisation, clipping, uneven shares, a last batch of one set, a resumed run."""
    one, two, *_ = results
    assert len(one[name]["metrics"]) == CASES[name][1].epochs
    for expected, found in zip(one[name]["metrics"], two[name]["metrics"], strict=True):
        assert found == pytest.approx(expected, rel=1e-5)
    for key, expected in one[name]["weights"].items():
        torch.testing.assert_close(two[name]["weights"][key], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_both_processes_hold_the_same_network(results, name):
    _, first, second, *_ = results
    for key, weight in first[name]["weights"].items():
        assert torch.equal(weight, second[name]["weights"][key])


def test_one_process_goes_on_from_the_checkpoint_of_two(results, tmp_path):
    _, two, _, folder, _ = results
    whole, _ = train(Packed(), training(epochs=5), 7, CPU, tmp_path / "whole.pt")
    longer, progress = train(Packed(), training(epochs=5), 7, CPU, folder / "resumed.pt")
    assert progress.metrics[:4] == two["resumed"]["metrics"]
    for one, other in zip(whole.parameters(), longer.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_a_process_that_dies_ends_the_job_and_leaves_the_checkpoint(results):
    *_, folder, death = results
    assert "process 1 of 2 was killed by signal 9" in death
    assert "last checkpoint" in death
    assert read_checkpoint(folder / "dying.pt")["progress"]["epochs"] == 1
    assert not list(folder.glob(".*"))


@pytest.fixture
def second_of_three():
    parallel.set_share(Share(first=1, sets=1, total=3))
    yield parallel.current_share
    parallel.set_share(None)


def test_draws_are_those_of_all_sets(second_of_three):
    torch.manual_seed(0)
    everything = torch.rand(6, 2)
    torch.manual_seed(0)
    layer = SetDropout()
    layer.share = second_of_three
    assert torch.equal(layer.draw(2, lambda rows: torch.rand(rows, 2)), everything[2:4])
    after = torch.rand(1)
    torch.manual_seed(0)
    torch.rand(6, 2)
    assert torch.equal(torch.rand(1), after)


def test_what_cannot_be_shared_is_refused(second_of_three, monkeypatch):
    sets = PackedSets.from_list([torch.ones(3, 2)])
    layer = SetDropout(0.5, simultaneous=False)
    layer.share = second_of_three
    with pytest.raises(ValueError, match="independent dropout of packed sets"):
        layer(sets)
    monkeypatch.setattr(parallel, "processes", lambda: 2)
    with pytest.raises(EquisetError, match=r"AlphaDropout cannot be shared.*'processes' to 1"):
        parallel.share_layers(nn.AlphaDropout())
