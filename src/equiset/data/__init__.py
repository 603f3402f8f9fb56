"""The data sets: from a source to checked raw files (`fetch`), and on to arrays that training reads (`prepare`).

Each is a module with three names:

`SETTINGS`
    its class of settings, a `equiset.data.source.SourceSettings`, found under `datasets.<name>` in the configuration;
`fetch(settings, cache) -> manifest`
    brings or finds the raw files and says in a dictionary what they are: `dataset`, `source`, `kind` (whose data
    these are: see `equiset.data.source.Kind`), `share` (of the paper's items), `description`, and `files` with path,
    bytes, sha256 and origin by role. `cache` is a folder that lasts from run to run;
`prepare(manifest, folder, settings, threads)`
    checks the raw files against the manifest and writes arrays and `store.json` into `folder`. The store repeats what
    the manifest says of the data; where only reading the items can tell, `kind` and `share` are settled here.
"""

import json
from importlib import import_module
from types import ModuleType

from equiset.config.settings import Settings, validate
from equiset.errors import EquisetError, choose

DATASETS = {
    "mnist": "equiset.data.mnist",
    "modelnet40": "equiset.data.modelnet40",
    "celeba": "equiset.data.celeba",
    "redmapper": "equiset.data.redmapper",
}


def dataset_module(name: str) -> ModuleType:
    """Return the module of a data set."""
    return import_module(choose(DATASETS, name, "data set"))


def read_spec(text: str) -> tuple[ModuleType, Settings]:
    """Return the module and the settings that `{"dataset": name, "settings": {...}}` stands for."""
    try:
        spec = json.loads(text)
        name, values = str(spec["dataset"]), spec.get("settings", {})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EquisetError('--spec must be JSON of the form {"dataset": name, "settings": {...}}') from None
    module = dataset_module(name)
    return module, validate(module.SETTINGS, values, "datasets", name)
