"""A queue that takes every job and runs none. `--dry-run` is not that: it plans as for one core of this machine."""

from snakemake.executors.dryrun import Executor
from snakemake_interface_executor_plugins.settings import CommonSettings

__all__ = ["Executor", "common_settings"]

common_settings = CommonSettings(
    non_local_exec=True,
    dryrun_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
)
