"""What the settings of all experiments have in common."""

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import Field, StringConstraints, model_validator

from equiset.config.roles import Role
from equiset.config.settings import Settings
from equiset.config.training import Training

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=60)]
"""A name that is also a folder: letters, digits, `-` and `_`."""
Width = Annotated[int, Field(gt=0, le=100_000)]
"""A number of channels."""


class Sets(Settings):
    """How sets are drawn from the prepared data. Each experiment adds its own fields."""

    def describe(self, store: dict[str, Any], seed: int, digest: str, **more: Any) -> dict[str, Any]:
        """Return the content of `sets.json`: which data, by their `store.json`, the sets come from, and how they were
        drawn; `digest` identifies them, and `more` is what else the experiment has to say.
        """
        return {
            "dataset": store["dataset"],
            "source": store["source"],
            "kind": store["kind"],
            "share": store["share"],
            "data": store["description"],
            "store_digest": store["digest"],
            "digest": digest,
            "seed": seed,
            **more,
            **self.model_dump(mode="json"),
        }


class Variant(Settings):
    """One row of a table: a network on some sets, trained in some way. Each experiment adds its own fields."""

    sets: Name
    """Which of the experiment's `sets` it learns from."""
    training: Training
    role: Role = Role()
    """What it is in tables and figures; no part of what is trained."""


class Experiment(Settings):
    """An experiment of the paper. Each one narrows the types of `sets` and `variants`."""

    title: ClassVar[str]
    dataset: ClassVar[str]
    """The data set it draws from."""
    tables: ClassVar[tuple[str, ...]]
    figures: ClassVar[tuple[str, ...]]
    private: ClassVar[tuple[str, ...]] = ()
    """Figures that show the data themselves and must not be published."""
    from_data: ClassVar[tuple[str, ...]] = ()
    """Figures that read the prepared data, beside the files of the runs."""
    from_analysis: ClassVar[dict[str, str]] = {}
    """Figures that show an analysis, with its name."""
    from_epochs: ClassVar[dict[str, int]] = {}
    """Figures that are near empty after fewer epochs than this, and are then not published."""
    analyses: ClassVar[dict[str, tuple[str, ...]]] = {}
    """What is measured on trained networks beyond their predictions: its name, and the variants that it needs."""

    seeds: list[int] = Field(min_length=1)
    """One run of every variant for each; a seed decides sets, first weights, order and dropout."""
    seeds_of: dict[Name, Annotated[list[int], Field(min_length=1)]] = Field(default_factory=dict)
    """Variants that have other seeds."""
    run: Literal["all"] | list[Name] = "all"
    """Which variants to run at this scale."""
    sets: dict[Name, Sets]
    variants: dict[Name, Variant]

    @classmethod
    def sets_class(cls) -> type[Sets]:
        return get_args(cls.model_fields["sets"].annotation)[1]

    @classmethod
    def variant_class(cls) -> type[Variant]:
        return get_args(cls.model_fields["variants"].annotation)[1]

    @property
    def running(self) -> list[str]:
        """The names of the variants that run, in the order of the config."""
        return [name for name in self.variants if self.run == "all" or name in self.run]

    def seeds_for(self, variant: str) -> list[int]:
        """Return the seeds that a variant runs with."""
        return self.seeds_of.get(variant, self.seeds)

    @property
    def shown(self) -> tuple[str, ...]:
        """The tables and figures that the running variants fill."""
        return (*self.tables, *self.figures)

    def publishable(self, analyses: list[str], data: bool) -> list[str]:
        """Return the tables and figures that can be made of published files.

        Args:
            analyses: names of those that were published.
            data: whether the prepared data are there.
        """
        hidden = {*self.private, *(() if data else self.from_data)}
        hidden |= {name for name, analysis in self.from_analysis.items() if analysis not in analyses}
        epochs = max((self.variants[name].training.epochs for name in self.running), default=0)
        hidden |= {name for name, least in self.from_epochs.items() if epochs < least}
        return [name for name in self.shown if name not in hidden]

    @model_validator(mode="after")
    def _names_exist(self) -> "Experiment":
        for seeds in (self.seeds, *self.seeds_of.values()):
            if len(set(seeds)) < len(seeds) or min(seeds) < 0:
                raise ValueError(f"seeds must be different and not negative, got {seeds}")
        for name in self.seeds_of:
            if name not in self.variants:
                raise ValueError(f"seeds_of: no variant is named {name!r}, only {list(self.variants)}")
        for name, variant in self.variants.items():
            if variant.sets not in self.sets:
                raise ValueError(f"variants.{name}.sets: no sets are named {variant.sets!r}, only {list(self.sets)}")
            if variant.role.changes and variant.role.changes not in self.variants:
                raise ValueError(f"variants.{name}.role.changes: no variant is named {variant.role.changes!r}")
            before = [name]
            while (before[-1] in self.variants) and (other := self.variants[before[-1]].role.changes):
                if other in before:
                    raise ValueError(f"variants.{name}.role.changes: {' changes '.join([*before, other])}, in a circle")
                before.append(other)
        unknown = [name for name in self.run if name not in self.variants] if self.run != "all" else []
        if unknown:
            raise ValueError(f"run: no variant is named {unknown[0]!r}, only {list(self.variants)}")
        if not self.running:
            raise ValueError("run: names no variant")
        return self
