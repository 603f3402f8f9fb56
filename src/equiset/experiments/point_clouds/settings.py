"""What `config.yaml` may say about the point clouds."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from equiset.config.experiment import Experiment, Name, Sets, Variant
from equiset.config.settings import Settings
from equiset.config.training import Decay

HEADS = 4
"""Heads of the Set Transformer's attention."""
LATER = ("pointnet", "set-transformer")
"""Models that are younger than the paper."""


class CloudSets(Sets):
    """Clouds of particles on the surfaces of meshes, labelled with the mesh's class."""

    particles: int = Field(ge=1)
    """Particles of a cloud, drawn from the mesh's pool without replacement: for training anew in every epoch."""
    draws: int = Field(3, ge=1)
    """Draws of test particles, no two with a point in common; each test mesh is evaluated once for each."""
    holdout: float = Field(0.0, ge=0, lt=1)
    """Share of the training meshes that is kept for validation, for tuning. The reported runs learn from all."""


class CloudVariant(Variant):
    """One of the paper's models, or a change to one."""

    model: Literal["set-layer", "set-pooling", "graph", "pointnet", "set-transformer"]
    """Set layers; fully connected layers of the same width; convolutions on the graph of nearest neighbours. Each of
    these ends in a maximum over the particles. Then two later networks, PointNet and the Set Transformer."""
    form: Literal["sum", "mean", "max", "mean-norm", "max-norm"] = "max-norm"
    """Form of the set layers; `max-norm` is eq. 5, `max` eq. 4."""
    set_weight: Literal["plain", "by-set-size"] = "plain"
    """With `form: sum`, how the weight of the sum is learnt: as it is, or in units of one over the number of particles
    of a training cloud. Then it starts divided by that number, and its steps are divided too. Plain, a sum over
    hundreds of particles saturates tanh before the first step; with a smaller start alone, Adam's first step does."""
    layers: int = Field(3, ge=1)
    """Number of set layers, or of what takes their place; `pointnet` always has five."""
    width: int = Field(gt=0)
    """Channels of these layers. Of `pointnet`, those of the last: the others have a sixteenth and an eighth."""
    dense: int = Field(gt=0)
    """Units of the fully connected layer after the pooling; of `pointnet`, the second has half as many."""
    dropout: float = Field(0.5, ge=0, lt=1)
    """Rate of the two dropouts after the pooling; for `graph`, after each graph layer and the dense layer; for
    `pointnet`, before the last layer; for `set-transformer`, before and after the pooling."""
    set_dropout: float = Field(0.0, ge=0, lt=1)
    """Rate of dropout after each set layer, a channel at once for all particles."""
    neighbours: int = Field(8, ge=1)
    """With `graph`, neighbours of each particle."""
    self_loops: bool = False
    """With `graph`, whether one product takes the mean over a particle and its neighbours (Kipf and Welling), instead
    of one for the particle and one for its neighbours."""
    rotation_degrees: float = Field(0.0, ge=0, le=180)
    """While training, clouds are turned about z by a random angle up to this, either way."""
    scale: float = Field(1.0, gt=0, le=1)
    """While training, clouds are scaled by a random factor between this and its inverse, after the normalisation."""
    scale_axes: Literal["together", "separately"] = "together"
    """Whether the three axes share the factor."""

    @model_validator(mode="after")
    def _sizes_fit(self) -> "CloudVariant":
        if self.set_weight != "plain" and (self.model, self.form) != ("set-layer", "sum"):
            raise ValueError("set_weight: 'by-set-size' is for model: set-layer with form: sum")
        if self.model == "pointnet" and (self.width % 16 or self.dense % 2):
            raise ValueError("width: pointnet's must be a multiple of 16, and dense even")
        if self.model == "set-transformer" and self.width % HEADS:
            raise ValueError(f"width: set-transformer's must be a multiple of {HEADS}, its number of heads")
        return self


class Robustness(Settings):
    """How accuracy changes with what is done to the test clouds."""

    particles: list[int] = Field(min_length=1)
    """Numbers of particles."""
    rotation_degrees: list[float] = Field(min_length=1)
    """Rotations about z."""
    scales: list[float] = Field(min_length=1)
    """Factors after the normalisation."""
    meshes: int | None = Field(None, ge=1)
    """Test meshes to use, evenly taken; empty for all."""


class Activations(Settings):
    """Clouds that maximise the activation of single units (figure 3)."""

    particles: int = Field(1000, ge=2)
    iterations: int = Field(ge=1)
    units: int = Field(ge=1)
    """Units of each layer, the first ones."""
    learning_rate: float = Field(0.01, gt=0)
    betas: tuple[Decay, Decay] = (0.1, 0.9)
    objectives: tuple[Literal["max", "mean"], ...] = Field(("max", "mean"), min_length=1)
    """What is maximised: the largest, or the mean, of the unit's activations over the particles. Each in turn."""
    activated: float = Field(0.9, gt=-1, lt=1)
    """A unit counts as activated from this on."""


class Winners(Settings):
    """Clouds with the number of channels of the pooled maximum that each particle wins."""

    classes: tuple[str, ...] = ("airplane", "chair", "guitar", "lamp", "toilet", "person", "car", "bottle")
    """The classes that are shown, one test mesh of each, chosen because they are recognised in a small picture. Of data
    that lack them, other classes take their place."""


class ExperimentSettings(Experiment):
    """The point clouds."""

    title: ClassVar[str] = "Point cloud classification"
    dataset: ClassVar[str] = "modelnet40"
    tables: ClassVar[tuple[str, ...]] = ("table1", "ablations", "later_networks")
    figures: ClassVar[tuple[str, ...]] = ("figure2", "figure3", "robustness", "winners")
    from_data: ClassVar[tuple[str, ...]] = ("figure2",)
    from_analysis: ClassVar[dict[str, str]] = {
        "figure3": "activations",
        "robustness": "robustness",
        "winners": "winners",
    }
    analyses: ClassVar[dict[str, tuple[str, ...]]] = {
        "robustness": ("set-100", "set-1000", "set-5000"),
        "activations": ("set-1000",),
        "winners": ("set-1000",),
    }

    sets: dict[Name, CloudSets]
    variants: dict[Name, CloudVariant]
    robustness: Robustness
    activations: Activations
    winners: Winners = Winners()

    @property
    def shown(self) -> tuple[str, ...]:
        """Without the table of later networks where none runs."""
        later = any(self.variants[name].model in LATER for name in self.running)
        return tuple(name for name in super().shown if later or name != "later_networks")

    @model_validator(mode="after")
    def _neighbours_exist(self) -> "ExperimentSettings":
        for name in self.running:
            variant = self.variants[name]
            particles = self.sets[variant.sets].particles
            if variant.model == "graph" and variant.neighbours >= particles:
                raise ValueError(
                    f"variants.{name}.neighbours: a particle of {particles} has {particles - 1} neighbours at most, "
                    f"not {variant.neighbours}"
                )
        return self
