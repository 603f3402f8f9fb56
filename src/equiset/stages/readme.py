"""Put published results into the README: everything between its two marks is written anew from result files."""

import argparse
from pathlib import Path

import pandas as pd

from equiset.errors import EquisetError
from equiset.files import atomic_path
from equiset.process import run_stage
from equiset.results.claims_table import judged as verdicts
from equiset.results.judging import in_words
from equiset.stages import judge_published

BEGIN = "<!-- published results: written by `make reference`, do not edit -->"
END = "<!-- end of published results -->"
OPEN = "not tested"


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readme", type=Path, help="the page to bring up to date")
    parser.add_argument("--reference", required=True, type=Path, help="folder of the published results")
    parser.add_argument("--claims", required=True, type=Path, help="the claims file, YAML")
    arguments = parser.parse_args(argv)
    judge_published.main([str(arguments.reference), "--claims", str(arguments.claims)])
    text = with_results(arguments.readme.read_text(encoding="utf-8"), arguments.reference)
    with atomic_path(arguments.readme) as partial:
        partial.write_text(text, encoding="utf-8")


def with_results(page: str, reference: Path) -> str:
    """Return the page with everything between its marks replaced."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise EquisetError(f"README.md: expected the lines {BEGIN!r} and {END!r}, once and in this order")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{published(reference)}\n\n{END}{after}"


def published(reference: Path) -> str:
    """Return the claims in short form, and the table and figure of the MNIST sums."""
    claims = pd.read_csv(reference / "claims" / "claims.csv", keep_default_na=False)
    judged = claims[claims["verdict"] != OPEN]
    seeds = judged["seeds"].map(lambda count: {0: "", 1: ", 1 seed"}.get(count, f", {count} seeds"))
    columns = {"Claim": "claim", "What the paper says": "statement", "Paper": "paper", "Ours": "ours"}
    short = pd.DataFrame({name: judged[column] for name, column in columns.items()} | {"On": judged["data"] + seeds})
    short["Verdict"] = judged["verdict"] + judged["reason"].map(lambda reason: f" ({reason})" if reason else "")
    short["Changed after a look at results"] = judged["changed"].where(judged["changed"] != "", "—")
    open_claims = claims[claims["verdict"] == OPEN].groupby("reason", sort=False)["claim"]
    reasons = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in open_claims)
    figure = reference / "mnist_sums" / "figures" / "figure1.png"
    return "\n\n".join(
        [
            f"Of the paper's {len(claims)} claims, by the [published runs](results/reference/) on a CPU, "
            f"{in_words(verdicts(claims))}.",
            short.to_markdown(index=False, disable_numparse=True),
            f"Not tested: {reasons or 'none'}. [All claims]({reference / 'claims' / 'claims.md'}).",
            f"![Accuracy by epoch of the four models on sums of MNIST digits]({figure})",
            "<details><summary>The published MNIST runs in numbers</summary>",
            (reference / "mnist_sums" / "tables" / "accuracy.md").read_text(encoding="utf-8").strip(),
            "</details>",
        ]
    )


if __name__ == "__main__":
    run_stage(main)
