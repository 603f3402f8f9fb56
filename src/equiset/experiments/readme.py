"""Published results on a page: the block of README.md, and a page for each experiment, from result files."""

from pathlib import Path

import pandas as pd
from PIL import Image

from equiset.errors import EquisetError
from equiset.files import atomic_path
from equiset.results.claims_table import headline
from equiset.results.measures import Measures
from equiset.results.runs import by_variant, what_was_measured

BEGIN = "<!-- published results: written by `make reference`, do not edit -->"
END = "<!-- end of published results -->"
OPEN, FAILED = "not tested", "not reproduced"
SHORT = {"generated sets": "generated", "reproduced": "✓&nbsp;reproduced", FAILED: "✗&nbsp;not reproduced"}


def update_readme(readme: Path, reference: Path) -> None:
    """Write everything between the two marks of the README anew."""
    text = with_results(readme.read_text(encoding="utf-8"), reference)
    with atomic_path(readme) as partial:
        partial.write_text(text, encoding="utf-8")


def with_results(page: str, reference: Path) -> str:
    """Return the page with everything between its marks replaced."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise EquisetError(f"README.md: expected the lines {BEGIN!r} and {END!r}, once and in this order")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{published(reference)}\n\n{END}{after}"


def published(reference: Path) -> str:
    """Return what was found: in two sentences, as a picture, the judged claims, the main table and figure."""
    claims = pd.read_csv(reference / "claims" / "claims.csv", keep_default_na=False)
    left = claims.loc[claims["verdict"] == OPEN, "claim"]
    verdicts = _markdown(_verdicts(claims[claims["verdict"] != OPEN]))
    changed = "†: judged by a rule that was changed after a look at results. " * ("†" in verdicts)
    parts = [
        headline(claims),
        _image(reference / "claims" / "claims.png", "The paper's numbers beside ours"),
        verdicts,
        f"{changed}Not tested: {', '.join(left) or 'none'}. [All claims]({reference}/claims/claims.md).",
    ]
    if (table1 := reference / "point_clouds" / "tables" / "table1.csv").exists():
        parts += ["**Table 1, accuracy on ModelNet40 (%)**", _markdown(_accuracy(table1, {"Points": "particles"}))]
    if (figure1 := reference / "mnist_sums" / "figures" / "figure1.png").exists():
        parts += ["**Figure 1, sums of MNIST digits**", _image(figure1, "Accuracy by epoch of the four models")]
    if (faces := reference / "outlier_faces" / "tables" / "accuracy.csv").exists():
        title = "**Section 4.1, test sets in which the outlier among 16 faces is found (%)**"
        parts += [title, _markdown(_accuracy(faces, {"Training sets": "training_sets"}))]
    return "\n\n".join(parts)


def _verdicts(judged: pd.DataFrame) -> pd.DataFrame:
    """Return the judged claims in few words, each with its first number, and what failed with how it did.

    A dagger stands where a rule was changed later.
    """
    failed = judged["reason"].map(lambda text: f": {text.partition('; ')[0]}").where(judged["verdict"] == FAILED, "")
    seeds, epochs = (
        judged[f"{unit}s"].map(lambda count, unit=unit: f", {count} {unit}{'s' * (str(count) != '1')}" if count else "")
        for unit in ("seed", "epoch")
    )
    return pd.DataFrame(
        {
            "Claim": judged["claim"] + " " + judged["statement"].str.removesuffix("."),
            "Paper": judged["paper"],
            "Ours": judged["ours"].map(lambda text: text.partition("; ")[0]),
            "On": judged["data"].replace(SHORT) + epochs.astype(str) + seeds.astype(str),
            "Verdict": judged["verdict"].replace(SHORT) + judged["changed"].map(lambda text: "†" * bool(text)) + failed,
        }
    )


def _accuracy(path: Path, columns: dict[str, str]) -> pd.DataFrame:
    """Return the rows of a published table with few of its columns, some by their new names, and the test accuracy."""
    table, measures = pd.read_csv(path), Measures.read(path.parents[1] / "measures.parquet")
    numbers = [measures(variant, "test_accuracy") for variant in table["variant"]]
    return pd.DataFrame(
        {
            "Network": table["variant"],
            **{title: table[name] for title, name in columns.items()},
            "Paper": table["paper"],
            "Ours": [number.with_spread for number in numbers],
            "Epochs": table["epochs"],
            "Seeds": table["seeds"],
            "On": [number.data for number in numbers],
        }
    )


def _markdown(table: pd.DataFrame) -> str:
    """Return a table without padding, which would make its lines wider than they are long to read."""
    rows = [table.columns, ["---"] * len(table.columns), *table.itertuples(index=False)]
    return "\n".join("|" + "|".join(str(cell).replace("|", r"\|") for cell in row) + "|" for row in rows)


def _image(path: Path, title: str) -> str:
    """Return a picture at a width that leaves it readable beside text, with what is to be seen on it."""
    with Image.open(path) as picture:
        seen = picture.info.get("Description", title).replace('"', "")
    return f'<img src="{path.as_posix()}" width="620" alt="{seen}">'


def write_page(title: str, runs: list[Path], tables: list[Path], figures: list[Path], output: Path) -> None:
    """Write what a visitor of an experiment's published folder reads: where it comes from, its tables and figures."""
    groups = by_variant(runs)
    published = [run for group in groups.values() for run in group]
    first = published[0].info
    hours = sum(sum(run.info["epoch_seconds"]) for run in published) / 3600
    commits = sorted({run.info["git_commit"][:12] for run in published})
    places = [(run.info["machine"], run.info["device"]) for run in published]
    machines = sorted({f"{machine['processor']}, {machine['cores']} cores, {device}" for machine, device in places})
    parts = [
        f"# {title}: published runs",
        f"Measured on {what_was_measured(groups)}",
        f"Made by code {', '.join(commits)} with torch {first['versions']['torch']} on {' and '.join(machines)}, "
        f"{first['threads']} thread a run, {hours:.1f} hours of training by the clock, pauses included. "
        "To make them again, with the settings of `workflow/reference.yaml`: `make reference`. To judge them again, "
        "without training: `make judge`.",
        "`runs/` holds the settings, data digests, versions and times of every run, its metrics by epoch, its "
        "predictions and its weights; `measures.parquet` every number with its interval.",
    ]
    parts += [path.read_text(encoding="utf-8").strip() for path in tables]
    parts += [f"![{path.stem}](figures/{path.name})" for path in figures]
    with atomic_path(output) as partial:
        partial.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
