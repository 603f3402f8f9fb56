"""The files of a download on disk: the final one, the part that has arrived, and the notes beside them."""

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from equiset.files import digest

log = logging.getLogger(__name__)


def remember_origin(path: Path, origin: str) -> None:
    """Note beside a file where it came from, for the runs that find it there."""
    _beside(path, ".origin").write_text(origin + "\n", encoding="utf-8")


def origin_of(path: Path) -> str:
    try:
        return _beside(path, ".origin").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Partial:
    """A file that is being downloaded. It gets its name only when it is whole and right."""

    destination: Path
    checksums: dict[str, str]
    size: int | None

    @property
    def part(self) -> Path:
        return _beside(self.destination, ".part")

    @property
    def note(self) -> Path:
        """The file that says which version of which address the part is the beginning of."""
        return _beside(self.destination, ".part.json")

    def fault(self, path: Path) -> str | None:
        """Say what is wrong with a file, or None."""
        size = path.stat().st_size
        if self.size is not None and size != self.size:
            return f"it has {size} bytes, expected {self.size}"
        for algorithm, expected in self.checksums.items():
            if (found := digest(path, algorithm)) != expected.lower():
                return f"its {algorithm} is {found}, expected {expected}"
        return None

    def arrived(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def drop(self) -> None:
        # The part first: without its note a part is never resumed.
        self.part.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def begin(self, url: str, validator: str | None) -> None:
        """Start anew with the version of `url` that `validator` (an ETag or a date) identifies."""
        self.drop()
        self.note.write_text(json.dumps({"url": url, "validator": validator}), encoding="utf-8")

    def validator(self, url: str) -> str | None:
        """Return what identifies the version at `url` that the part belongs to, if it does and can be resumed."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
            return note["validator"] if note["url"] == url else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def finish(self, url: str) -> None:
        with self.part.open("rb") as file:
            os.fsync(file.fileno())
        remember_origin(self.destination, url)
        os.replace(self.part, self.destination)
        self.note.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time download a file; the others wait and then find it there."""
        self.destination.parent.mkdir(parents=True, exist_ok=True)
        with _beside(self.destination, ".lock").open("w", encoding="utf-8") as file:
            # Some network file systems have no locks: to go on without is better than not at all.
            with contextlib.suppress(OSError):
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    log.info("%s: waiting for another process that downloads it", self.destination.name)
                    fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
