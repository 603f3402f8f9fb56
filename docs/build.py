"""API pages from the docstrings, which are complete without a network: python docs/build.py FOLDER"""

import sys
from pathlib import Path

import pdoc

import equiset
from equiset.training import load_run as trained


def build(folder: Path) -> None:
    for name in equiset.__all__:  # imported on first use, and pdoc lists only what is there
        setattr(equiset, name, getattr(equiset, name))
    more = Path(__file__).with_name("library.md").read_text(encoding="utf-8")
    equiset.__doc__ = f"{equiset.__doc__}\n\n{more}"
    pdoc.render.configure(
        docformat="google",
        search=False,
        show_source=False,
        footer_text=f"equiset {equiset.__version__}",
        template_directory=Path(__file__).with_name("pages"),
    )
    pdoc.pdoc(equiset.__name__, trained.__name__, output_directory=folder)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
