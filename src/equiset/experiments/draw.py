"""The sets of an experiment."""

from pathlib import Path
from typing import Any

from equiset.config.specs import sets_settings
from equiset.experiments import experiment_module
from equiset.files import atomic_path


def draw_sets(spec: dict[str, Any], store: Path, output: Path) -> None:
    """Draw an experiment's sets from the prepared data, into a folder."""
    settings = sets_settings(spec)
    with atomic_path(output) as folder:
        experiment_module(spec["experiment"], "sets").make_sets(settings, spec["seed"], store, folder)
