"""MLflow's view of the runs. Nothing else imports mlflow."""

import os


def store_uri(configured: str | None) -> str:
    """Return where the runs are kept: as the config says, else the environment, else beside the results."""
    return configured or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///results/mlflow.db"


def without_password(uri: str) -> str:
    """Return an address as it may be shown."""
    before, at, after = uri.partition("://")
    host, slash, path = after.partition("/")
    return before + at + host.rpartition("@")[2] + slash + path.partition("?")[0]


def first_line(error: Exception, uri: str) -> str:
    """Return the first line of an error, without the query and the advice that databases add."""
    reason = next(iter(str(error).splitlines()), "") or type(error).__name__
    reason = reason.replace(uri, without_password(uri))
    # Libraries quote parts of an address as well.
    host, query = uri.partition("://")[2].partition("/")[0], uri.partition("?")[2]
    for secret in (f"{host.rpartition('@')[0]}@", f"?{query}"):
        reason = reason.replace(secret, "") if len(secret) > 1 else reason
    return reason
