"""MLflow's own pages, opened where the runs are: an app for `mlflow server --app-name equiset`.

A new browser sees MLflow's pages for language models, on which no training is to be found. The choice is the browser's,
kept in its local storage; nothing that is known of an experiment changes it (mlflow issue 24498).
"""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

# Its assistant would open by itself and take a quarter of the window; a button opens it.
_CHOICE = """<script>
localStorage['mlflow.workflowType_v1'] ??= '"machine_learning"';
localStorage['mlflow.assistant.fab.autoOpenedOnFirstLoad_v1'] ??= 'true';
</script>"""


def create_app() -> Callable[..., Awaitable[None]]:
    """Return MLflow's server, whose first page has chosen model training in a browser that has chosen nothing yet."""
    # Here, for the process that serves: the one that starts it asks this module for its names alone.
    from mlflow.server.fastapi_app import app
    from starlette.responses import HTMLResponse

    page = files("mlflow.server").joinpath("js/build/index.html").read_text(encoding="utf-8")
    first = HTMLResponse(page.replace("<head>", f"<head>{_CHOICE}", 1), headers={"Cache-Control": "no-cache"})

    async def pages(scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        await (first if scope["type"] == "http" and scope["path"] == "/" else app)(scope, receive, send)

    return pages
