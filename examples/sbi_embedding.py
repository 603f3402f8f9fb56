"""Sets of different sizes in sbi: a SetEncoder as the embedding net of a posterior, compared with the exact posterior.

    pip install sbi    # not needed by equiset; this ran with sbi 0.27.0 and torch 2.13.0, in half a minute

An observation is 5 to 50 draws from a normal distribution, padded with NaN; the parameters are its mean and the log of
its standard deviation. Some defaults of sbi do not suit such sets: the comments in `main` say which, and why.
"""

import torch
from torch import Tensor, nn

from equiset import PackedSets, SetEncoder

LOW, HIGH = torch.tensor([-2.0, -1.0]), torch.tensor([2.0, 1.0])  # the uniform prior of mean and log standard deviation


class SetEmbedding(nn.Module):
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
    from sbi.inference import NPE
    from sbi.neural_nets import posterior_nn
    from sbi.utils import BoxUniform

    torch.manual_seed(0)
    prior = BoxUniform(LOW, HIGH)
    theta = prior.sample((10_000,))
    # z_score_x: by default each position is scaled by itself, from the few simulations without NaN, and the posterior
    # depends on the order of the draws. "nsf": with the default, "maf", one of two parameters may never see the
    # observation, and its posterior is then the prior (https://github.com/bayesiains/nflows/pull/85).
    estimator = posterior_nn("nsf", embedding_net=SetEmbedding(1, 16), z_score_x="none")
    trainer = NPE(prior, density_estimator=estimator, show_progress_bars=False)
    # By default sbi drops simulations that have a NaN. Its warning that training will likely fail can be ignored here.
    trainer.append_simulations(theta, simulate(theta), exclude_invalid_x=False)
    trainer.train(learning_rate=0.001, stop_after_epochs=5)

    # `sample` refuses observations that have a NaN; `sample_batched` takes them, padded to the size of the simulations.
    observations = simulate(prior.sample((100,)))
    samples = trainer.build_posterior().sample_batched((1000,), x=observations, show_progress_bars=False)
    found = samples.mean(0)
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
