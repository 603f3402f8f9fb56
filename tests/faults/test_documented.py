"""docs/faults.md names tests; each of them is there."""

import re

from tests.workflow.conftest import ROOT


def test_every_test_that_the_document_names_exists():
    text = (ROOT / "docs" / "faults.md").read_text()
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    files = {path.name for folder in ("tests", "src", "benchmarks") for path in (ROOT / folder).rglob("*.py")}
    named = set(re.findall(r"\b(test_[a-z0-9_]+)(?!\w|\.py)", text))
    assert len(named) > 30
    assert not [name for name in named if f"def {name}(" not in sources]
    homes = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    pairs = re.findall(r"\b(test_\w+\.py)::(test_\w+)", text)
    assert not [f"{file}::{name}" for file, name in pairs if f"def {name}(" not in homes[file]]
    assert not [name for name in re.findall(r"\b(\w+\.py)\b", text) if name not in files]
