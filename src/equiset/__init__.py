"""Permutation-equivariant layers for learning on sets, and the workflow that reproduces their paper.

The public names need torch alone and are imported on first use, so that the stages of the workflow
that do not touch a network never pay for importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equiset.nn import SetDropout, SetEncoder, SetLayer, SetNorm, SetPool, SetSequential
    from equiset.sets import PackedSets, collate

__all__ = [
    "PackedSets",
    "SetDropout",
    "SetEncoder",
    "SetLayer",
    "SetNorm",
    "SetPool",
    "SetSequential",
    "collate",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'equiset' has no attribute {name!r}")
    return getattr(import_module("equiset.sets" if name in ("PackedSets", "collate") else "equiset.nn"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
