"""A stack of set layers and its pooling."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.forward_ad import unpack_dual

from equiset.nn.dropout import SetDropout
from equiset.nn.inputs import Sets, TakesSets, inside_torch_func, pack, unpack
from equiset.nn.layer import Form, SetLayer
from equiset.nn.layout import Layout
from equiset.nn.pool import Pooling, SetPool
from equiset.nn.reduce import set_max, spread
from equiset.nn.sets import PackedSets
from equiset.nn.ways import may_look
from equiset.nn.winning_rows import CURVES, Climb, Curve, WinningRows

# Bytes of activations that `plain` may keep on a GPU for its backward pass. See `SetEncoder._fits`.
KEPT_BYTES = 2**32


class SetEncoder(nn.Module, TakesSets):
    r"""Set layers and a pooling over the members: the invariant part of the network for point clouds (sec. 3.2).

    f(x) = pool(hₖ), hₗ = σ((hₗ₋₁ − 1 max hₗ₋₁) Γₗ + βₗ) (eq. 5), h₀ = x; other forms as in `SetLayer`.
    `SetDropout` follows each layer if asked for.

    Where a layer sees the other members by their maximum (eq. 4, eq. 5) and the pooling is one, few members matter to
    the gradient. The pooled maximum passes it to the members that win a channel of hₖ. The layer below passes it to the
    same members, and through max hₖ₋₁ to those that win a channel of hₖ₋₁; and so on down to the input. Dropout changes
    no winner, since all members share it. A channel that is dropped, or whose maximum is so large that σ is flat there,
    passes nothing, however many members share it. All other members have a gradient of exactly zero. So a few sets at a
    time go through all layers, only the rows of winners are kept, and the backward pass multiplies these rows alone.
    Nothing is approximated: values and gradients are those of `plain` up to rounding, and members that share a maximum
    share its gradient evenly. It takes a fraction of the memory, without gradient as well.

    `plain` runs instead, with the same parameters, on a GPU that has room for it (`_fits`), where a CUDA graph is
    captured, and wherever this does not hold: other forms, poolings or activations (None and relu go the short way as
    well); a layer, pooling, dropout or activation that is not exactly this package's or torch's own (a subclass, a
    replaced `forward`, a hook, dropout that is not simultaneous); an empty batch; `torch.compile`,
    `torch.export` and `torch.func`; forward derivatives; half precision of the values or by autocast, which is left to
    the rules of torch for each operation. Derivatives of the gradient (``create_graph=True``) and several gradients at
    once (``jacobian(vectorize=True)``) are refused, except by `plain`; `torch.func.jacrev` works.

    Args:
        widths: channels of the members and of each layer, [in, w₁, ..., wₖ].
        form: of the layers, see `SetLayer`.
        activation: of the layers, see `SetLayer`; a module is shared by all layers.
        pool: ``"max"``, ``"mean"`` or ``"sum"``, see `SetPool`.
        dropout: the probability that a channel of a set is dropped after a layer while training.
        device: where the parameters are made.
        dtype: of the parameters.
        bias: whether the layers have one.

    Shapes:
        (batch, members, in) or `PackedSets` to (batch, wₖ). The maximum and mean of an empty set raise `ValueError`.

    >>> import torch
    >>> from equiset import SetEncoder
    >>> SetEncoder([3, 16, 8])(torch.randn(2, 5, 3)).shape
    torch.Size([2, 8])
    """

    def __init__(
        self,
        widths: Sequence[int],
        form: Form = "max-norm",
        activation: str | nn.Module | None = "tanh",
        pool: Pooling = "max",
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if len(widths) < 2:
            raise ValueError(f"expected the channels of the input and of at least one layer, got {list(widths)}")
        options = {"bias": bias, "device": device, "dtype": dtype}
        self.layers = nn.ModuleList(SetLayer(i, o, form, activation, **options) for i, o in pairwise(widths))  # type: ignore[arg-type]
        self.dropout = SetDropout(dropout)
        self.pool = SetPool(pool)

    def forward(self, sets: Tensor | PackedSets) -> Tensor:
        if torch.compiler.is_compiling() or inside_torch_func() or self._changed():
            return self.plain(sets)
        values, layout = unpack(sets, self.layers[0].in_features)  # type: ignore[arg-type]
        if self._fits(values):
            return self.plain(sets)
        curve = self._curve(values, layout)
        if curve is None:
            return self.plain(sets)
        biases = [values.new_zeros(layer.out_features) if layer.bias is None else layer.bias for layer in self.layers]
        weights = [(layer.weight, layer.set_weight) for layer in self.layers]
        parameters = [parameter for pair, bias in zip(weights, biases, strict=True) for parameter in (*pair, bias)]
        factors = self._factors(values, len(values) if layout is None else layout.n_sets)
        if torch.is_grad_enabled() and any(each.requires_grad for each in (values, *self.parameters())):
            pooled = WinningRows.apply(values, layout, curve, factors, *parameters)
        else:
            with torch.no_grad():
                climb = Climb(curve, parameters, values, layout, factors)  # type: ignore[arg-type]
                pooled = torch.cat([climb(chunk, climb.sets_of(chunk))[0] for chunk in climb.chunks])
        return pooled * factors[-1] if factors else pooled

    def _factors(self, values: Tensor, sets: int) -> list[Tensor]:
        """Draw the dropout of each layer as `plain` does; nothing if none acts."""
        if not self.dropout.training or self.dropout.p == 0:
            return []
        return [self.dropout.factors(values, sets, layer.out_features) for layer in self.layers]  # type: ignore[arg-type]

    def plain(self, sets: Tensor | PackedSets) -> Tensor:
        """Do the same layer by layer, over all members, with derivatives of any order."""
        for layer in self.layers:
            sets = self.dropout(layer(sets))
        return self.pool(sets)

    @torch.no_grad()
    def winners(self, sets: Sets, every_layer: bool = False) -> Sets:
        """Count for each member the channels of the pooled maximum that it wins: which members decide the output.

        Members that share a maximum all win it. They are compared before the activation if that is tanh, relu or none:
        these keep the order, but many members share a 1 or a 0 after them. Dropout is left out.

        Would the winners alone give the same output? The layers compare the members, too, so that those count as well
        that win a maximum inside a layer. With `every_layer`, and in the forms "max" and "max-norm", the members that
        win anything alone give exactly the same output. In the other forms every member is part of a sum or a mean.

        Args:
            sets: (batch, members, in) or `PackedSets`.
            every_layer: whether to add the channels of the maxima that the layers subtract.

        Returns:
            int64, (batch, members); of `PackedSets`, the same sets with the counts as their one channel.

        >>> import torch
        >>> from equiset import SetEncoder
        >>> SetEncoder([3, 16, 8]).winners(torch.randn(2, 5, 3)).sum(1)  # without ties, one for each channel
        tensor([8, 8])
        """
        if self.pool.pooling != "max":
            raise ValueError(f"expected an encoder that pools by the maximum, got {self.pool.pooling!r}")
        counts: Tensor | int = 0
        x: Any = sets
        compared, layout = unpack(sets)
        for layer in self.layers:
            if every_layer and layer.form in ("max", "max-norm"):
                counts = counts + _count_wins(compared, layout)
            before = layer.before_activation(x)  # type: ignore[operator]
            after = before if layer.activation is None else layer.activation(before)  # type: ignore[operator]
            compared, x = before if type(layer.activation) in CURVES else after, pack(after, x)
        counts = counts + _count_wins(compared, layout)
        return pack(counts.unsqueeze(1), sets) if isinstance(sets, PackedSets) else counts

    def _fits(self, values: Tensor) -> bool:
        """Say whether `plain` is the better way on a GPU.

        It keeps two activations for each level, h and h - max h. With three layers it launches 50 kernels forward and
        backward (65 for packed sets), however many sets there are, and never waits. The short way launches 138 (149)
        for each chunk and waits for each level, since how many rows win is a value on the GPU; it multiplies half as
        much. 64 clouds of 1000 and 256 channels keep 0.4 GB and are multiplied in some milliseconds: nothing is left
        to save. 64 clouds of 5000 and 512 channels keep 3.9 GB. Above `KEPT_BYTES` memory decides.
        """
        if may_look(values):
            return False
        if values.is_cuda and torch.cuda.is_current_stream_capturing():
            return True
        widths = [self.layers[0].in_features, *(layer.out_features for layer in self.layers)]
        rows = values.numel() // max(1, values.shape[-1])
        return 2 * rows * sum(widths) * values.element_size() <= KEPT_BYTES  # type: ignore[arg-type]

    def _curve(self, values: Tensor, layout: Layout | None) -> Curve | None:
        """Give the activation if it is enough to follow the winners, else None."""
        curves = {CURVES.get(type(layer.activation)) for layer in self.layers}
        other = self.pool.pooling != "max" or any(layer.form not in ("max", "max-norm") for layer in self.layers)
        # Sets without members, and types or devices that do not go together, are for `plain` to complain about.
        sizes = values.shape[:2] if layout is None else (layout.n_sets, *layout.host_sizes)
        kinds = {(tensor.dtype, tensor.device) for tensor in (values, *self.parameters())}
        if max(len(curves), len(kinds)) > 1 or other or 0 in sizes or values.dtype.itemsize < 4 or values.is_meta:
            return None
        forward = any(unpack_dual(tensor).tangent is not None for tensor in (values, *self.parameters()))
        if forward or torch.is_autocast_enabled(values.device.type):
            return None
        return curves.pop()

    def _changed(self) -> bool:
        """Say whether somebody made a part compute something else than this module knows of."""
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        parts = [module for module in self.modules() if module is not self]
        replaced = any(type(layer) is not SetLayer for layer in self.layers) or type(self.pool) is not SetPool
        if replaced or type(self.dropout) is not SetDropout or not self.dropout.simultaneous:
            return True
        return any("forward" in vars(part) or any(getattr(part, name) for name in hooks) for part in parts)


def _count_wins(values: Tensor, layout: Layout | None) -> Tensor:
    """Count the channels in which each member has the maximum of its set."""
    return (values == spread(set_max(values, layout), layout)).sum(-1)
