"""A queue that takes every job, says what it asks for and runs none. `--dry-run` plans as for one core of a machine."""

from snakemake.executors import dryrun
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(
    non_local_exec=True,
    dryrun_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
)


class Executor(dryrun.Executor):
    def run_job(self, job):
        asked = " ".join(f"{name}={job.resources.get(name)}" for name in ("gpu", "mem_mb", "runtime"))
        print(f"queued {job.rule.name} threads={job.threads} {asked}", flush=True)
        super().run_job(job)
