"""The three ways to install name the same versions."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([a-z0-9.-]+==[^\\\n]*[^\\\n ]) *\\?$", re.MULTILINE)


def test_every_package_is_pinned_with_a_hash():
    lock = (ROOT / "requirements.lock").read_text()
    blocks = re.split(r"\n(?=[a-z])", lock)[1:]
    assert len(blocks) > 100
    for block in blocks:
        assert PIN.match(block), block
        assert "--hash=sha256:" in block, block
    assert not [block for block in blocks if block.startswith("torch==")]


def test_the_conda_environment_has_the_versions_of_the_lock():
    pins = PIN.findall((ROOT / "requirements-torch.txt").read_text() + (ROOT / "requirements.lock").read_text())
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["dependencies"][-1]["pip"] == pins, "run `make environment.yml`"


def test_the_packages_for_a_cluster_change_no_other_version():
    lock, cluster = (
        set(PIN.findall((ROOT / name).read_text())) for name in ("requirements.lock", "requirements-cluster.lock")
    )
    names = {pin.split("==")[0] for pin in lock}
    assert cluster - lock == {pin for pin in cluster if pin.split("==")[0] not in names}
    assert {pin.split("==")[0] for pin in cluster - lock} > {"psycopg2-binary", "snakemake-executor-plugin-slurm"}
