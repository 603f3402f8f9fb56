"""The report: every number on it comes from a file, and it needs nothing but itself."""

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from equiset.errors import EquisetError
from equiset.experiments import EXPERIMENTS, experiment_module
from equiset.experiments.pages import _chapter, write_report
from equiset.results.figures import Canvas, Figure
from equiset.results.report import LARGE, duration, size
from equiset.results.tables import Table

from ..report_folder import CLAIM, change, write_claims, write_results

TEMPLATE = Path(__file__).parents[2] / "workflow" / "report" / "report.html.j2"


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path)


def shown(experiment):
    settings = experiment_module(experiment, "settings").ExperimentSettings
    return [*settings.tables, *settings.figures]


def page_of(results):
    runs = sorted(results.glob("*/runs/*/*"))
    write_report(results, TEMPLATE, runs, {name: shown(name) for name in EXPERIMENTS}, results / "report.html")
    page = (results / "report.html").read_text()
    assert " %<" not in page  # a percent sign stays on the line of its number
    return page.replace("\N{NO-BREAK SPACE}%", " %")


def replace(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("claims/claims.csv", "61.7 %", "62.9 %"),
        ("claims/claims.csv", "> 80 %", "> 81 %"),
        ("mnist_sums/tables/accuracy.html", "61.7 ± 0.3", "33.1 ± 0.2"),
        ("redshift/tables/scatter.html", "61.7 ± 0.3", "44.7 ± 0.2"),
        ("mnist_sums/runs/one/seed0/run.json", "12345", "54321"),
        ("mnist_sums/runs/one/seed0/run.json", "432.1", "777.1"),
        ("data/mnist/store/store.json", "5" * 64, "6" * 64),
        ("data/mnist/manifest.json", "f" * 64, "e" * 64),
    ],
)
def test_a_changed_number_in_a_file_changes_on_the_page(results, file, old, new):
    """Nothing else changes: what is gone and what is new is that number, in the forms that people read."""
    before = page_of(results)
    replace(results / file, old, new)
    after = page_of(results)
    shown = {"12345": "12,345", "54321": "54,321", "432.1": "432", "777.1": "777"}
    shown |= {"> 80 %": "&gt; 80 %", "> 81 %": "&gt; 81 %"}
    old, new = shown.get(old, old), shown.get(new, new)
    assert old in before
    assert new not in before
    assert new in after
    assert after.count(old) < before.count(old)


def test_a_changed_figure_changes_on_the_page_and_says_what_is_seen(results):
    before, path = page_of(results), results / "mnist_sums" / "figures" / "figure1.png"
    Figure(Canvas(figsize=(1, 1)), 'A "flat" curve.').write(path)
    after = page_of(results)
    assert before.count("data:image/png;base64,") == after.count("data:image/png;base64,") > 5
    assert base64.b64encode(path.read_bytes()).decode() in after
    assert 'alt="A &#34;flat&#34; curve."' in after


def test_a_large_picture_is_made_smaller(results):
    path = results / "outlier_faces" / "figures" / "figure4.png"
    noise = np.random.default_rng(0).integers(0, 255, (400, 400, 3), np.uint8)
    Image.fromarray(noise).save(path)
    before = path.stat().st_size
    assert before > LARGE
    (address,) = re.findall(r'"data:image/webp;base64,([^"]+)"', page_of(results))
    picture = base64.b64decode(address)
    assert Image.open(io.BytesIO(picture)).size == (400, 400)
    assert len(picture) < before / 2


class Reader(HTMLParser):
    """Collects tags, and complains about what is not closed."""

    VOID = ("meta", "img", "br", "input")

    def __init__(self):
        super().__init__()
        self.open, self.tags = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, self.getpos()

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def read(page):
    reader = Reader()
    reader.feed(page)
    assert not reader.open
    return reader


def test_the_page_is_whole_and_loads_nothing(results):
    reader = read(page_of(results))
    assert not reader.all("script") + reader.all("link") + reader.all("iframe")
    assert all(image["src"].startswith("data:image/png;base64,") for image in reader.all("img"))
    addresses = [link["href"] for link in reader.all("a")]
    assert not [address for address in addresses if ":" in address]
    for address in addresses:
        if not address.startswith("#"):
            assert (results / address).is_file(), address
    anchors = {attributes["id"] for _, attributes in reader.tags if "id" in attributes}
    assert {address[1:] for address in addresses if address.startswith("#")} <= anchors
    style = (TEMPLATE.parent / "report.css").read_text()
    assert not re.findall(r"url\(|@import|https?:", style)


def test_the_page_can_be_read_aloud(results):
    reader = read(page_of(results))
    assert all(image["alt"] for image in reader.all("img"))
    assert all("scope" in cell for cell in reader.all("th"))
    tables = len(reader.all("table"))
    assert tables == len(reader.all("caption")) > 10
    assert len(reader.all("h1")) == 1
    assert reader.all("html") == [{"lang": "en"}]


def test_the_data_are_named_loudly(results):
    page = page_of(results)
    assert '<p class="data whole"><strong>the paper&#39;s data, whole</strong>: MNIST.' in page
    assert '<p class="data stand-in"><strong>STAND-IN data</strong>: stand-in for modelnet40.' in page
    assert "They reproduce nothing of the paper." in page
    sets = {"dataset": "mnist", "source": "folder", "data": "some images", "digest": "", "store_digest": ""}
    for kind, words in (("own", "OWN data, not the paper&#39;s"), ("part", "the paper&#39;s data, in PART")):
        change(results / "mnist_sums/runs/one/seed0/run.json", sets=sets | {"kind": kind, "share": 0.0})
        assert f'<p class="data {kind}"><strong>{words}</strong>: some images.' in page_of(results)


def test_verdicts_are_counted_and_told_apart(results):
    page = page_of(results)
    said = "2 claims of the paper: 1 holds (1 on generated sets), 0 differ, 1 open (1 no data here)."
    first = "Trained 4 networks: 1 on MNIST; 1 on stand-in for celeba; 1 on stand-in for modelnet40; "
    assert f'<p class="lead">{first}1 on stand-in for redmapper. Stand-ins test no number of the paper. ' in page
    assert f'<p class="lead">{said}</p>' in page
    assert '<span class="verdict good"><span aria-hidden="true">✓</span> holds</span>' in page
    assert "<div>first: 61.7 %</div><div>second: 12 %</div>" in page
    assert 'href="mnist_sums/runs/one/seed0/run.json"' in page


def test_no_green_on_a_stand_in_and_what_was_changed_is_said(results):
    claim = {"verdict": "holds", "rests_on": "stand-ins", "changed": "the steps were raised", "runs": ""}
    write_claims(results, [CLAIM | claim])
    page = page_of(results)
    assert '<span class="verdict open"><span aria-hidden="true">○</span> holds</span>' in page
    assert "<summary>Changed after a look at results</summary>the steps were raised<" in page
    assert "1 claims of the paper: 1 holds (1 on stand-ins), 0 differ, 0 open." in page


def test_each_claim_is_shown_once_and_its_chapter_leads_to_it(results):
    page = page_of(results)
    assert page.count(CLAIM["statement"]) == 2  # both claims of the folder have it
    assert page.index('id="claims-figure"') < page.index('id="claim-M2"') < page.index('id="mnist_sums"')
    assert page.count('href="#claim-M2"') == 1
    assert 'href="#claim-L1"' not in page  # of the layers, which have no chapter


def test_links_to_files_beside_the_page_are_marked(results):
    links = read(page_of(results)).all("a")
    for link in links:
        assert link["href"].startswith("#") != (link.get("class") == "file"), link
    assert "they do not work if you received the page alone" in page_of(results)


def test_an_unknown_verdict_is_refused(results):
    write_claims(results, [CLAIM | {"verdict": "perhaps", "runs": ""}])
    with pytest.raises(EquisetError, match="claim M2 has the verdict 'perhaps'"):
        page_of(results)


def test_what_is_in_files_stays_text(results):
    write_claims(results, [CLAIM | {"statement": "<script>alert(1)</script>", "runs": '"><img src=x>'}])
    page = page_of(results)
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    read(page)


def test_numbers_are_said_as_people_say_them():
    assert [duration(value) for value in (0.04, 9.96, 99, 120, 5000, 7200)] == [
        *("0.0 s", "10 s", "99 s", "2.0 min", "83 min", "2.0 h")
    ]
    assert [size(value) for value in (12, 1234, 5_600_000, 2_039_180_837)] == ["12 bytes", "1 kB", "6 MB", "2.0 GB"]


def test_every_table_and_figure_has_a_caption():
    for experiment in EXPERIMENTS:
        chapter = _chapter(experiment, shown(experiment))
        assert set(chapter.about.CAPTIONS) == {*chapter.tables, *chapter.figures}


def test_a_chapter_has_what_runs_at_its_scale():
    chapter = _chapter("mnist_sums", ["figure1"])
    assert (chapter.tables, chapter.figures) == ([], ["figure1"])


def test_a_table_writes_its_own_part_of_a_page(tmp_path):
    shown = pd.DataFrame(
        {"Model": ["set layer", "MVCNN (quoted)"], "Accuracy (%)": ["61.7 ± 0.3", "—"], "Paper": [80, -9]}
    )
    Table(shown, shown, "A <caption>", ("A note & more.",)).write(tmp_path / "one.html")
    page = (tmp_path / "one.html").read_text()
    assert '<th scope="col" class="text">Model</th><th scope="col" class="">Accuracy (%)</th>' in page
    assert (
        '<tr class="quoted"><th scope="row">MVCNN (quoted)</th><td class="">—</td><td class="paper">−9</td></tr>'
        in page
    )
    assert "A &lt;caption&gt;" in page
    assert '<p class="note">A note &amp; more.</p>' in page
    Table(shown[:0], shown[:0], "Nothing", ()).write(tmp_path / "none.html")
    assert "Nothing of this table runs" in (tmp_path / "none.html").read_text()


def test_the_report_knows_nothing_of_mlflow(results):
    """It is the same whether the runs were sent or not, and where."""
    assert not list(results.glob("*/tracked.json"))
    assert "make ui" in page_of(results)
