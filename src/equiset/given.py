"""What a stage is given: arguments and folders that are what they should be, or one line that says what is wrong."""

import argparse
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from equiset.config.settings import Settings, validate
from equiset.errors import EquisetError
from equiset.experiments import experiment_module
from equiset.files import check_folder


class SetsSpec(Settings):
    """What decides the sets of an experiment."""

    experiment: str
    sets: str
    seed: int = Field(ge=0)
    settings: dict[str, Any]


class RunSpec(Settings):
    """What decides a run."""

    experiment: str
    variant: str
    seed: int = Field(ge=0)
    scale: str
    device: Literal["auto", "cpu", "cuda"]
    settings: dict[str, Any]


def json_object(text: str) -> dict[str, Any]:
    """Read an argument that holds JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"no JSON object but {text[:60]!r}")
    return value


def number(text: str) -> int:
    """Read an argument that counts something."""
    if not text.isdecimal() or not 0 < int(text) < 10_000:
        raise argparse.ArgumentTypeError(f"no number from 1 on: {text!r}")
    return int(text)


def data_for(experiment: str, folder: Path, about: str = "store.json") -> dict[str, Any]:
    """Return what prepared data, or by `sets.json` an experiment's sets, say of themselves, with all files checked."""
    expected = experiment_module(experiment, "settings").ExperimentSettings.dataset
    content = check_folder(folder, about)
    if (found := content.get("dataset", expected)) != expected:
        raise EquisetError(f"{folder} is made of {found}, and {experiment} learns from {expected}")
    return content


def settings_of(spec: dict[str, Any], kind: type[SetsSpec] | type[RunSpec]) -> Any:
    """Return the typed settings in the spec of some sets or of a run."""
    validate(kind, spec, "spec")
    experiment = experiment_module(spec["experiment"], "settings").ExperimentSettings
    settings = experiment.sets_class() if kind is SetsSpec else experiment.variant_class()
    return validate(settings, spec["settings"], "spec", "settings")
