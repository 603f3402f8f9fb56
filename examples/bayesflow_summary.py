"""Sets of different sizes in BayesFlow: a SetEncoder as the summary network, compared with the exact posterior.

    pip install bayesflow    # not needed by equiset; this ran with bayesflow 2.0.12, keras 3.15.1 and torch 2.13.0

An observation is 5 to 50 draws from a normal distribution, padded with NaN; the parameters are its mean and the log of
its standard deviation. Network, simulator and exact posterior are those of `sbi_embedding.py`, which needs no sbi for
that. It takes half a minute. Importing bayesflow turns autograd off for the whole program: put
training loops of your own into `torch.enable_grad()`.
"""

import os

import torch
from sbi_embedding import SetEmbedding, exact_posterior, simulate
from torch import Tensor


def main() -> float:
    os.environ["KERAS_BACKEND"] = "torch"  # before the first import of keras
    import bayesflow
    import keras

    class Summary(bayesflow.networks.SummaryNetwork):
        def __init__(self, **options) -> None:
            super().__init__(**options)
            # It makes the parameters known to keras, which trains them and saves them with the other weights.
            self.net = keras.layers.TorchModuleWrapper(SetEmbedding(1, 16))

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
