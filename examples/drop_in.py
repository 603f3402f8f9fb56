"""A SetLayer in the place of a Linear: a network that scored members one by one now compares them.

Which of eight members is the odd one out? Linear layers see each member alone, and the network names the one that lies
farthest in some direction: less than 60 % of the sets. With each Linear replaced by a SetLayer that takes its weights,
and trained on, it is right in more than 90 %.
"""

import torch
from torch import nn

from equiset import SetLayer


def draw(sets: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Eight members around a common place, but for one that is moved."""
    members = 30 * torch.randn(sets, 1, 4, generator=generator) + 0.3 * torch.randn(sets, 8, 4, generator=generator)
    odd = torch.randint(8, (sets,), generator=generator)
    members[torch.arange(sets), odd] += 2 * torch.randn(sets, 4, generator=generator).sign()
    return members, odd


def train(network: nn.Module, generator: torch.Generator) -> float:
    optimizer = torch.optim.Adam(network.parameters(), lr=0.003)
    for _ in range(300):
        members, odd = draw(128, generator)
        loss = nn.functional.cross_entropy(network(members).squeeze(2), odd)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    members, odd = draw(2000, generator)
    return (network(members).squeeze(2).argmax(1) == odd).float().mean().item()


def with_set_layers(network: nn.Sequential) -> nn.Sequential:
    """Replace each Linear by a SetLayer of eq. 5, which has the same parameters and takes their values."""
    modules = []
    for module in network:
        if isinstance(module, nn.Linear):
            layer = SetLayer(module.in_features, module.out_features)
            layer.load_state_dict(module.state_dict())
            module = layer
        modules.append(module)
    return nn.Sequential(*modules)


def main() -> tuple[float, float]:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 64), nn.ELU(), nn.Linear(64, 64), nn.ELU(), nn.Linear(64, 1))
    before = train(network, generator)
    after = train(with_set_layers(network), generator)
    print(f"odd one found: {before:.1%} by members alone, {after:.1%} with set layers")
    return before, after


if __name__ == "__main__":
    before, after = main()
    assert before < 0.6
    assert after > 0.9
