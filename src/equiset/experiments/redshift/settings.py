"""What `config.yaml` may say about the redshifts."""

from typing import ClassVar, Literal

from pydantic import Field

from equiset.config.experiment import Experiment, Name, Sets, Variant, Width


class RedshiftSets(Sets):
    """Clusters of galaxies, split into training and test clusters, and holdout clusters if there is to be tuning."""

    test_share: float = Field(gt=0, lt=1)
    """Share of the clusters that is kept for the test."""
    holdout: float = Field(0.0, ge=0, lt=0.9)
    """Share of the training clusters that is kept out of training, for tuning. The reported runs learn from all."""


class RedshiftVariant(Variant):
    """A network that estimates the redshift of every member of a cluster."""

    model: Literal["set", "mlp"]
    """`set`: set layers, a cluster is one input. `mlp`: fully connected layers, a galaxy is one input."""
    form: Literal["sum", "mean", "max", "mean-norm", "max-norm"] = "max-norm"
    """Form of the set layers: `max-norm` is eq. 5, `max` is eq. 4."""
    features: Literal["footnote", "columns"] = "footnote"
    """The 17 features. `footnote`: five magnitudes, their errors, the place in the sky, and the five P_CEN of the
    cluster. `columns`: all numbers of the members table but the two richness weights. Among these is R, the distance
    from the centre in Mpc/h, which with the angle between the two gives the catalogue's own redshift away."""
    channels: list[Width] = Field(min_length=1, max_length=8)
    """Width of the hidden layers; one layer with a single channel follows."""
    dropout: float = Field(ge=0, lt=1)
    """Dropout rate after every layer but the last; the members of a cluster lose the same channels."""
    batch_of: Literal["clusters", "galaxies"] = "clusters"
    """What `batch_size` counts for the perceptron. `clusters`: a batch has the galaxies with a spectrum of so many
    clusters, so that it takes as many steps as the set model and each on the same labels. `galaxies`: so many galaxies
    from anywhere. The set model always counts clusters."""
    target: Literal["redshift", "standardised"] = "redshift"
    """What the network learns: the redshift, or the redshift with zero mean and unit deviation on training galaxies."""


class ExperimentSettings(Experiment):
    """The redshifts."""

    title: ClassVar[str] = "Redshifts of galaxies in clusters"
    dataset: ClassVar[str] = "redmapper"
    tables: ClassVar[tuple[str, ...]] = ("scatter", "redshift_bins")
    figures: ClassVar[tuple[str, ...]] = ("figure5",)
    from_data: ClassVar[tuple[str, ...]] = ("figure5",)

    sets: dict[Name, RedshiftSets]
    variants: dict[Name, RedshiftVariant]
