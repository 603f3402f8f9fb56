"""Without a folder that all jobs share: the results in a bucket, as the Kubernetes profile has it."""

import subprocess
import sys

import pytest

from equiset.files import digest

from .conftest import EXPERIMENT, RUN, SmallProject, needs_plugin
from .slurm import free_port, wait_until

boto3 = pytest.importorskip("boto3", reason="no client of S3: pip install snakemake-storage-plugin-s3")
pytest.importorskip("moto", reason="no stand-in for S3: pip install 'moto[server]'")


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    """A stand-in for S3 on loopback, with the bucket of the profile, and the settings that lead to it."""
    address = f"http://127.0.0.1:{(port := free_port())}"
    log = tmp_path_factory.mktemp("moto") / "log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wait_until(lambda: "Running on" in log.read_text(), "moto", 120)
        keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
        client = boto3.client("s3", endpoint_url=address, region_name="us-east-1", **keys)
        client.create_bucket(Bucket="equiset")
        settings = {"ENDPOINT_URL": address, "REGION": "us-east-1", "ACCESS_KEY": "any", "SECRET_KEY": "any"}
        client.settings = {f"SNAKEMAKE_STORAGE_S3_{name}": value for name, value in settings.items()}
        yield client
    finally:
        process.terminate()
        process.wait()


@needs_plugin("kubernetes")
def test_the_kubernetes_profile_plans_the_whole_workflow(bucket, tmp_path):
    project = SmallProject(tmp_path / "project")
    process = project.start("--profile", "profiles/kubernetes", "--dry-run", **bucket.settings)
    assert process.wait(600) == 0, project.log
    assert "This was a dry-run" in project.log
    assert "Judging the paper's claims" in project.log
    assert "Writing .snakemake/storage/s3/equiset/results/smoke/report.html" in project.log
    assert ".snakemake/storage/s3/equiset/results/smoke/mnist_sums/tables/accuracy.csv" in project.log


def test_jobs_find_everything_in_the_bucket(bucket, local, tmp_path):
    """The jobs run here, but have only what they take from the bucket; the results are those of a usual run."""
    project = SmallProject(tmp_path / "project")
    shared = ("persistence", "software-deployment", "sources", "source-cache", "storage-local-copies")
    arguments = ["--shared-fs-usage", *shared, "--default-storage-provider", "s3", "--cores", "2"]
    arguments += ["--default-storage-prefix", "s3://equiset", f"{EXPERIMENT}/tracked.json"]
    process = project.start(*arguments, **bucket.settings)
    assert process.wait(1500) == 0, project.log
    assert not (project.folder / EXPERIMENT / "runs").exists()
    for name in (f"{RUN}/weights.safetensors", f"{RUN}/predictions.parquet"):
        bucket.download_file("equiset", name, str(tmp_path / "copy"))
        assert digest(tmp_path / "copy") == digest(local.folder / name), name
