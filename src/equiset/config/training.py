"""How networks are trained: settings of `config.yaml`."""

from typing import Annotated, Literal

from pydantic import Field

from equiset.config.settings import Settings

Decay = Annotated[float, Field(ge=0, lt=1)]
"""How much of a moving average stays from one step to the next."""
DESCRIPTIVE = frozenset({"dataset", "source", "real", "kind", "share", "data"})
"""The keys of `sets.json` that describe the data for people. Digests identify them."""


class Optimizer(Settings):
    """How weights move."""

    name: Literal["adam", "adamax"] = "adam"
    learning_rate: float = Field(gt=0, le=1)
    betas: tuple[Decay, Decay] = (0.9, 0.999)
    """Decay of the first and the second moment."""
    eps: float = Field(1e-8, gt=0, le=1)
    weight_decay: float = Field(0.0, ge=0, le=1)


class Training(Settings):
    """How a network is trained."""

    epochs: int = Field(gt=0, le=1_000_000)
    """Passes over the training sets."""
    batch_size: int = Field(gt=0, le=1_000_000)
    """Sets per step."""
    optimizer: Optimizer
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    """Arithmetic of the network. `tf32` rounds the factors of products on a GPU to 10 binary digits; on a CPU it is
    `float32`. `bfloat16` is automatic mixed precision; slow on a CPU that lacks it."""
    gradient_clip: float | None = Field(None, gt=0)
    """Largest norm of the gradient; empty for no limit."""
    lower_after: tuple[Annotated[int, Field(gt=0)], ...] = ()
    """Epochs after which the learning rate is lowered."""
    lower_by: float = Field(0.1, gt=0, le=1)
    """What it is multiplied by each time."""
    validate_every: int = Field(1, gt=0)
    """Epochs from one validation to the next; the last epoch is always followed by one."""
