"""Which points of a cloud decide the answer of a published network: python examples/winners.py, in this project.

Some of the points win a channel of the pooled maximum. Those that win there or inside a layer are enough: without all
the others the network gives the same answer.
"""

import torch
import trimesh

from equiset import load_run

RUN = "results/reference/point_clouds/runs/set-1000/seed0"


def main() -> tuple[float, float]:
    network = load_run(RUN).network
    points = trimesh.creation.capsule(height=1.5, radius=0.4).sample(1000, seed=0)
    cloud = network.norm(torch.tensor(points, dtype=torch.float32).unsqueeze(0))
    decide = network.encoder.winners(cloud)[0] > 0
    enough = network.encoder.winners(cloud, every_layer=True)[0] > 0
    with torch.no_grad():
        whole, few = (network.head(network.encoder(some)) for some in (cloud, cloud[:, enough]))
    difference = float((whole - few).abs().max())
    print(
        f"{decide.sum()} of {len(points)} points decide, {enough.sum()} are enough: logits differ by {difference:.1e}"
    )
    return float(decide.float().mean()), difference


if __name__ == "__main__":
    share, difference = main()
    assert share < 0.3
    assert difference < 1e-3
