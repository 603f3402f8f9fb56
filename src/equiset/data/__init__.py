"""The data sets: from a source to raw files (`fetch`), and on to arrays that training reads (`prepare`).

Each is a package with four names:

`SETTINGS`
    its class of settings, a `equiset.data.source.SourceSettings`, found under `datasets.<name>` in the configuration;
`find(folder) -> files`
    finds the raw files in a user's folder, by role: the one list of what is read and of what is watched for changes;
`fetch(settings, cache) -> manifest`
    downloads, finds or makes the raw files and describes them: see `equiset.data.manifest`. `cache` is a folder that
    lasts from run to run;
`prepare(manifest, folder, settings, threads)`
    writes arrays and `store.json` into `folder`. The store repeats what the manifest says of the data; where only
    reading the items can tell, `kind` and `share` are settled here.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from equiset.config.settings import validate
from equiset.errors import EquisetError, choose
from equiset.files import atomic_path, read_json, write_json

DATASETS = {
    "mnist": "equiset.data.mnist",
    "modelnet40": "equiset.data.modelnet40",
    "celeba": "equiset.data.celeba",
    "redmapper": "equiset.data.redmapper",
}


def dataset_module(name: str) -> ModuleType:
    """Return the module of a data set."""
    return import_module(choose(DATASETS, name, "data set"))


def fetch_dataset(dataset: str, settings: dict[str, Any], cache: Path, manifest: Path) -> None:
    """Get the raw files of a data set onto this machine, and write a manifest that names them.

    Args:
        dataset: its name.
        settings: its part of the config.
        cache: folder for downloads that lasts from run to run.
        manifest: JSON file to write.
    """
    module = dataset_module(dataset)
    try:
        write_json(manifest, module.fetch(validate(module.SETTINGS, settings, "datasets", dataset), cache))
    except OSError as error:  # no space, no permission
        raise EquisetError(f"the data cannot be stored: {error}") from error


def prepare_dataset(dataset: str, settings: dict[str, Any], manifest: Path, output: Path, threads: int = 1) -> None:
    """Turn the raw files that a manifest names into a folder of arrays, ready to be memory-mapped.

    Args:
        dataset: its name.
        settings: its part of the config.
        manifest: what `fetch_dataset` wrote.
        output: the folder.
        threads: processes or threads; they never change the result.
    """
    module = dataset_module(dataset)
    try:
        with atomic_path(output) as folder:
            checked = validate(module.SETTINGS, settings, "datasets", dataset)
            module.prepare(read_json(manifest), folder, checked, threads)
    except OSError as error:  # no space, no permission
        raise EquisetError(f"the arrays cannot be stored: {error}") from error
