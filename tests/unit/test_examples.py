"""The examples reach what they say. The one that runs the workflow is in tests/workflow."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sets_from_a_parquet_file_are_classified(tmp_path):
    assert load("classify").main(str(tmp_path)) > 0.9


def test_members_get_numbers_of_their_own():
    assert load("per_member").main() > 0.95


def test_a_set_layer_takes_the_place_of_a_linear():
    before, after = load("drop_in").main()
    assert before < 0.6
    assert after > 0.9


def test_few_points_of_a_cloud_decide(monkeypatch):
    monkeypatch.chdir(EXAMPLES.parent)
    share, difference = load("winners").main()
    assert 0.02 < share < 0.3
    assert difference < 1e-3


def test_a_summary_depends_on_the_members_alone():
    example = load("sbi_embedding")
    torch.manual_seed(0)
    network = example.SetEmbedding(1, 4).double()
    sets = example.simulate(torch.randn(20, 2)).double()
    summaries = network(sets)
    assert summaries.shape == (20, 4)
    torch.testing.assert_close(network(sets[:, torch.randperm(50)]), summaries)
    torch.testing.assert_close(network(torch.cat([sets, torch.full((20, 7, 1), torch.nan)], 1)), summaries)
    torch.testing.assert_close(network(sets[:1, : int((~sets[0].isnan()).sum())]), summaries[:1])
    # The same draws twice have the same means, but are twice as many.
    assert (network(torch.cat([sets, sets], 1)) - summaries).abs().max() > 0.01
    summaries.square().sum().backward()
    for parameter in network.parameters():
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any()


def test_the_exact_posterior_of_the_examples():
    """Of many draws, the posterior mean is the maximum of the likelihood, and the widths are s / √n and 1 / √(2n)."""
    torch.manual_seed(0)
    draws = 0.5 + 0.8 * torch.randn(400, 1)
    mean, width = load("sbi_embedding").exact_posterior(torch.cat([draws, torch.full((9, 1), torch.nan)]))
    likeliest = torch.stack([draws.mean(), draws.std().log()])
    torch.testing.assert_close(mean, likeliest, rtol=0, atol=0.005)
    torch.testing.assert_close(width, torch.stack([draws.std() / 20, torch.tensor(1 / 800**0.5)]), rtol=0.02, atol=0)


@pytest.mark.parametrize(("script", "package"), [("sbi_embedding", "sbi"), ("bayesflow_summary", "bayesflow")])
def test_posteriors_agree_with_the_exact_ones(script, package, tmp_path):
    """In a process of its own: to import bayesflow turns autograd off, and sbi writes logs to the working folder."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install {package}")
    subprocess.run([sys.executable, EXAMPLES / f"{script}.py"], cwd=tmp_path, check=True)
