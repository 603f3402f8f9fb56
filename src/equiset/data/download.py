"""Downloads from a list of mirrors, and zip files: nothing gets its name before it is whole and checked."""

import json
import logging
import os
import re
import stat
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

import requests
import urllib3
from tqdm import tqdm

from equiset.data.source import SourceSettings
from equiset.errors import EquisetError
from equiset.files import atomic_path, digest

log = logging.getLogger(__name__)

_CONNECT_S = 10.0
_CHUNK = 2**18
_LARGEST = 2**36  # bytes of a file whose size neither the caller nor the server knows
_SLOWEST = 1000  # bytes a second; a connection that is slower has stalled
_PROGRESS = 2**20  # an attempt that adds this many bytes does not count as failed
_PAUSE_S = 0.5  # after the first failure; it doubles with every further one
_LOG_EVERY_S = 30.0
_HIGHEST_RATIO = 100  # of unpacked to packed bytes; real data sets have less than 10
_WEB_PAGE = "the server sent a web page, perhaps a quota or login page, instead of the file"


class _MirrorError(Exception):
    """This mirror will not deliver the file, however often it is asked."""


class _AttemptError(Exception):
    """This attempt failed; another one may succeed."""


@dataclass(frozen=True)
class _Target:
    """The file that is wanted, and the `.part` beside it that holds what has arrived."""

    path: Path
    checksum: str | None
    size: int | None

    @property
    def part(self) -> Path:
        return self.path.with_name(f"{self.path.name}.part")

    @property
    def version(self) -> Path:
        """The file that tells which version of which address the part is the beginning of."""
        return self.path.with_name(f"{self.path.name}.part.json")

    def arrived(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def validator(self, url: str) -> str | None:
        """Return the ETag or date by which a server can tell whether the part belongs to its file."""
        try:
            version = json.loads(self.version.read_text(encoding="utf-8"))
            return version["validator"] if version["url"] == url else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.version.unlink(missing_ok=True)

    def fault(self, path: Path) -> str | None:
        """Return what is wrong with a file that should be this one."""
        if self.size not in (None, size := path.stat().st_size):
            return f"it has {size} bytes, expected {self.size}"
        if self.checksum:
            algorithm, expected = self.checksum.split(":")
            if (found := digest(path, algorithm)) != expected.lower():
                return f"its {algorithm} is {found}, expected {expected}"
        return None


def download(
    settings: SourceSettings,
    urls: Sequence[str],
    destination: str | Path,
    checksum: str | None = None,
    size: int | None = None,
) -> None:
    """Download one file from the first mirror that has it.

    A file that is there and has the right checksum is left alone, without any network. What has arrived of a download
    that was cut off stays in `<destination>.part`: the next call resumes it if the server still has the same file.

    Args:
        settings: `timeout_s`, how long a server may be silent or nearly so, and `attempts` in a row at one mirror that
            bring nothing new.
        urls: the same file on several mirrors.
        destination: the file.
        checksum: `sha256:` or `md5:` and the digest in hexadecimal.
        size: in bytes.
    """
    target = _Target(Path(destination), checksum, size)
    name = target.path.name
    failures = []
    try:
        if target.path.is_file() and not target.fault(target.path):
            log.info("%s: already there", name)
            return
        target.path.parent.mkdir(parents=True, exist_ok=True)
        with requests.Session() as session:
            for url in urls:
                try:
                    return _from_mirror(session, url, target, settings)
                except _MirrorError as error:
                    failures.append(f"{url}: {error}")
                    log.warning("%s: %s", name, failures[-1])
    except OSError as error:
        raise EquisetError(f"{destination} cannot be written: {error.strerror or error}") from error
    raise EquisetError(f"{name} could not be downloaded. Tried {'; '.join(failures) or 'nothing: there is no mirror'}")


def _from_mirror(session: requests.Session, url: str, target: _Target, settings: SourceSettings) -> None:
    failed, most = 0, target.arrived()
    while True:
        try:
            return _attempt(session, url, target, settings.timeout_s)
        except _AttemptError as error:
            # A long download over a poor line may be cut off many times, as long as every attempt adds to it.
            arrived = target.arrived()
            failed = 1 if arrived >= most + _PROGRESS else failed + 1
            most = max(most, arrived)
            if failed >= settings.attempts:
                raise _MirrorError(f"{error} (attempts: {settings.attempts})") from None
            log.info("%s: %s; trying again", target.path.name, error)
            time.sleep(min(_PAUSE_S * 2 ** (failed - 1), 8.0))


def _attempt(session: requests.Session, url: str, target: _Target, timeout_s: float) -> None:
    """Ask a server once for the file or for the rest of it, and rename it if it is right."""
    validator = target.validator(url)
    offset = target.arrived() if validator else 0
    if target.size is None or offset < target.size:
        offset = _receive(session, url, target, timeout_s, offset, validator)
    if fault := target.fault(target.part):
        with target.part.open("rb") as part:
            page = is_web_page(part.read(512))
        target.discard()
        # The damage may be in what an earlier run left behind, and not in the mirror: that deserves a fresh start.
        raise (_AttemptError if offset else _MirrorError)(_WEB_PAGE if page else f"the file is wrong: {fault}")
    os.replace(target.part, target.path)
    target.discard()
    log.info("%s: complete and checked, %d bytes", target.path.name, target.path.stat().st_size)


def _receive(
    session: requests.Session, url: str, target: _Target, timeout_s: float, offset: int, validator: str | None
) -> int:
    """Write the server's answer into the part; return the position from which it resumed, 0 for a fresh start."""
    # `identity` here and raw bytes below: checksums are those of the file itself, not of its transport.
    headers = {"Accept-Encoding": "identity", "User-Agent": "equiset"}
    if offset:
        headers |= {"Range": f"bytes={offset}-", "If-Range": str(validator)}
    log.info("%s: %s", target.path.name, f"resuming at {offset} bytes from {url}" if offset else f"downloading {url}")
    with closing(_get(session, url, headers, timeout_s)) as response:
        if response.status_code == 200:
            offset, total = 0, response.headers.get("Content-Length", "")
        else:
            resumed = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
            if response.status_code != 206 or not resumed or int(resumed[1]) != offset:
                target.discard()
                raise _AttemptError("the server cannot resume where the download was cut off")
            total = resumed[2]
        chunks = _chunks(response, timeout_s)
        first = next(chunks, b"")
        if offset == 0 and is_web_page(first):
            raise _MirrorError(_WEB_PAGE)
        expected = int(total) if total.isdecimal() else target.size
        if target.size not in (None, expected):
            raise _MirrorError(f"the server announces {total} bytes, expected {target.size}")
        if offset == 0:
            target.discard()
            etag = response.headers.get("ETag", "")
            # A weak ETag does not promise the same bytes, so If-Range does not accept it.
            validator = etag if etag.startswith('"') else response.headers.get("Last-Modified")
            target.version.write_text(json.dumps({"url": url, "validator": validator}), encoding="utf-8")
        arrived = _append(target, chain([first], chunks), offset, expected)
    if expected is not None and arrived < expected:
        raise _AttemptError(f"the connection broke after {arrived} of {expected} bytes")
    return offset


def _append(target: _Target, chunks: Iterable[bytes], arrived: int, expected: int | None) -> int:
    """Append to the part, never beyond its size; return how many bytes it has then."""
    name, logged = target.path.name, time.monotonic()
    progress = tqdm(total=expected, initial=arrived, desc=name, unit="B", unit_scale=True, disable=None)
    with progress, target.part.open("ab") as part:
        for chunk in chunks:
            arrived += len(chunk)
            if arrived > (_LARGEST if expected is None else expected):
                target.discard()
                raise _MirrorError(f"the server sends more than the {expected or _LARGEST} bytes of the file")
            part.write(chunk)
            progress.update(len(chunk))
            if progress.disable and time.monotonic() - logged > _LOG_EVERY_S:  # there is no terminal
                logged = time.monotonic()
                log.info("%s: %d of %s bytes", name, arrived, expected or "an unknown number of")
    return arrived


def _get(session: requests.Session, url: str, headers: dict[str, str], timeout_s: float) -> requests.Response:
    try:
        response = session.get(url, headers=headers, stream=True, timeout=(min(_CONNECT_S, timeout_s), timeout_s))
    except requests.Timeout:
        raise _AttemptError("no answer within the time limit") from None
    except requests.exceptions.SSLError as error:
        raise _MirrorError(f"no secure connection: {_reason(error)}") from None
    except requests.ConnectionError as error:
        raise _AttemptError(_reason(error)) from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
        raise _MirrorError(f"{type(error).__name__}: {error}") from None
    status = response.status_code
    if status in (200, 206, 416):
        return response
    response.close()
    may_pass = status >= 500 or status in (408, 429)
    raise (_AttemptError if may_pass else _MirrorError)(f"the server answered {status} {response.reason}")


def _chunks(response: requests.Response, timeout_s: float) -> Iterator[bytes]:
    """Yield the body as it arrives, unless it stalls."""
    response.raw.enforce_content_length = False  # the caller compares the sizes
    since, arrived = time.monotonic(), 0
    while True:
        try:
            chunk = response.raw.read1(_CHUNK, decode_content=False)
        except (urllib3.exceptions.ReadTimeoutError, TimeoutError):
            raise _AttemptError(f"nothing arrived for {timeout_s:g} s") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _AttemptError(f"the connection broke: {_reason(error)}") from None
        if not chunk:
            return
        yield chunk
        # The socket's own time limit starts again with every byte, so a trickle would never reach it.
        arrived += len(chunk)
        elapsed = time.monotonic() - since
        if elapsed >= timeout_s:
            if arrived < _SLOWEST * elapsed:
                raise _AttemptError(f"only {arrived} bytes arrived in {elapsed:.1f} s")
            since, arrived = time.monotonic(), 0


def is_web_page(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html"))


def _reason(error: Exception) -> str:
    """Return the reason inside the wrappings of requests and urllib3."""
    inner = getattr(error.args[0] if error.args else error, "reason", None) or error
    return re.sub(r"^.*?\((host=[^)]*)\): ", "", str(inner))


def unpack(archive: str | Path, folder: str | Path, wanted: Callable[[str], bool] = lambda name: True) -> None:
    """Unpack the files of a zip file whose names are wanted into a folder, which appears whole or not at all.

    `zipfile` checks each file's CRC and stops at the size that the archive announces. Refused are names that lead out
    of the folder, links, and archives that would grow more than real data do. What macOS adds is left out.
    """
    archive = Path(archive)
    try:
        with zipfile.ZipFile(archive) as opened, atomic_path(folder) as partial:
            entries = [entry for entry in opened.infolist() if _is_safe(entry) and wanted(entry.filename)]
            size, packed = sum(entry.file_size for entry in entries), archive.stat().st_size
            if size > _HIGHEST_RATIO * packed:
                raise zipfile.BadZipFile(f"{packed} bytes would unpack to {size}")
            partial.mkdir()
            for entry in entries:
                if os.path.getsize(opened.extract(entry, partial)) != entry.file_size:
                    raise zipfile.BadZipFile(f"{entry.filename!r} is not {entry.file_size} bytes long, as announced")
    # RuntimeError means that an entry is encrypted.
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise EquisetError(f"{archive} cannot be unpacked: {error}. Delete it and download it again") from None
    log.info("%s: %d files unpacked", archive.name, len(entries))


def _is_safe(entry: zipfile.ZipInfo) -> bool:
    """Say whether an entry is a file; refuse what no data set needs."""
    name = entry.orig_filename  # as in the archive: `zipfile` cuts names at NUL
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or any(character in name for character in "\\:\0"):
        raise zipfile.BadZipFile(f"the name {name[:100]!r} leads out of the folder")
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise zipfile.BadZipFile(f"{name[:100]!r} is a link or a special file")
    return not entry.is_dir() and "__MACOSX" not in path.parts and path.name != ".DS_Store"
