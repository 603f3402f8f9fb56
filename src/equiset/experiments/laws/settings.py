"""What `config.yaml` may say about the measurements on the layers themselves."""

from pydantic import Field

from equiset.config.settings import Settings
from equiset.config.training import Optimizer


class CommutingMaps(Settings):
    """L1: which linear maps commute with all permutations."""

    sizes: list[int] = Field(min_length=1)
    """Sizes of the sets; from two members on."""


class DeepStack(Settings):
    """L3: whether a deep stack of eq. 5 layers with tanh trains without batch normalisation."""

    seeds: int = Field(ge=1)
    layers: int = Field(8, ge=1)
    width: int = Field(32, ge=1)
    members: int = Field(16, ge=2)
    steps: int = Field(ge=1)
    first_steps: int = Field(300, ge=1)
    """The loss after so many steps is shown as well: with them the claim was judged first, and failed."""
    batch_size: int = Field(32, ge=1)
    optimizer: Optimizer


class SharedDropout(Settings):
    """L4: dropout for all members at once, or for each alone, where the members of a set share features."""

    seeds: int = Field(ge=1)
    train: int = Field(64, ge=1)
    """Training sets: few, so that there is something to regularise."""
    test: int = Field(1000, ge=1)
    members: int = Field(16, ge=1)
    features: int = Field(16, ge=1)
    width: int = Field(64, ge=1)
    dropout: float = Field(0.5, gt=0, lt=1)
    steps: int = Field(ge=1)
    batch_size: int = Field(32, ge=1)
    optimizer: Optimizer


class TimeBySetSize(Settings):
    """L2: processor time of a layer by the size of a set."""

    sizes: list[int] = Field(min_length=2)
    rows: int = Field(ge=1)
    """Members of all sets of a batch together, the same for every size."""
    width: int = Field(64, ge=1)
    repetitions: int = Field(ge=1)


class TimeOfGraphLayer(Settings):
    """P10: processor time of a graph layer and of a set layer of the same width."""

    clouds: int = Field(ge=1)
    points: int = Field(1000, ge=10)
    neighbours: int = Field(8, ge=1)
    width: int = Field(256, ge=1)
    repetitions: int = Field(ge=1)


class Laws(Settings):
    """What is measured on the layers themselves."""

    commuting_maps: CommutingMaps
    deep_stack: DeepStack
    shared_dropout: SharedDropout
    time_by_set_size: TimeBySetSize
    time_of_graph_layer: TimeOfGraphLayer
