"""A web server that answers as badly as a test asks it to, small tasks of every experiment, MLflow's database."""

import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

Answer = Callable[[BaseHTTPRequestHandler], None]


class WebServer:
    """Serves each path by the next answer in its list; the last one is repeated."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.sent: list[int] = []  # bytes of body, per answer
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append((self.path, dict(self.headers)))
                answers = outer.answers.get(self.path, [outer.status(404)])
                (answers.pop(0) if len(answers) > 1 else answers[0])(self)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client that hangs up is what many tests are about."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_port}{path}"

    def body(self, content: bytes, *, announce: int | None = -1, etag: str | None = '"v1"', stop: int | None = None):
        """Answer with `content`, resumable if there is an ETag. `announce` is the Content-Length, -1 for the true one,
        None for none; after `stop` bytes the connection ends."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            asked = handler.headers.get("Range")
            if asked and etag and handler.headers.get("If-Range") == etag:
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
                handler.send_response(206)
                handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                start = 0
                handler.send_response(200)
            if announce is not None:
                handler.send_header("Content-Length", str(len(content) - start if announce == -1 else announce))
            if etag:
                handler.send_header("ETag", etag)
            handler.end_headers()
            sent = content[start:stop]
            self.sent.append(len(sent))
            handler.wfile.write(sent)

        return answer

    @staticmethod
    def status(code: int, **headers: str) -> Answer:
        """Answer with a status and headers, without a body."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(code)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.end_headers()

        return answer

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,mirror.invalid")
    monkeypatch.setattr("equiset.data.download._PAUSE_S", 0.0)
    server = WebServer()
    yield server
    server.close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where a download is meant to go."""
    return tmp_path / "cache" / "data.bin"


@pytest.fixture(scope="session")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> "Tasks":  # noqa: F821, imported below: most tests need no torch
    """Every variant of the config on the smallest stand-ins; each store and its sets are made once."""
    from .small_tasks import Tasks

    return Tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture
def make_run(tasks: "Tasks", tmp_path: Path) -> Callable[..., "UntrainedRun"]:  # noqa: F821
    """Makes a run with random weights of an experiment and a variant."""
    from .untrained_runs import UntrainedRun

    return lambda *names, **more: UntrainedRun(tasks, tmp_path / "project", *names, **more)


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow's database with its tables; making one takes seconds, copying it none."""
    from equiset.tracking.tracker import open_store

    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    open_store(f"sqlite:///{path}")
    return path


@pytest.fixture
def uri(empty_database: Path, tmp_path: Path) -> str:
    """The address of a database of its own for each test."""
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent elsewhere. MLflow sets the variable, too, so that its child processes have it."""
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    mlflow.set_tracking_uri(None)
