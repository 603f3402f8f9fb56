"""torch's own ways with every layer, dense and packed: each cell of the table is a test.

`python -m tests.unit.test_nn_torch_ways` prints the table.
"""

import copy
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.export import Dim
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vmap
from torch.utils.checkpoint import checkpoint

from equiset import PackedSets, SetDropout, SetEncoder, SetLayer, SetNorm, SetPool, SetSequential

# torch's own forward derivatives are made by torch.jit, which says so on first use.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")

FORMS = ["sum", "mean", "max", "mean-norm", "max-norm"]
LAYERS: dict[str, Callable[[], nn.Module]] = {
    **{f"SetLayer {form}": lambda form=form: SetLayer(3, 4, form, "tanh") for form in FORMS},
    **{f"SetPool {pooling}": lambda pooling=pooling: SetPool(pooling) for pooling in ("sum", "mean", "max")},
    "SetDropout": lambda: SetDropout(0.5),
    "SetNorm": SetNorm,
    "SetSequential": lambda: SetSequential(SetLayer(3, 4), nn.ELU(), nn.LayerNorm(4), SetPool("mean"), nn.Linear(4, 2)),
    "SetEncoder": lambda: SetEncoder([3, 5, 4]),
    "SetEncoder without bias": lambda: SetEncoder([3, 5, 4], bias=False),
    "SetEncoder mean": lambda: SetEncoder([3, 5, 4], "mean", "elu", pool="mean"),
}


def rows_of(output: Tensor | PackedSets) -> Tensor:
    return output.rows if isinstance(output, PackedSets) else output


def sets_of(packed: bool, *sizes: int, dtype: torch.dtype = torch.float32) -> Tensor | PackedSets:
    """Sets of these sizes; dense, as many of the first size."""
    generator = torch.Generator().manual_seed(sum(sizes))
    if not packed:
        return torch.randn(len(sizes), sizes[0], 3, generator=generator, dtype=dtype)
    return PackedSets.from_list([torch.randn(size, 3, generator=generator, dtype=dtype) for size in sizes])


@dataclass
class Case:
    """A layer and sets for it, as a function of the values of the members alone."""

    make: Callable[[], nn.Module]
    packed: bool

    def __post_init__(self) -> None:
        torch.manual_seed(0)
        self.layer = self.make().double().eval()
        self.sets = sets_of(self.packed, 3, 2, dtype=torch.float64)
        self.values = rows_of(self.sets)
        self.weights = torch.randn_like(self(self.values))

    def __call__(self, values: Tensor) -> Tensor:
        return rows_of(self.layer(self.sets.with_rows(values) if self.packed else values))

    def loss(self, values: Tensor) -> Tensor:
        return (self(values) * self.weights).square().sum()

    def single(self) -> nn.Module:
        return copy.deepcopy(self.layer).float()


def compiles(case: Case) -> None:
    """One graph, and a second once sizes turn out to differ; sets that were used before give no third."""
    graphs = []
    layer = case.single().train()

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    for sizes in ((5, 3), (7, 2, 9), (40, 21, 3, 2), (5, 3), (6, 6, 6, 6, 6)):
        given = [sets_of(case.packed, *sizes) for _ in range(2)]
        outputs = []
        for sets, function in zip(given, (layer, compiled), strict=True):
            rows_of(sets).requires_grad_()
            torch.manual_seed(1)
            outputs.append(rows_of(function(sets)))
            outputs[-1].backward(torch.linspace(-1, 2, outputs[-1].numel()).view_as(outputs[-1]))
        torch.testing.assert_close(*outputs)
        torch.testing.assert_close(*(rows_of(sets).grad for sets in given), rtol=1e-4, atol=1e-5)
    assert 1 <= len(graphs) <= 2


def exports(case: Case) -> None:
    """Free numbers of sets and members; the program holds for one set of one member too."""
    layer = case.single()
    dynamic = [{0: Dim.DYNAMIC}] * 2 if case.packed else {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    program = torch.export.export(layer, (sets_of(case.packed, 5, 2, 4),), dynamic_shapes=(dynamic,)).module()
    for sizes in ((7, 1, 3, 9, 2), (40, 2), (1,)):
        sets = sets_of(case.packed, *sizes)
        torch.testing.assert_close(rows_of(program(sets)), rows_of(layer(sets)))


def refuses_to_be_traced(case: Case) -> None:
    with (
        warnings.catch_warnings(action="ignore"),  # torch's, that it is deprecated, and that sizes become constants
        pytest.raises(RuntimeError, match=r"sizes of its example.*use torch\.export"),
    ):
        torch.jit.trace(lambda values: case(values), case.values)


def has_functional_gradients(case: Case) -> None:
    values = case.values.clone().requires_grad_()
    torch.testing.assert_close(grad(case.loss)(case.values), torch.autograd.grad(case.loss(values), values)[0])


def maps(case: Case) -> None:
    stack = torch.stack([case.values, case.values + 1, case.values * 2])
    one_by_one = torch.stack([case(values) for values in stack])
    torch.testing.assert_close(vmap(case)(stack), one_by_one)
    torch.testing.assert_close(vmap(case, in_dims=-1, out_dims=1)(stack.movedim(0, -1)), one_by_one.movedim(0, 1))
    gradients = torch.stack([grad(case.loss)(values) for values in stack])
    torch.testing.assert_close(vmap(grad(case.loss))(stack), gradients)


def has_forward_derivatives(case: Case) -> None:
    direction, step = torch.randn_like(case.values), 1e-6
    output, derivative = jvp(case, (case.values,), (direction,))
    torch.testing.assert_close(output, case(case.values))
    difference = (case(case.values + step * direction) - case(case.values - step * direction)) / (2 * step)
    torch.testing.assert_close(derivative, difference, rtol=1e-5, atol=1e-6)


def has_jacobians(case: Case) -> None:
    expected = torch.autograd.functional.jacobian(case, case.values)
    torch.testing.assert_close(jacrev(case)(case.values), expected)
    torch.testing.assert_close(jacfwd(case)(case.values), expected)


def has_hessians(case: Case) -> None:
    step = 1e-6 * torch.eye(case.values.numel(), dtype=torch.float64).view(-1, *case.values.shape)
    gradients = vmap(grad(case.loss))(torch.cat([case.values + step, case.values - step]))
    difference = (gradients[: len(step)] - gradients[len(step) :]) / 2e-6
    torch.testing.assert_close(
        hessian(case.loss)(case.values), difference.view(*case.values.shape * 2), rtol=1e-5, atol=1e-5
    )


def makes_ensembles(case: Case) -> None:
    models = [case.make().double().eval() for _ in range(3)]
    if not list(models[0].parameters()):
        return
    state, _ = stack_module_state(models)
    together = vmap(lambda state: rows_of(functional_call(case.layer, state, (case.sets,))))(state)
    torch.testing.assert_close(together, torch.stack([rows_of(model(case.sets)) for model in models]))


def casts(case: Case) -> None:
    layer, sets = case.single(), sets_of(case.packed, 50, 20)
    rows_of(sets).requires_grad_()
    expected = rows_of(layer(sets))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = rows_of(layer(sets))
    torch.testing.assert_close(output.float(), expected, rtol=5e-2, atol=5e-2 * expected.abs().max().item())
    output.float().sum().backward()
    assert rows_of(sets).grad.dtype == torch.float32


def is_computed_again(case: Case) -> None:
    layer, gradients = case.layer.train(), []
    for function in (layer, lambda sets: checkpoint(layer, sets, use_reentrant=False)):
        values = case.values.clone().requires_grad_()
        torch.manual_seed(1)
        rows_of(function(case.sets.with_rows(values) if case.packed else values)).square().sum().backward()
        gradients.append(values.grad)
    torch.testing.assert_close(*gradients)


def is_saved_and_loaded(case: Case) -> None:
    """State, and sets beside it, without leave to run code from the file."""
    file = io.BytesIO()
    torch.save({"state": case.layer.state_dict(), "sets": case.sets}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    other = case.make().double().eval()
    other.load_state_dict(loaded["state"])
    assert torch.equal(rows_of(other(loaded["sets"])), case(case.values))


FEATURES: dict[str, Callable[[Case], None]] = {
    "`torch.compile`, full graph, two at most": compiles,
    "`torch.export`, free batch and members": exports,
    "`torch.func.grad`": has_functional_gradients,
    "`vmap`": maps,
    "`jvp`": has_forward_derivatives,
    "`jacrev`, `jacfwd`": has_jacobians,
    "`hessian`": has_hessians,
    "ensembles": makes_ensembles,
    "autocast": casts,
    "checkpointing": is_computed_again,
    "`weights_only` loading": is_saved_and_loaded,
    "`torch.jit.trace`": refuses_to_be_traced,
}


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("feature", FEATURES)
def test_cell(feature, layer, packed):
    FEATURES[feature](Case(LAYERS[layer], packed))


def table() -> str:
    """Give the table of the cells above, as docs/library.md has it."""

    def cell(feature: str, layer: str) -> str:
        if FEATURES[feature] is refuses_to_be_traced:
            return "refused"
        if FEATURES[feature] is makes_ensembles and not list(LAYERS[layer]().parameters()):
            return "–"
        return "● ●"

    lines = [f"| | {' | '.join(FEATURES)} |", f"|:--|{':-:|' * len(FEATURES)}"]
    lines += [f"| {layer} | {' | '.join(cell(feature, layer) for feature in FEATURES)} |" for layer in LAYERS]
    return "\n".join(lines)


def test_the_table_in_the_documentation_is_that_of_the_tests():
    assert table() in (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")


def test_sets_can_be_made_inside_a_compiled_program():
    """From rows and offsets, which is what a program without Python is given."""

    class Network(nn.Module):
        def forward(self, rows: Tensor, offsets: Tensor) -> Tensor:
            packed = PackedSets(rows, offsets)
            return SetPool("mean")(packed + packed.map(torch.tanh))

    free = {0: Dim.DYNAMIC}
    example = torch.randn(5, 3), torch.tensor([0, 2, 5])
    program = torch.export.export(Network(), example, dynamic_shapes=(free, free)).module()
    rows, offsets = torch.randn(9, 3), torch.tensor([0, 4, 4, 9])
    output = program(rows, offsets)
    torch.testing.assert_close(output[[0, 2]], Network()(rows, torch.tensor([0, 4, 9])))
    assert output[1].isnan().all()  # an empty set, whose mean does not exist


def test_the_compiler_of_torch_gives_the_same():
    """Forward and backward as the compiler takes them apart, for a network with every kind of reduction."""
    torch.manual_seed(0)
    network = SetSequential(
        SetNorm(), SetLayer(3, 4, "mean"), SetLayer(4, 4, "max", "tanh"), SetLayer(4, 4), SetPool("sum")
    )
    torch.compiler.reset()
    gradients = []
    for function in (network, torch.compile(network, fullgraph=True, backend="aot_eager")):
        sets = sets_of(True, 300, 20, 1)
        sets.rows.requires_grad_()
        function(sets).square().sum().backward()
        gradients.append(sets.rows.grad)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_compiled_sums_lose_no_digits():
    members = 10**5
    packed = PackedSets(torch.full((members, 1), 0.1, requires_grad=True), torch.tensor([0, members]))
    torch.compiler.reset()
    mean = torch.compile(SetPool("mean"), fullgraph=True, backend="eager")(packed)
    assert mean.item() == pytest.approx(packed.rows[0].item(), rel=1e-6, abs=0)


def test_random_layers_map_as_torch_says():
    """One draw for all, or one for each: `vmap` asks which."""
    layer, ones = SetDropout(0.5), torch.ones(4, 2, 30, 8)
    for randomness, kinds in (("same", 1), ("different", 4)):
        output = vmap(layer, randomness=randomness)(ones)
        assert (output == output[:, :, :1]).all()
        assert len(output.flatten(1).unique(dim=0)) == kinds
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(layer)(ones)


@pytest.mark.parametrize("packed", [False, True], ids=["dense", "packed"])
def test_forward_derivatives_without_torch_func(packed):
    """Dual tensors, with parameters that ask for no gradient: nothing may be dropped on the short way."""
    case = Case(LAYERS["SetEncoder"], packed)
    case.layer.requires_grad_(False)
    direction = torch.randn_like(case.values)
    with forward_ad.dual_level():
        derivative = forward_ad.unpack_dual(case(forward_ad.make_dual(case.values, direction))).tangent
    torch.testing.assert_close(derivative, jvp(case, (case.values,), (direction,))[1])


def test_packed_sets_are_not_mapped_over():
    packed = sets_of(True, 3, 2)
    layer = SetLayer(3, 4)
    state = {name: torch.stack([value] * 2) for name, value in layer.state_dict().items()}
    with pytest.raises(ValueError, match="the output or the mapped input of vmap: pass and return their rows"):
        vmap(lambda state: functional_call(layer, state, (packed,)))(state)


if __name__ == "__main__":
    print(table())
