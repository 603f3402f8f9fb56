"""The typed config at one scale.

`config.yaml` holds the paper's own values. A scale is a set of changes to them (`scales.demo`). The user's changes win
over both; of a copy of `config.yaml` in full, those values count that differ. The result is validated as a whole, and a
wrong key or value is reported with the key's full name.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, get_args

import yaml
from pydantic import Field, create_model, field_validator

from equiset.config.experiment import Experiment
from equiset.config.settings import Settings, validate
from equiset.data import DATASETS, dataset_module
from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.experiments.laws.settings import Laws
from equiset.files import read_yaml

Scale = Literal["smoke", "demo", "paper"]
SCALES: tuple[str, ...] = get_args(Scale)
REFERENCE = "reference"
"""The scale of the published runs: their files are committed, and nothing trains there."""


class Tracking(Settings):
    """Where MLflow keeps its view of the runs."""

    uri: str | None = None
    """Tracking server or database. Empty: the environment's MLFLOW_TRACKING_URI, else `results/mlflow.db`."""
    live: bool = True
    """Whether trainings log each epoch as it ends. Without it they come when all are done."""

    @field_validator("uri")
    @classmethod
    def _holds_no_password(cls, uri: str | None) -> str | None:
        if uri and ("@" in uri.partition("://")[2].partition("/")[0] or "?" in uri):
            raise ValueError(
                "leave user, password and options out, which would end up in logs and results: set the environment's "
                "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD; for a database, the whole address as its "
                "MLFLOW_TRACKING_URI"
            )
        return uri


def _by_name(registry: dict[str, str], settings_of: Any, title: str) -> type[Settings]:
    return create_model(title, __base__=Settings, **{name: (settings_of(name), ...) for name in registry})


# One field for each registered data set and experiment, so that adding one changes the registry alone.
_Datasets = _by_name(DATASETS, lambda name: dataset_module(name).SETTINGS, "Datasets")
_Experiments = _by_name(EXPERIMENTS, lambda name: experiment_module(name, "settings").ExperimentSettings, "Experiments")


class Config(Settings):
    """Everything that `config.yaml` decides, at one scale."""

    scale: Scale = "demo"
    """How large everything is: `smoke` (seconds), `demo` (minutes), `paper` (the paper's own sizes)."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks are trained. `auto` takes a GPU if this machine has one; for a cluster's say `cuda`."""
    data_folder: str = Field("data", min_length=1)
    """Where downloads are kept. They are shared by all scales. `~` is the home folder."""
    tracking: Tracking = Tracking()
    datasets: _Datasets  # type: ignore[valid-type]
    experiments: _Experiments  # type: ignore[valid-type]
    laws: Laws

    @field_validator("data_folder")
    @classmethod
    def _at_home(cls, folder: str) -> str:
        return str(Path(folder).expanduser())

    def dataset(self, name: str) -> Settings:
        return getattr(self.datasets, name)

    def experiment(self, name: str) -> Experiment:
        return getattr(self.experiments, name)


def merge(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Return `base` with `change` laid over it; mappings are merged, everything else is replaced."""
    merged = dict(base)
    for key, value in change.items():
        both = isinstance(merged.get(key), dict) and isinstance(value, dict)
        merged[key] = merge(merged[key], value) if both else value
    return merged


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of a config file."""
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise EquisetError(f"{path}: expected keys with values, got {content!r:.80}")
    return content


def user_changes(base: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    """Return the values of `--configfile` and `--config` that win over a scale.

    These are all of them; of a copy of the config in full, known by its scales, those that differ from the project's.
    """
    values = {key: _as_in_a_file(value) for key, value in config.items()}
    return _differences(values, base) if "scales" in values else values


def _as_in_a_file(value: Any) -> Any:
    """Return what a file would say. Within `--config 'key={...}'`, Snakemake takes numbers and truths for text."""
    if isinstance(value, dict):
        return {key: _as_in_a_file(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_in_a_file(item) for item in value]
    if isinstance(value, str):
        with suppress(yaml.YAMLError):
            read = yaml.safe_load(value)
            return read if read is None or isinstance(read, bool | int | float) else value
    return value


def _differences(values: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    different = {}
    for key, value in values.items():
        if key not in base or value != base[key]:
            both = isinstance(value, dict) and isinstance(base.get(key), dict)
            different[key] = _differences(value, base[key]) if both else value
    return different


def resolve(raw: dict[str, Any], scale: str | None = None, overrides: dict[str, Any] | None = None) -> Config:
    """Return the validated config at a scale, by default the one that the content of `config.yaml` names.

    What the user wants to be different (`user_changes`) wins over the scale.
    """
    overrides = overrides or {}
    raw = merge(raw, overrides)
    changes = raw.pop("scales", {})
    scale = scale or overrides.get("scale") or raw.get("scale", "demo")
    if scale not in SCALES:
        raise EquisetError(f"config key 'scale': {scale!r} is not one of {', '.join(SCALES)}")
    if not isinstance(changes, dict) or set(changes) - set(SCALES):
        raise EquisetError(f"config key 'scales': expected the keys {', '.join(SCALES)}, got {changes!r:.80}")
    for name, change in changes.items():
        if not isinstance(change, dict):
            raise EquisetError(f"config key 'scales.{name}': expected keys with values, got {change!r:.80}")
    overrides = {key: value for key, value in overrides.items() if key != "scales"}
    merged = merge(merge(merge(raw, changes.get(scale, {})), overrides), {"scale": scale})
    return validate(Config, _lay_defaults_under_variants(merged))


def project_config(
    root: Path, config: dict[str, Any], scale: str | None = None, files: Iterable[str | Path] = ()
) -> Config:
    """Return the validated config of a project at a scale, with the user's `--configfile` and `--config`.

    At the scale of the published runs it is the paper's with the changes of `workflow/reference.yaml`, and the variants
    that were published.

    Args:
        root: folder of the project.
        config: what Snakemake read from both.
        scale: by default the one that the config names.
        files: of `--configfile`, checked for keys that are there twice, of which Snakemake takes the last.
    """
    for file in files:
        read_config(Path(file))
    base = read_config(root / "config.yaml")
    if scale != REFERENCE:
        return resolve(base, scale, user_changes(base, config))
    changes = user_changes(base, read_config(root / "workflow" / "reference.yaml"))
    for name in EXPERIMENTS:
        published = {path.parts[-3] for path in Path("results", REFERENCE, name).glob("runs/*/*/run.json")}
        changes["experiments"].setdefault(name, {})["run"] = sorted(published) or "all"
    return resolve(base, "paper", changes)


def _lay_defaults_under_variants(raw: dict[str, Any]) -> dict[str, Any]:
    """Complete every variant with its experiment's `defaults`, which then have served their purpose."""
    if not isinstance(raw.get("experiments"), dict):
        return raw  # for the validation to name
    experiments = {}
    for name, experiment in raw["experiments"].items():
        if isinstance(experiment, dict):
            experiment = dict(experiment)
            defaults = experiment.pop("defaults", None) or {}
            variants = experiment.get("variants", {})
            if not isinstance(defaults, dict):
                where = f"experiments.{name}.defaults"
                raise EquisetError(f"config key '{where}': expected keys with values, got {defaults!r:.80}")
            if isinstance(variants, dict):
                experiment["variants"] = {
                    key: merge(defaults, change or {}) if isinstance(change or {}, dict) else change
                    for key, change in variants.items()
                }
        experiments[name] = experiment
    return {**raw, "experiments": experiments}
