"""The permutation-equivariant layer, in its five forms."""

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equiset.nn.inputs import Sets, TakesSets, pack, unpack
from equiset.nn.reduce import set_max, set_mean, set_sum, spread
from equiset.nn.sets import PackedSets

Form = Literal["sum", "mean", "max", "mean-norm", "max-norm"]
_ACTIVATIONS = {"tanh": nn.Tanh, "elu": nn.ELU, "relu": nn.ReLU}


class SetLayer(nn.Module, TakesSets):
    r"""A layer that commutes with every permutation of the members of a set.

    With x of shape (members, in), and one row of maxima or means over the members, max x or mean x, the forms are

    | form | output | in the paper |
    |:--|:--|:--|
    | ``"sum"`` | y = σ(x Λ + 1 1ᵀ x Γ + β) | eq. 2, for many channels |
    | ``"mean"`` | y = σ(x Λ + 1 mean x Γ + β) | |
    | ``"max"`` | y = σ(x Λ − 1 max x Γ + β) | eq. 4 |
    | ``"mean-norm"`` | y = σ((x − 1 mean x) Γ + β) | |
    | ``"max-norm"`` | y = σ((x − 1 max x) Γ + β) | eq. 5, the default |

    The norm forms have the parameters of `torch.nn.Linear`, by name, shape and number, and take its state. They
    subtract before they multiply: x Γ − 1 max x Γ takes as long, and loses digits when a set lies far from the origin.
    Members that share a maximum share its gradient evenly. NaN in a set stays in that set.

    Args:
        in_features: channels of each member.
        out_features: channels of each member of the output.
        form: one of the forms above.
        activation: σ: None, ``"tanh"``, ``"elu"``, ``"relu"``, or a module that acts on each value alone.
        bias: whether there is β.
        device: where the parameters are made.
        dtype: of the parameters.

    Attributes:
        weight: Λ, or Γ of the norm forms, transposed: (out_features, in_features).
        set_weight: Γ of the forms with two weights, transposed: (out_features, in_features); else None.
        bias: β, (out_features,), or None.

    Each parameter starts as `torch.nn.Linear` starts, uniform within 1 / sqrt(in_features). The sum form then grows
    with the size of the sets, which the caller may want to scale.

    Shapes:
        (batch, members, in_features) to (batch, members, out_features), or `PackedSets` to `PackedSets`. An empty set
        gives an empty set.

    >>> import torch
    >>> from equiset import PackedSets, SetLayer
    >>> layer = SetLayer(3, 8, activation="tanh")
    >>> layer(torch.randn(2, 5, 3)).shape
    torch.Size([2, 5, 8])
    >>> layer(PackedSets.from_list([torch.randn(5, 3), torch.randn(1, 3)]))
    PackedSets(2 sets of 1 to 5 members, 8 channels, torch.float32, cpu)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        form: Form = "max-norm",
        activation: str | nn.Module | None = None,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if in_features < 1 or out_features < 1:
            raise ValueError(f"expected at least one channel in and out, got {in_features} and {out_features}")
        if form not in get_args(Form):
            raise ValueError(f"expected a form among {', '.join(get_args(Form))}, got {form!r}")
        if not (activation is None or isinstance(activation, nn.Module) or activation in _ACTIVATIONS):
            raise ValueError(f"expected None, {', '.join(_ACTIVATIONS)} or a module as activation, got {activation!r}")
        self.in_features = in_features
        self.out_features = out_features
        self.form = form
        self.activation = _ACTIVATIONS[activation]() if isinstance(activation, str) else activation
        place = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.empty(out_features, in_features, **place))  # type: ignore[arg-type]
        two = not form.endswith("-norm")
        self.set_weight = nn.Parameter(torch.empty(out_features, in_features, **place)) if two else None  # type: ignore[arg-type]
        self.bias = nn.Parameter(torch.empty(out_features, **place)) if bias else None  # type: ignore[arg-type]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every parameter anew, in the order of their names above."""
        bound = 1 / math.sqrt(self.in_features)
        for parameter in (self.weight, self.set_weight, self.bias):
            if parameter is not None:
                nn.init.uniform_(parameter, -bound, bound)

    def forward(self, sets: Sets) -> Sets:
        output = self.before_activation(sets)
        return pack(output if self.activation is None else self.activation(output), sets)

    def before_activation(self, sets: Tensor | PackedSets) -> Tensor:
        """Give what the activation is applied to: (batch, members, out), or (total, out) of packed sets."""
        values, layout = unpack(sets, self.in_features)
        # What is subtracted is negated while it is one row for each set: the gradient of `a - b` negates all members.
        match self.form:
            case "max-norm":
                return self._linear(values + spread(-set_max(values, layout), layout))
            case "mean-norm":
                return self._linear(values + spread(-set_mean(values, layout), layout))
            case "max":
                return self._linear(values) + spread(self._set_linear(-set_max(values, layout)), layout)
            case "mean":
                return self._linear(values) + spread(self._set_linear(set_mean(values, layout)), layout)
        return self._linear(values) + spread(self._set_linear(set_sum(values, layout)), layout)

    def _linear(self, values: Tensor) -> Tensor:
        return F.linear(values, self.weight, self.bias)

    def _set_linear(self, per_set: Tensor) -> Tensor:
        return F.linear(per_set, self.set_weight)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"form={self.form!r}, bias={self.bias is not None}"
        )
