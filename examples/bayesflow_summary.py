"""Sets of different sizes in BayesFlow: a SetEncoder as the summary network, compared with the exact posterior.

    pip install bayesflow    # not needed by equiset; this ran with bayesflow 2.0.12, keras 3.15.1 and torch 2.13.0

An observation is 5 to 50 draws from a normal distribution, padded with NaN; the parameters are its mean and the log of
its standard deviation. It takes half a minute. Importing bayesflow turns autograd off for the whole program: put
training loops of your own into `torch.enable_grad()`.
"""

import os

import torch
from torch import Tensor, nn

from equiset import PackedSets, SetEncoder


class SetSummary(nn.Module):
    """(batch, largest size, features), padded with NaN, to (batch, summaries)."""

    def __init__(self, features: int, summaries: int) -> None:
        super().__init__()
        self.encoder = SetEncoder([features, 64, 64, 64], "mean", "relu", pool="mean")
        self.head = nn.Linear(64 + 1, summaries)

    def forward(self, padded: Tensor) -> Tensor:
        sets = PackedSets.from_nan_padded(padded)
        # The width of a posterior depends on the number of members, which a mean does not show.
        log_size = sets.sizes.to(padded.dtype).log().unsqueeze(1)
        return self.head(torch.cat([self.encoder(sets), log_size], dim=1))


def simulate(theta: Tensor) -> Tensor:
    draws = theta[:, :1] + theta[:, 1:].exp() * torch.randn(len(theta), 50)
    sizes = torch.randint(5, 51, (len(theta), 1))
    return draws.masked_fill(torch.arange(50) >= sizes, torch.nan).unsqueeze(2)


def exact_posterior(observation: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of both parameters, by summation over a grid."""
    draws = observation[~observation.isnan()]
    grid = torch.cartesian_prod(torch.linspace(-2, 2, 401), torch.linspace(-1, 1, 201))
    weights = torch.distributions.Normal(grid[:, :1], grid[:, 1:].exp()).log_prob(draws).sum(1).softmax(0).unsqueeze(1)
    mean = (weights * grid).sum(0)
    return mean, (weights * (grid - mean).square()).sum(0).sqrt()


def main() -> float:
    os.environ["KERAS_BACKEND"] = "torch"  # before the first import of keras
    import bayesflow
    import keras

    class Summary(bayesflow.networks.SummaryNetwork):
        def __init__(self, **options) -> None:
            super().__init__(**options)
            # It makes the parameters known to keras, which trains them and saves them with the other weights.
            self.net = keras.layers.TorchModuleWrapper(SetSummary(1, 16))

        def call(self, x: Tensor, training: bool = False, **_) -> Tensor:
            return self.net(x, training=training)

    keras.utils.set_random_seed(0)
    low, high = torch.tensor([-2.0, -1.0]), torch.tensor([2.0, 1.0])
    theta, new = (low + (high - low) * torch.rand(number, 2) for number in (10_000, 100))
    # The default; "all" would standardise the observations as well, and with NaN among them all become NaN.
    workflow = bayesflow.BasicWorkflow(
        inference_network=bayesflow.networks.CouplingFlow(depth=4),
        summary_network=Summary(),
        inference_variables="theta",
        summary_variables="x",
        standardize="inference_variables",
    )
    simulations = {"theta": theta.numpy(), "x": simulate(theta).numpy()}
    workflow.fit_offline(simulations, epochs=15, batch_size=200, verbose=0)

    observations = simulate(new)
    samples = workflow.sample(num_samples=1000, conditions={"x": observations.numpy()})["theta"]
    found = torch.as_tensor(samples).mean(1)
    exact, width = (torch.stack(each) for each in zip(*map(exact_posterior, observations), strict=True))
    sizes = (~observations.isnan()).sum(1)
    torch.set_printoptions(precision=2, sci_mode=False)
    print("\ndraws; then of mean and log deviation: posterior mean, exact one, exact standard deviation")
    print(torch.cat([sizes, found, exact, width], dim=1)[:5])
    error = ((found - exact) / width).square().mean().sqrt().item()
    print(f"error of 100 posterior means: {error:.2f} standard deviations of the posterior")
    return error


if __name__ == "__main__":
    assert main() < 0.5
