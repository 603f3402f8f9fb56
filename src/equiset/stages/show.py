"""Write one table or figure of an experiment, from the numbers that were measured and the files that its runs left."""

import argparse
from pathlib import Path

from equiset.config.roles import Role
from equiset.config.settings import validate
from equiset.errors import choose
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.given import json_object
from equiset.process import run_stage
from equiset.results.claims import read_claims
from equiset.results.material import Material
from equiset.results.measures import Measures
from equiset.results.runs import runs_of


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("item", help="name of a table or figure of the experiment")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of the runs, in table order")
    parser.add_argument("--store", required=True, type=Path, help="folder that the stage `prepare` wrote")
    parser.add_argument("--analyses", nargs="*", default=[], type=Path, help="files that the stage `analyse` wrote")
    parser.add_argument("--measures", required=True, type=Path, help="file that the stage `measure_runs` wrote")
    parser.add_argument("--claims", required=True, type=Path, help="the claims file, with the paper's values")
    parser.add_argument("--roles", default="{}", type=json_object, help="JSON: what each variant is in them")
    parser.add_argument("--output", required=True, nargs="+", type=Path, help="files; the suffix decides the format")
    arguments = parser.parse_args(argv)
    runs_of(arguments.experiment, arguments.runs)
    settings = experiment_module(arguments.experiment, "settings").ExperimentSettings
    known = dict.fromkeys([*settings.tables, *settings.figures])
    choose(known, arguments.item, f"table or figure of {arguments.experiment}")
    material = Material(
        arguments.runs,
        arguments.store,
        {path.stem: path for path in arguments.analyses},
        Measures.read(arguments.measures),
        {claim.id: claim for claim in read_claims(arguments.claims)},
        {name: validate(Role, role, "roles", name) for name, role in arguments.roles.items()},
    )
    shown = getattr(experiment_module(arguments.experiment, "results"), arguments.item)(material)
    for path in arguments.output:
        shown.write(path)


if __name__ == "__main__":
    run_stage(main)
