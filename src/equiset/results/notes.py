"""The texts of MLflow's pages: which data a run used, what identifies them, and how to repeat it."""

from pathlib import Path
from typing import Any

from equiset.results.runs import DATA, WARNINGS

_ROOM = 4900  # characters; MLflow keeps 5000 of an experiment's description


def run_note(folder: Path, info: dict[str, Any]) -> str:
    """Return the description of a run, in Markdown.

    Args:
        folder: where its results are, or will be.
        info: the content of its run.json, or what is known of it when it starts.
    """
    sets, kind = info["sets"], info["sets"]["kind"]
    warning = f" {WARNINGS[kind]}".rstrip()
    commit = info["git_commit"] or "unknown"
    about = f"{DATA[kind]}: {sets['data']}."
    # MLflow shows some lines at once and the others on request; two spaces at their end keep them apart.
    return (
        f"**{about[0].upper()}{about[1:]}**{warning}  \n"
        f"Repeat: `snakemake --cores all --force -- {folder}/run.json`  \n"
        f"Sets, SHA-256: `{sets['digest']}`  \n"
        f"Prepared data ({sets['dataset']}, source {sets['source']}), SHA-256: `{sets['store_digest']}`  \n"
        f"Code: commit `{commit}`\n"
    )


def experiment_note(question: str, paper: str, results: str, curves: str, table: str = "") -> str:
    """Return the description of an experiment, in Markdown.

    Args:
        question: what it asks.
        paper: where it stands in the paper.
        results: address of the view with all runs in a table.
        curves: address of the view with charts.
        table: the experiment's first table, in Markdown.
    """
    note = (
        f"{question} ({paper})  \n"
        f"[Table of results]({results}) · [Charts]({curves})\n\n"
        "One run for each variant and seed; the same views are under *Views*, the curves with the chart button. All "
        "tables and figures are in the experiment *tables and figures*. To see one "
        'scale, filter with ``tags.`equiset.scale` = "demo"``. Runs whose name begins with *superseded* were run '
        "again later.\n"
    )
    whole = f"{note}\n{table}"
    return whole if len(whole) < _ROOM else note
