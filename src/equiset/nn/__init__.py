"""Layers for sets. Each takes a dense tensor (batch, members, channels) or `equiset.PackedSets`.

The same set gets the same answer and the same gradient in either form. Numbers of equations refer to
'Deep Learning with Sets and Point Clouds' (Ravanbakhsh, Schneider, Poczos).
"""

from equiset.nn.dropout import SetDropout
from equiset.nn.encoder import SetEncoder
from equiset.nn.layer import SetLayer
from equiset.nn.norm import SetNorm
from equiset.nn.pool import SetPool
from equiset.nn.sequential import SetSequential

__all__ = ["SetDropout", "SetEncoder", "SetLayer", "SetNorm", "SetPool", "SetSequential"]
