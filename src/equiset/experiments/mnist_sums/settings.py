"""What `config.yaml` may say about the MNIST sums."""

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from equiset.config.experiment import Experiment, Name, Sets, Variant, Width


class MnistSets(Sets):
    """Sets of digit images, labelled with the sum of the digits."""

    members: int = Field(ge=1, le=50)
    """Images per set, the paper's N."""
    train: int = Field(gt=0)
    """Training sets."""
    validation: int = Field(gt=0)
    """Validation sets."""
    draw_from: Literal["split", "all"] = "split"
    """`split`: training sets from MNIST's training images, validation sets from its test images.
    `all`: both from all 70,000 images, so that an image may be in both."""
    holdout: int = Field(0, ge=0)
    """For tuning: so many training images, the last ones, are kept out of the training sets and make the validation
    sets. The test images then have no part. The reported runs have none."""

    @model_validator(mode="after")
    def _holdout_is_held_out(self) -> "MnistSets":
        if self.holdout and self.draw_from == "all":
            raise ValueError("holdout: images that are held out cannot be drawn from all; use draw_from: split")
        return self


class MnistVariant(Variant):
    """One of the paper's four models, or a change to one."""

    model: Literal["I", "II", "III", "IV"]
    """I: images side by side. II: images as channels. III: set pooling. IV: set layer (eq. 5), then pooling."""
    pixels: Literal["unit", "standardised"] = "unit"
    """Input values: 0 to 1, or zero mean and unit standard deviation over the training images."""
    channels: list[Width] = Field(min_length=1, max_length=4)
    """Output channels of the 5x5 convolutions; each is followed by 2x2 max pooling."""
    pool_rounding: Literal["up", "down"] = "up"
    """How 2x2 pooling treats an odd size: 28-14-7-4-2 (`up`) or 28-14-7-3-1 (`down`)."""
    hidden: int = Field(gt=0)
    """Width of the fully connected layers and of the set layer."""
    set_pool: Literal["sum", "mean", "max"] = "sum"
    """How models III and IV turn a set into one vector."""
    dropout: float = Field(ge=0, lt=1)
    """Dropout rate after every pooling, fully connected and set layer."""
    conv_dropout: float | None = Field(None, ge=0, lt=1)
    """Dropout rate after every pooling, if it is another."""
    conv_dropout_shape: Literal["element", "channel"] = "element"
    """What one decision of the dropout after a pooling covers: one position of one feature map, or the whole map.
    See `conv_dropout_members` for the members of a set."""
    conv_dropout_members: Literal["shared", "independent"] = "shared"
    """For models III and IV, whether the members of a set lose the same values of their feature maps, or each its own.
    After the fully connected or set layer they always lose the same."""
    initialisation: Literal["torch", "glorot"] = "torch"
    """First weights: torch's default, or Glorot uniform with zero bias, TensorFlow's default."""


class ExperimentSettings(Experiment):
    """The MNIST sums."""

    title: ClassVar[str] = "Sum of MNIST digits"
    dataset: ClassVar[str] = "mnist"
    tables: ClassVar[tuple[str, ...]] = ("accuracy",)
    figures: ClassVar[tuple[str, ...]] = ("figure1", "memorised", "dropout")

    sets: dict[Name, MnistSets]
    variants: dict[Name, MnistVariant]

    @property
    def shown(self) -> tuple[str, ...]:
        """Without the figure of growing dropout where it does not grow."""
        members = {name: self.sets[self.variants[name].sets].members for name in self.running}
        largest = [self.variants[name] for name in self.running if members[name] == max(members.values())]
        rates = {variant.dropout for variant in largest if variant.model == "I"}
        return tuple(name for name in super().shown if name != "dropout" or len(rates) > 1)
