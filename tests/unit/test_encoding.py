"""Texts are UTF-8 on every machine: whoever reads or writes one says so. The linter sees only part of the calls."""

import ast

from tests.workflow.conftest import ROOT

FILES = sorted(path for folder in ("src", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
# These have methods of the same name that are no files of text.
OTHERS = {"opened.open", "Image.open", "source.open", "pool.open", "self.pool.open", "webbrowser.open", "os.open"}


def is_unsaid(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    said = {keyword.arg for keyword in call.keywords}
    if {"encoding", None} & said or ast.unparse(call.func) in OTHERS:
        return False
    if name == "run" and "text" in said:
        return True
    modes = [part.value for part in ast.walk(call) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    binary = any("b" in mode and set(mode) <= set("rwaxb+") for mode in modes)
    return name in ("read_text", "write_text") or (name in ("open", "fdopen") and not binary)


def unsaid(source: str) -> list[str]:
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [f"line {call.lineno}: {ast.unparse(call)[:80]}" for call in calls if is_unsaid(call)]


def test_every_text_names_its_encoding():
    found = {str(path.relative_to(ROOT)): unsaid(path.read_text(encoding="utf-8")) for path in FILES}
    assert len(found) > 100
    assert {name: calls for name, calls in found.items() if calls} == {}


def test_the_test_sees_what_it_looks_for():
    assert len(unsaid('path.read_text()\nopen("x")\npath.open("w")\nrun([], text=True)\npath.write_text("b")')) == 5
    assert unsaid('open("x", "rb")\npath.open("r+b")\nopen("x", encoding="utf-8")') == []
