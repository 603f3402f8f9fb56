"""The report of a scale on one page: claims, experiments and provenance, each number read from a file."""

import base64
import csv
import io
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup
from PIL import Image

from equiset.errors import EquisetError
from equiset.files import read_json
from equiset.results.claims_table import LETTERS, NOTE, headline, what_was_trained
from equiset.results.judging import NOT_THE_PAPERS, OPEN
from equiset.results.measures import ABOUT_IMPROVING
from equiset.results.runs import DATA, WARNINGS, Run

# The words of the claims file -> how a reader sees at a glance what they mean, in colour and without.
VERDICTS = {"holds": ("good", "✓"), "differs": ("bad", "≠")} | dict.fromkeys(OPEN, ("open", "–"))
LARGE = 250_000
"""Bytes of a picture that is made smaller for the page."""


@dataclass(frozen=True)
class Chapter:
    """An experiment on the page: what is said about it, and which tables and figures it has."""

    name: str
    title: str
    about: ModuleType
    """Its module `about`: `PAPER`, `QUESTION`, `READING`, `CAPTIONS`, and `CLAIMS`, the first letter of its claims."""
    tables: list[str]
    figures: list[str]


def render(template: Path, content: dict[str, Any]) -> str:
    """Return the page. All values are escaped: no file can bring markup or scripts with it."""
    loader = jinja2.FileSystemLoader(template.parent)
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value.replace(" %", "\N{NO-BREAK SPACE}%") if isinstance(value, str) else value,
    )
    environment.filters |= {"duration": duration, "size": size}
    return environment.get_template(template.name).render(**content)


def collect(folder: Path, chapters: list[Chapter], runs: list[Run]) -> dict[str, Any]:
    """Read all that the page shows from the results of one scale, and of the runs that there are."""
    claims = read_verdicts(folder / "claims" / "claims.csv")
    described = [read_chapter(folder, chapter, claims, runs) for chapter in chapters]
    return {
        "scale": folder.name,
        "claims": claims,
        "letters": LETTERS,
        "note": NOTE,
        "improving": ABOUT_IMPROVING,
        "claims_figure": inline(folder / "claims" / "claims.png"),
        "opening": what_was_trained(runs),
        "headline": headline(pd.DataFrame(claims)),
        "chapters": described,
        "provenance": describe_origin(runs),
        "datasets": [describe_dataset(path) for path in sorted(folder.glob("data/*/manifest.json"))],
    }


def read_verdicts(path: Path) -> list[dict[str, Any]]:
    """Return the judged claims in the order of the file, each with how its verdict is shown."""
    with path.open(encoding="utf-8", newline="") as file:
        claims = list(csv.DictReader(file))
    if not claims or not {"claim", "verdict", "ours", "runs"} <= claims[0].keys():
        raise EquisetError(f"{path} is damaged: it holds no claims")
    for claim in claims:
        word = claim["verdict"]
        if word not in VERDICTS:
            raise EquisetError(
                f"{path}: claim {claim['claim']} has the verdict {claim['verdict']!r}, not one of {list(VERDICTS)}"
            )
        look, sign = ("open", "○") if claim["rests_on"] in NOT_THE_PAPERS else VERDICTS[word]
        claim |= {"look": look, "sign": sign}
        # What several conditions found stands line by line; runs are linked from the page, which lies in their scale.
        lines = claim["ours"].split("; ")
        claim["found"] = [line for line in lines if line != "—"] or ["—"]
        claim["links"] = [_link(run, path.parents[1]) for run in claim["runs"].split(";") if run]
    return claims


def _link(run: str, folder: Path) -> dict[str, str]:
    path = Path(run)
    file = path if path.suffix else path / "run.json"
    inside = file.is_relative_to(folder)
    return {"name": run, "address": file.relative_to(folder).as_posix() if inside else ""}


def read_chapter(folder: Path, chapter: Chapter, claims: list[dict[str, Any]], runs: list[Run]) -> dict[str, Any]:
    """Read the tables, figures and runs of an experiment."""
    own = folder / chapter.name
    runs = [run for run in runs if run.info["spec"]["experiment"] == chapter.name]
    tables = {name: (own / "tables" / f"{name}.html").read_text(encoding="utf-8") for name in chapter.tables}
    return {
        "name": chapter.name,
        "title": chapter.title,
        "about": chapter.about,
        "data": describe_data(runs),
        "claims": [claim for claim in claims if claim["claim"].startswith(chapter.about.CLAIMS)],
        # `Table.write` has escaped all values.
        "tables": [(name, Markup(table)) for name, table in tables.items()],
        "figures": [(name, inline(own / "figures" / f"{name}.png")) for name in chapter.figures],
        "runs": runs,
    }


def inline(path: Path) -> dict[str, str]:
    """Return a picture as a data URL, with its description. Large ones are made smaller."""
    content, kind = path.read_bytes(), "png"
    with Image.open(path) as picture:
        description = picture.info.get("Description", "")
        if len(content) > LARGE:
            smaller, kind = io.BytesIO(), "webp"
            picture.convert("RGB").save(smaller, "webp", quality=80)
            content = smaller.getvalue()
    return {"address": f"data:image/{kind};base64,{base64.b64encode(content).decode()}", "description": description}


def describe_data(runs: list[Run]) -> list[dict[str, str]]:
    """Return which data the runs used; one entry, unless an experiment mixes them."""
    found = {(run.info["sets"]["kind"], run.info["sets"]["data"]) for run in runs}
    return [_data_box(kind, description) for kind, description in sorted(found)]


def _data_box(kind: str, description: str) -> dict[str, str]:
    return {"kind": kind, "words": DATA[kind], "description": description, "warning": WARNINGS[kind]}


def describe_origin(runs: list[Run]) -> list[tuple[str, list[str]]]:
    """Return which code, packages and machines made the runs; several values where they differ."""
    infos = [run.info for run in runs]
    facts = {
        "Commit": [info["git_commit"] or "not known" for info in infos],
        "Machine": [f"{info['machine']['processor']}, {info['machine']['cores']} cores" for info in infos],
        "Operating system": [info["machine"]["platform"] for info in infos],
        "Device and threads": [f"{info['device']}, {info['threads']} thread(s) for each run" for info in infos],
    }
    started = min(datetime.fromisoformat(info["started"]) for info in infos)
    ended = max(datetime.fromisoformat(info["ended"]) for info in infos)
    rows = [(name, sorted(set(values))) for name, values in facts.items()]
    rows.append(("Runs", [f"{len(runs)}, from {started:%Y-%m-%d %H:%M} to {ended:%Y-%m-%d %H:%M} {started:%Z}"]))
    for package in sorted({name for info in infos for name in info["versions"]}):
        rows.append((package, sorted({info["versions"].get(package, "absent") for info in infos})))
    return rows


def describe_dataset(manifest: Path) -> dict[str, Any]:
    """Return what identifies a data set: its raw files, and the arrays that were made of them."""
    content = read_json(manifest)
    # Whose data these are is settled when they are prepared.
    store = read_json(manifest.parent / "store" / "store.json")
    return {
        "name": content["dataset"],
        "data": _data_box(store["kind"], store["description"]),
        "source": content["source"],
        "store_digest": store["digest"],
        "files": [{**file, "name": Path(file["path"]).name} for file in content["files"].values()],
    }


def duration(seconds: float) -> str:
    """Return a duration in readable units."""
    value, unit = next(
        ((seconds / length, unit) for unit, length in (("s", 1), ("min", 60)) if seconds < 99.5 * length),
        (seconds / 3600, "h"),
    )
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def size(count: float) -> str:
    """Return a number of bytes in readable units."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
