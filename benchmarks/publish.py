"""Put the measured tables and figures into docs/measurements.md: python benchmarks/publish.py

Everything between a pair of marks is written anew from the files of `make bench`, of `benchmarks/precision.py`, of
`benchmarks/epochs.py` and of a demo run (`make results`). What was not measured here stays as it is.
"""

import re
import shutil
from pathlib import Path

from equiset.files import atomic_path

PAGE = Path("docs/measurements.md")
TABLES = {
    "bench": Path("results/bench/bench.md"),
    "growth": Path("results/bench/growth.md"),
    "epochs": Path("results/bench/epochs.md"),
    "precision": Path("results/bench/precision.md"),
    "demo": Path("results/demo/time/time_by_rule.md"),
}
# The figure that stands under a table, what it shows, and its name on the page.
FIGURES = {
    "bench": (Path("results/bench/bench.png"), "Speed against rivals", "bench.png"),
    "growth": (Path("results/bench/growth.png"), "Cost against members, channels and sets", "growth.png"),
    "demo": (Path("results/demo/time/time_by_rule.png"), "Where the demo's time goes", "demo_time.png"),
}


def with_table(page: str, name: str, text: str) -> str:
    """Return the page with what is between the marks of `name` replaced."""
    begin, end = f"<!-- {name}: written by benchmarks/publish.py -->", f"<!-- end of {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SystemExit(f"{PAGE}: expected {begin!r} and {end!r}, once each")
    return re.sub(
        f"({re.escape(begin)}).*?({re.escape(end)})", lambda m: f"{m[1]}\n\n{text}\n\n{m[2]}", page, flags=re.S
    )


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, path in TABLES.items():
        if not path.exists():
            print(f"{path} is not there: {name} stays as it is")
            continue
        text = path.read_text(encoding="utf-8").strip()
        if name in FIGURES:
            figure, shows, copy = FIGURES[name]
            shutil.copy(figure, PAGE.parent / copy)
            text += f"\n\n![{shows}]({copy})"
        page = with_table(page, name, text)
    with atomic_path(PAGE) as partial:
        partial.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
