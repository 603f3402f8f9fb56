"""The paper's experiments, one package each.

A package holds
- `settings`: what the config may say about it (`ExperimentSettings`, with the names of its tables and figures);
- `sets`: how its sets are drawn from the prepared data (`make_sets`), numpy only;
- `networks`: its models alone (`build_network`), with torch;
- `task`: feeding, loss and predictions (`Task`), with torch;
- `measures`: what is measured on its runs (`MEASURES`), numpy only;
- `analyses`: what else is measured on the trained networks (`ANALYSES`), with torch; only where there is such a thing;
- `predict`: the networks on a user's own files (`preprocess`, `predict`), with torch;
- `results`: its tables and figures, a function for each name, which show what was measured;
- `about`: what the report says about it, beside the numbers.

Beside the packages, `jobs` is what the workflow does with any of them, `pages` writes the report and the README, and
`laws` measures the layers themselves.
"""

from importlib import import_module
from types import ModuleType

from equiset.errors import choose

EXPERIMENTS = {
    "mnist_sums": "equiset.experiments.mnist_sums",
    "point_clouds": "equiset.experiments.point_clouds",
    "outlier_faces": "equiset.experiments.outlier_faces",
    "redshift": "equiset.experiments.redshift",
}
"""Name in the config -> package. Adding an experiment adds one entry."""


def experiment_module(name: str, part: str) -> ModuleType:
    """Return one part of an experiment: `settings`, `sets`, `task`, ..., as listed above."""
    return import_module(f"{choose(EXPERIMENTS, name, 'experiment')}.{part}")
