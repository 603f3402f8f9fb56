"""Permutation-equivariant layers for learning on sets, and the workflow that reproduces their paper.

The public names need torch alone, but for `load_run`, which needs what the workflow needs. They are imported on first
use, so that jobs of the workflow that do not touch a network never pay for importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equiset.nn import SetDropout, SetEncoder, SetLayer, SetNorm, SetPool, SetSequential
    from equiset.nn.sets import PackedSets, collate
    from equiset.training.load_run import load_run

__all__ = [
    "PackedSets",
    "SetDropout",
    "SetEncoder",
    "SetLayer",
    "SetNorm",
    "SetPool",
    "SetSequential",
    "collate",
    "load_run",
]
__version__ = "0.1.0"
_HOMES = {"PackedSets": "equiset.nn.sets", "collate": "equiset.nn.sets", "load_run": "equiset.training.load_run"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'equiset' has no attribute {name!r}")
    return getattr(import_module(_HOMES.get(name, "equiset.nn")), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
