"""The API pages: complete, without a network, and every reference leads somewhere. Links of the documentation too."""

import builtins
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from pydoc import locate

import pytest

import equiset
from tests.unit.test_nn_torch_ways import FEATURES, LAYERS

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """What a page refers to, what can be referred to in it, and the code in its text."""

    def __init__(self, text: str):
        super().__init__()
        self.links, self.anchors, self.loaded, self.code, self.cells = [], set(), [], [], 0
        self.inside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.inside.append(tag)
        self.cells += tag == "td"
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loaded += [given[key] for key in ("src", "href") if tag != "a" and key in given]

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if self.inside[-1:] == ["code"]:
            self.code.append(data)


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Page]:
    pytest.importorskip("pdoc")
    folder = tmp_path_factory.mktemp("docs")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "docs" / "build.py"), str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Warn" not in done.stderr, done.stderr
    return {path.relative_to(folder).as_posix(): Page(path.read_text("utf-8")) for path in folder.rglob("*.html")}


def test_every_link_of_the_pages_leads_somewhere(pages):
    assert set(pages) >= {"equiset.html", "equiset/training/load_run.html"}
    for name, page in pages.items():
        for link in page.links:
            file, _, anchor = link.partition("#")
            if file.startswith("https://pdoc.dev"):
                continue
            target = (Path("/") / name).parent.joinpath(file).resolve().relative_to("/").as_posix() if file else name
            assert target in pages, f"{name}: {link}"
            assert not anchor or anchor in pages[target].anchors, f"{name}: {link}"


def test_the_pages_need_no_network(pages):
    for name, page in pages.items():
        assert not [place for place in page.loaded if place.startswith(("http", "//"))], name


def test_all_that_is_public_is_there_with_its_equations_and_the_table(pages):
    assert set(equiset.__all__) <= pages["equiset.html"].anchors
    assert pages["equiset.html"].cells >= len(FEATURES) * len(LAYERS)
    for equation in ("(x − 1 max x) Γ + β", "hₗ = σ(", "x m / (1 − p)"):
        assert equation in " ".join(vars(equiset.nn)[name].__doc__ for name in equiset.nn.__all__)


def test_names_in_the_text_exist(pages):
    """A name that is not linked, because it is not ours or is misspelt, must be one that can be imported."""
    known = {"DataLoader", "Sequential", "Linear", "LayerNorm", "BatchNorm1d", "ELU", "Dropout"}
    for page in pages.values():
        for name in page.code:
            dotted = re.fullmatch(r"(equiset|torch)(\.\w+)+", name)
            camel = re.fullmatch(r"[A-Z][a-z0-9]+([A-Z][a-z0-9]*)+", name)
            if dotted or (camel and name not in known):
                assert locate(name) is not None or hasattr(builtins, name), name


def test_links_between_documents_lead_somewhere():
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for link in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
            if not link.startswith(("http://", "https://")):
                assert (path.parent / link).exists(), f"{path.name}: {link}"
