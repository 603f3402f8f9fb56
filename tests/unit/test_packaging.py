"""Wheel and source distribution: built offline, complete, installed with torch alone."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import equiset

ROOT = Path(__file__).parents[2]
WITH_TORCH_ALONE = """
import importlib.metadata, sys
allowed = {"torch", "torchgen", "functorch", "filelock", "typing_extensions", "setuptools", "sympy", "mpmath",
           "networkx", "jinja2", "markupsafe", "fsspec", "equiset", "_distutils_hack", "pkg_resources"}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in allowed and top not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"{top} is not installed here", name=top)
sys.meta_path.insert(0, Refuse())
from equiset import PackedSets, SetDropout, SetLayer, SetNorm, SetPool
import equiset, torch
assert SetLayer(3, 4)(PackedSets.from_list([torch.randn(2, 3), torch.randn(5, 3)])).rows.shape == (7, 4)
try:
    import pandas
except ModuleNotFoundError:
    print("alone")
"""
"""A program in which every package is refused that is neither torch's own nor in the standard library."""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """Build both from a copy, so that nothing is left in the project."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("src", "tests", "docs", "examples"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    program = "from setuptools import build_meta as b; b.build_sdist('..'); b.build_wheel('..')"
    done = subprocess.run([sys.executable, "-c", program], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def test_they_hold_the_package_and_nothing_else(built):
    wheel, sdist = built
    package = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    package |= {"equiset/py.typed", "equiset/data/modelnet40/official.txt"}
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == package
        metadata = next(name for name in archive.namelist() if name.endswith("METADATA"))
        about = Parser().parsestr(archive.read(metadata).decode())
    assert about["Version"] == equiset.__version__
    assert [line for line in about.get_all("Requires-Dist") if "extra ==" not in line] == ["torch>=2.4"]
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in package} <= names
    assert not [name for name in names if name.startswith("tests")]


def test_the_version_stands_in_one_place():
    """In the package; pyproject.toml reads it there, and the citation says the same."""
    assert 'dynamic = ["version"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"\nversion: {equiset.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [0, 1], ids=["wheel", "sdist"])
def test_it_installs_and_works_with_torch_alone(built, kind, tmp_path):
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(tmp_path), str(built[kind])], check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITH_TORCH_ALONE + "print(equiset.__file__)"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
    )
    assert done.stdout.split() == ["alone", str(tmp_path / "equiset" / "__init__.py")], done.stderr
