"""What `config.yaml` may say about the outlier faces."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from equiset.config.experiment import Experiment, Name, Sets, Variant, Width


class FaceSets(Sets):
    """Sets of faces that share two attributes, with outliers that have neither."""

    members: int = Field(16, ge=2, le=64)
    """Images per set, the paper's N."""
    least_outliers: int = Field(1, ge=0)
    """Fewest outliers of a set. Every number up to `most_outliers` is equally frequent."""
    most_outliers: int = Field(1, ge=1)
    """Most outliers of a set."""
    train: int = Field(gt=0)
    """Training sets."""
    validation: int = Field(gt=0)
    """Validation sets, which show the progress of training."""
    test: int = Field(gt=0)
    """Test sets, from which the reported numbers come."""
    split: Literal["official", "people"] = "official"
    """`official`: CelebA's own partition of the images, after a check that no person is on two sides.
    `people`: persons are dealt out anew, 80, 10 and 10 %; for data that lack a part of the official partition."""

    @model_validator(mode="after")
    def _outliers_are_few(self) -> "FaceSets":
        if not self.least_outliers <= self.most_outliers < self.members / 2:
            raise ValueError(
                f"expected least_outliers <= most_outliers < members / 2, got {self.least_outliers}, "
                f"{self.most_outliers} and {self.members}"
            )
        return self


class FaceVariant(Variant):
    """The paper's network, its baseline, or a change to one of them."""

    model: Literal["set-layer", "set-pooling"]
    """`set-layer`: convolutions, then eq. 5 layers, one output for each member. `set-pooling`: convolutions, pooling
    over the set, fully connected layers of the same widths, one output for each position."""
    output: Literal["softmax", "sigmoid"] = "softmax"
    """`softmax`: exactly one outlier. `sigmoid`: any number of them."""
    channels: list[Width] = Field(min_length=9, max_length=9)
    """Output channels of the nine 3x3 convolutions; after each third there is max pooling."""
    set_channels: list[Width] = Field(min_length=1)
    """Output channels of the set layers (or fully connected layers) before the last, which has one for each answer."""
    set_pool: Literal["sum", "mean", "max"] = "max"
    """How the baseline pools over the set."""
    conv_dropout: float = Field(ge=0, lt=1)
    """Dropout rate after every convolution."""
    conv_dropout_shape: Literal["element", "channel"] = "element"
    """What one decision of it covers: one position of one feature map, or the whole map."""
    set_dropout: float = Field(ge=0, lt=1)
    """Dropout rate after every set layer but the last."""
    simultaneous_dropout: bool = True
    """Whether a channel is dropped for all members of a set at once, or for each member alone (section 2)."""

    @model_validator(mode="after")
    def _baseline_chooses_one(self) -> "FaceVariant":
        if self.model == "set-pooling" and self.output == "sigmoid":
            raise ValueError("the baseline (model: set-pooling) chooses one position: its output must be softmax")
        return self


class ExperimentSettings(Experiment):
    """The outlier faces."""

    title: ClassVar[str] = "Outlier faces"
    dataset: ClassVar[str] = "celeba"
    tables: ClassVar[tuple[str, ...]] = ("accuracy", "pairs", "several")
    figures: ClassVar[tuple[str, ...]] = ("figure4", "figure6", "curves", "calibration")
    private: ClassVar[tuple[str, ...]] = ("figure4", "figure6")
    from_epochs: ClassVar[dict[str, int]] = {"curves": 5, "calibration": 5}

    sets: dict[Name, FaceSets]
    variants: dict[Name, FaceVariant]

    @property
    def shown(self) -> tuple[str, ...]:
        """Without the table of several outliers where no network names them."""
        several = any(self.variants[name].output == "sigmoid" for name in self.running)
        return tuple(name for name in super().shown if name != "several" or several)

    @model_validator(mode="after")
    def _softmax_has_one_outlier(self) -> "ExperimentSettings":
        for name, variant in self.variants.items():
            sets = self.sets.get(variant.sets)
            if sets and variant.output == "softmax" and (sets.least_outliers, sets.most_outliers) != (1, 1):
                raise ValueError(f"variants.{name}: output softmax needs sets with exactly one outlier; use sigmoid")
        return self
