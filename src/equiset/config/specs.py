"""The settings of each job of the workflow: one dictionary with all that decides its result, and nothing else."""

from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from equiset.config.experiment import Sets, Variant
from equiset.config.settings import Settings, validate
from equiset.data import dataset_module
from equiset.data.manifest import content, own_folder
from equiset.errors import EquisetError
from equiset.experiments import experiment_module

if TYPE_CHECKING:  # it knows all data sets and experiments, and a job needs one
    from equiset.config.resolve import Config


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


def sets_settings(spec: dict[str, Any]) -> Sets:
    """Return the typed settings in the spec of some sets."""
    validate(SetsSpec, spec, "spec")
    kind = experiment_module(spec["experiment"], "settings").ExperimentSettings.sets_class()
    return validate(kind, spec["settings"], "spec", "settings")


def run_settings(spec: dict[str, Any]) -> Any:
    """Return the typed settings in the spec of a run: the experiment's own kind of `Variant`."""
    validate(RunSpec, spec, "spec")
    kind: type[Variant] = experiment_module(spec["experiment"], "settings").ExperimentSettings.variant_class()
    return validate(kind, spec["settings"], "spec", "settings")


def fetch_spec(config: "Config", dataset: str) -> dict[str, Any]:
    """Return all settings of a data set, also how its files are downloaded."""
    return {"dataset": dataset, "settings": config.dataset(dataset).model_dump(mode="json")}


def raw_spec(config: "Config", dataset: str) -> dict[str, Any]:
    """Return what decides which raw files there are; for a user's own folder, also what it holds now."""
    settings = config.dataset(dataset)
    spec = {"dataset": dataset, "settings": settings.raw()}
    if settings.source == "folder":
        # Not input files of the rule: there may be 200,000 of them.
        with suppress(EquisetError, OSError):  # which `fetch` reports
            files = dataset_module(dataset).find(own_folder(settings))
            spec["content"] = content(chain.from_iterable(files.values()), Path(config.data_folder, dataset))
    return spec


def prepare_spec(config: "Config", dataset: str) -> dict[str, Any]:
    """Return what decides the arrays that are made of the raw files."""
    return {"dataset": dataset, "settings": config.dataset(dataset).arrays()}


def sets_spec(config: "Config", experiment: str, sets: str, seed: int) -> dict[str, Any]:
    settings = config.experiment(experiment).sets[sets]
    return {"experiment": experiment, "sets": sets, "seed": seed, "settings": settings.model_dump(mode="json")}


def analysis_spec(config: "Config", experiment: str, analysis: str) -> dict[str, Any]:
    """Return what the experiment's settings say under the analysis's name; nothing if there is no such field."""
    settings = getattr(config.experiment(experiment), analysis, None)
    return settings.model_dump(mode="json") if settings is not None else {}


def run_spec(config: "Config", experiment: str, variant: str, seed: int) -> dict[str, Any]:
    settings = config.experiment(experiment).variants[variant]
    return {
        "experiment": experiment,
        "variant": variant,
        "seed": seed,
        "scale": config.scale,
        "device": config.device,
        # What a variant is in tables changes no training.
        "settings": settings.model_dump(mode="json", exclude={"role"}),
    }
