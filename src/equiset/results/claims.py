"""The paper's claims as data: what `workflow/claims.yaml` may say about them."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from equiset.config.settings import Settings
from equiset.errors import EquisetError
from equiset.files import read_yaml

Text = Annotated[str, Field(min_length=1)]


class MeasureName(Settings):
    """A number of `measures.parquet`, or several of them by parts."""

    experiment: Text
    name: Text
    """What is measured: a name of the experiment's `measures.py`, or of `equiset.experiments.laws.measures`."""
    variant: str = ""
    """Empty for what is measured on the layers themselves."""
    less: str = ""
    """The variant that is subtracted."""
    part: str = ""
    """What the test items were changed in, or chosen by: all numbers from `from` to `to` must be as expected."""
    lowest: float | None = Field(None, alias="from")
    highest: float | None = Field(None, alias="to")


class PaperValue(Settings):
    """The paper's number, which ours must meet within the combined spread, or surpass."""

    kind: Literal["paper-value"]
    value: float
    spread: float = Field(ge=0)
    """The printed one, else half a unit of the last digit."""
    better: Literal["higher", "lower", "neither"]
    baseline: bool = False
    """Whether it is what the paper's own method is compared with: better than printed is then a difference, too."""


class Above(Settings):
    """A bound that the interval lies above."""

    kind: Literal["above"]
    bound: float | Literal["chance"]
    matters: float = Field(gt=0)
    """The smallest excess that would matter: an interval below it decides against the claim."""


class Within(Settings):
    """A range that the interval lies in, ends included."""

    kind: Literal["within"]
    low: float | None = None
    """Empty for no lower end."""
    high: float

    @model_validator(mode="after")
    def _is_a_range(self) -> "Within":
        if self.low is not None and self.low > self.high:
            raise ValueError(f"low ({self.low}) is above high ({self.high})")
        return self


class AtChance(Settings):
    """The chance level, which the interval of a share of right answers holds."""

    kind: Literal["at-chance"]
    width: float = Field(gt=0, lt=1)
    """An interval that is wider than this decides nothing."""


class Beside(Settings):
    """Nothing: the number is shown beside the others and decides nothing."""

    kind: Literal["beside"]


class Condition(Settings):
    """Something that is measured, and what it must be."""

    label: str = ""
    """What is measured, where a claim has several conditions or where the claim does not say it."""
    measure: MeasureName
    expect: Annotated[PaperValue | Above | Within | AtChance | Beside, Field(discriminator="kind")]
    control: Literal["", "failure", "verdict"] = ""
    """`failure`: the claim can fail only if this holds. `verdict`: it can neither fail nor hold without this."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What the paper states of the measured variant alone."""

    @model_validator(mode="after")
    def _fits(self) -> "Condition":
        if isinstance(self.expect, PaperValue | AtChance) and (self.measure.less or self.measure.part):
            raise ValueError(f"{self.expect.kind} is about the number of one variant: leave `less` and `part` empty")
        return self


class Needs(Settings):
    """What a claim may be judged on."""

    data: Literal["paper", "any"]
    """`any` lets other data serve than the paper's, and generated sets."""
    scale: Literal["smoke", "demo", "paper"]
    """The smallest."""
    sets: dict[str, int] = Field(default_factory=dict)
    """What `sets.json` must say, so that a run with other sizes is not taken for the paper's."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What the paper states of all variants of the claim: keys with dots, such as `training.optimizer.name`."""
    same_settings: list[str] = Field(default_factory=list)
    """Settings in which the variants of the claim must not differ."""


class Claim(Settings):
    """One claim of the paper."""

    id: Annotated[str, Field(pattern=r"^[A-Z][0-9]+$")]
    place: Text
    statement: Text
    paper: Text
    needs: Needs
    no_data: str = ""
    """Why the paper's data are not here, where nobody can obtain them."""
    changed: list[str] = Field(default_factory=list)
    """What in the way of judging it was changed after a look at results, and why; shown beside the verdict. In the
    file, names of `changes`."""
    judged_by: list[Condition] = Field(min_length=1)

    @model_validator(mode="after")
    def _numbers_need_the_papers_data(self) -> "Claim":
        if any(isinstance(condition.expect, PaperValue) for condition in self.judged_by) and (
            self.needs.data != "paper" or self.needs.scale != "paper"
        ):
            raise ValueError("a number of the paper needs its data and its scale: needs: {data: paper, scale: paper}")
        if len(self.judged_by) > 1 and not all(condition.label for condition in self.judged_by):
            raise ValueError("several conditions need a label each")
        return self


class Claims(Settings):
    changes: dict[str, Text] = Field(default_factory=dict)
    """What was changed after a look at results, and why, by the names that claims have for it."""
    claims: list[Claim] = Field(min_length=1)

    @model_validator(mode="after")
    def _ids_differ(self) -> "Claims":
        ids = [claim.id for claim in self.claims]
        twice = sorted({id for id in ids if ids.count(id) > 1})
        if twice:
            raise ValueError(f"more than one claim is named {twice[0]}")
        for claim in self.claims:
            if unknown := [name for name in claim.changed if name not in self.changes]:
                raise ValueError(f"claim {claim.id}.changed: {unknown[0]!r} is not one of {list(self.changes)}")
        return self


def is_numeric(paper: str) -> bool:
    """Return whether what the paper says of a claim has a number in it."""
    return bool(re.search(r"\d", paper))


def read_claims(path: Path) -> list[Claim]:
    """Return the claims of a file, or raise an `EquisetError` that names the wrong entry and key."""
    content = read_yaml(path)
    try:
        read = Claims.model_validate(content)
        return [one.model_copy(update={"changed": [read.changes[name] for name in one.changed]}) for one in read.claims]
    except ValidationError as error:
        faults = [f"{_where(fault['loc'], content)}: {fault['msg']}" for fault in error.errors()]
    raise EquisetError(f"{path}: " + "; ".join(faults[:3]) + ("; ..." if len(faults) > 3 else ""))


def _where(keys: tuple[str | int, ...], content: object) -> str:
    """Return the place of a fault, with the claim's id for its number."""
    if len(keys) > 1 and keys[0] == "claims":
        try:
            name = str(content["claims"][keys[1]]["id"])  # type: ignore[index]
        except (KeyError, TypeError):
            name = f"number {int(keys[1]) + 1}"
        return ".".join([f"claim {name}", *map(str, keys[2:])])
    return ".".join(map(str, keys)) or "the file"
