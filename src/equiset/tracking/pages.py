"""MLflow's own pages, opened where the runs are: an app for `mlflow server --app-name equiset`.

In a new browser MLflow shows its pages for language models, which list no training runs. The browser keeps the choice
in its local storage, and no setting of an experiment changes it (mlflow issue 24498).
"""

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

# The assistant would open by itself and take a quarter of the window, and a dialog praises the registry of models.
_CHOICE = """<script>
localStorage['mlflow.workflowType_v1'] ??= '"machine_learning"';
localStorage['mlflow.assistant.fab.autoOpenedOnFirstLoad_v1'] ??= 'true';
localStorage['_mlflow_model_registry_promo_modal_dismissed_v1'] ??= 'true';
</script>"""


def create_app() -> Callable[..., Awaitable[None]]:
    """Return MLflow's server; its first page selects model training in browsers that have not chosen yet."""
    # Imported here, in the serving process: the one that starts it only looks up names in this module.
    from mlflow.server.fastapi_app import app
    from starlette.responses import HTMLResponse

    page = files("mlflow.server").joinpath("js/build/index.html").read_text(encoding="utf-8")
    first = HTMLResponse(page.replace("<head>", f"<head>{_CHOICE}", 1), headers={"Cache-Control": "no-cache"})

    async def pages(scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        await (first if scope["type"] == "http" and scope["path"] == "/" else app)(scope, receive, send)

    return pages
