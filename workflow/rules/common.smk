"""The validated config, and helpers named for what they return."""

import os
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from snakemake.exceptions import WorkflowError

ROOT = Path(str(workflow.current_basedir)).parents[1]

# The code of this project, wherever the package is installed from: for this file, and for the jobs.
sys.path.insert(0, str(ROOT / "src"))
os.environ.update(
    PYTHONPATH=str(ROOT / "src"),
    # Freed memory stays in the process: mapped anew for each large tensor, a training step takes 1.6 times as long.
    MALLOC_MMAP_THRESHOLD_=str(2**32),
    MALLOC_TRIM_THRESHOLD_=str(2**32),
)

from equiset.config.resolve import REFERENCE, SCALES, project_config
from equiset.config.specs import analysis_spec, fetch_spec, prepare_spec, raw_spec, run_spec, sets_spec
from equiset.data import DATASETS
from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS
from equiset.experiments.laws.settings import Laws
from equiset.fingerprint import fingerprint, training_code
from equiset.tracking import create_database, store_uri, without_password
from equiset.training.provenance import has_gpu

RUN_FILES = ("run.json", "metrics.parquet", "predictions.parquet")


@cache
def config_at(scale=None):
    """The validated config at a scale, by default the one that the config names."""
    try:
        return project_config(ROOT, config, scale, workflow.configfiles)
    except EquisetError as error:
        raise WorkflowError(str(error)) from None


SCALE = config_at().scale


def in_project(path):
    """A file of the project, relative to the working folder: a project that was copied or moved has nothing to do."""
    return os.path.relpath(ROOT / path)


def code(*patterns):
    """What identifies code in files of the package, compared by value; `{experiment}` and `{dataset}` are a job's own."""
    return lambda wildcards: fingerprint(*(pattern.format(**dict(wildcards.items())) for pattern in patterns))


def gpus(wildcards):
    """The number of GPUs that a job with a network takes."""
    device = config_at(wildcards.scale).device
    return int(device == "cuda" or (device == "auto" and has_gpu()))


@cache
def raw_files(scale, dataset):
    """What decides which raw files there are: settings, the content of a user's own folder, the code of a stand-in."""
    settings = config_at(scale).dataset(dataset)
    code = fingerprint(f"data/{dataset}/stand_in*") if settings.source == "stand-in" else ""
    return {**raw_spec(config_at(scale), dataset), "code": code}


def possible(scale, files):
    """Some files or folders; at the scale of published runs those that are there, because nothing else can be made."""
    return [file for file in files if scale != REFERENCE or Path(file).exists()]


def store_of(wildcards):
    """The prepared data that an experiment draws from. Published runs take them as they are, and can do without."""
    dataset = config_at(wildcards.scale).experiment(wildcards.experiment).dataset
    store = Path(f"results/{scale_of_runs(wildcards)}/data/{dataset}/store/store.json")
    if wildcards.scale != REFERENCE:
        return store
    # As an absolute path, which is no output of `prepare`, so that judging published runs fetches nothing.
    return store.absolute() if store.exists() else []


def sets_of(wildcards):
    """The sets that a run learns from."""
    variants = config_at(wildcards.scale).experiment(wildcards.experiment).variants
    if wildcards.variant not in variants:
        raise WorkflowError(f"{wildcards.experiment} has no variant {wildcards.variant!r}, only {list(variants)}")
    name = variants[wildcards.variant].sets
    return f"results/{wildcards.scale}/{wildcards.experiment}/sets/{name}/seed{wildcards.seed}/sets.json"


def run_folders(wildcards, variants=None):
    """The folders of the runs of an experiment, all or of some variants, in the order of the config."""
    experiment = config_at(wildcards.scale).experiment(wildcards.experiment)
    runs = [
        f"results/{wildcards.scale}/{wildcards.experiment}/runs/{variant}/seed{seed}"
        for variant in experiment.running
        if variants is None or variant in variants
        for seed in experiment.seeds_for(variant)
    ]
    return possible(wildcards.scale, runs)


def run_files(wildcards, names=RUN_FILES, variants=None):
    """What the runs of an experiment leave, all of them or those of some variants."""
    folders = run_folders(wildcards, variants)
    return possible(wildcards.scale, [f"{folder}/{name}" for folder in folders for name in names])


def analysis_files(wildcards):
    """The analyses of an experiment whose variants run at this scale."""
    folder = f"results/{wildcards.scale}/{wildcards.experiment}/analyses"
    analyses = config_at(wildcards.scale).experiment(wildcards.experiment).analyses
    files = [f"{folder}/{name}.parquet" for name, variants in analyses.items() if run_folders(wildcards, variants)]
    return possible(wildcards.scale, files)


def scale_of_runs(wildcards):
    """The scale at which runs were made. Published ones have the paper's."""
    return "paper" if wildcards.scale == REFERENCE else wildcards.scale


def roles_of(wildcards):
    """What the running variants of an experiment are in tables and figures, in the order of the config."""
    settings = config_at(wildcards.scale).experiment(wildcards.experiment)
    return [(name, settings.variants[name].role.model_dump()) for name in settings.running]


def shown_names(scale, experiment):
    """The names of an experiment's tables and figures. What shows the data themselves is not published."""
    settings = config_at(scale).experiment(experiment)
    if scale != REFERENCE:
        return list(settings.shown)
    job = SimpleNamespace(scale=scale, experiment=experiment)
    if not 0 < len(RUN_FILES) * len(run_folders(job)) == len(run_files(job)):
        return []
    published = [Path(folder).parent.name for folder in run_folders(job)]
    settings = settings.model_copy(update={"run": published})
    return settings.publishable([Path(file).stem for file in analysis_files(job)], bool(store_of(job)))


def shown_files(scale, experiment, endings=("csv", "md", "tex", "html", "png", "pdf")):
    """The tables and figures of an experiment, in all forms or in some."""
    forms = {"tables": ("csv", "md", "tex", "html"), "figures": ("png", "pdf")}
    settings = config_at(scale).experiment(experiment)
    return [
        f"results/{scale}/{experiment}/{part}/{name}.{ending}"
        for part, possible in forms.items()
        for name in shown_names(scale, experiment)
        if name in getattr(settings, part)
        for ending in possible
        if ending in endings
    ]


def tracking_uri():
    """Where MLflow keeps the runs, without a password: Snakemake stores parameters."""
    try:
        return without_password(store_uri(config_at().tracking.uri))
    except EquisetError as error:
        raise WorkflowError(str(error)) from None


def mirror_of(wildcards, output):
    """The address that the data of an experiment are downloaded from."""
    settings = config_at(wildcards.scale)
    dataset = settings.dataset(settings.experiment(wildcards.experiment).dataset)
    return next(value[0] for key, value in dataset if key.endswith("mirrors"))


def made_files(target):
    """The files of a target, a path or a rule, that this run of Snakemake has made."""
    named = vars(rules).get(target)
    files = [*named.rule.output, *named.rule.input] if named else [target]
    paths = [Path(str(file)) for file in files if not callable(file)]
    return [path for path in paths if path.exists() and path.stat().st_mtime > STARTED]
