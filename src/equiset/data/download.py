"""One file from a list of mirrors: resumed when cut off, bounded in size, checked before it gets its name."""

import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import requests
import urllib3
from tqdm import tqdm

from equiset.data.partial import Partial, origin_of
from equiset.data.source import SourceSettings
from equiset.errors import EquisetError

log = logging.getLogger(__name__)

_CONNECT_S = 10.0
_CHUNK = 2**18
_LARGEST = 2**36  # bytes of a file of which neither the caller nor the server says the size
_SLOWEST = 1000  # bytes a second; a connection that brings fewer has stalled
_PROGRESS = 2**20  # an attempt that brings this much more does not count as failed
_REDIRECTS = 5
_PAUSE_S = 0.5  # after the first failure; it doubles with every further one
_LOG_EVERY_S = 30.0
_WEB_PAGE = "the server sent a web page, perhaps a quota or login page, in place of the file"


class _RefusedError(Exception):
    """This mirror will not give the file, however often it is asked."""


class _InterruptedError(Exception):
    """This attempt failed; another one may succeed."""


@dataclass(frozen=True)
class _Job:
    name: str
    file: Partial
    timeout_s: float
    attempts: int


def limits(settings: SourceSettings) -> dict[str, Any]:
    """Return how long and how often `download` is to try, as a data set's settings say."""
    return {"timeout_s": settings.timeout_s, "attempts": settings.attempts}


def download(
    name: str,
    urls: Sequence[str],
    destination: str | Path,
    *,
    checksums: Mapping[str, str],
    size: int | None = None,
    timeout_s: float = 30.0,
    attempts: int = 3,
) -> str:
    """Bring one file to `destination` from the first mirror that gives it, and return the address it came from.

    A file that is there and has the right checksums is left alone, without any network. `checksums` maps names of
    hashlib's algorithms to hexadecimal digests. `timeout_s` is how long a server may be silent, or slower than a
    trickle; `attempts` is how often in a row one mirror may fail without bringing anything new. What has arrived
    stays in `<destination>.part`: the next call goes on from there if the server still has the same file.
    """
    destination = Path(destination)
    job = _Job(name, Partial(destination, dict(checksums), size), timeout_s, attempts)
    try:
        # Looked for twice: a cache without write permission has no lock, and a lock may have meant waiting.
        if _is_there(job):
            return origin_of(destination)
        with job.file.locked():
            return origin_of(destination) if _is_there(job) else _from_any(urls, job)
    except OSError as error:
        raise EquisetError(f"{destination} cannot be written: {error.strerror or error}") from error


def _is_there(job: _Job) -> bool:
    path = job.file.destination
    there = path.is_file() and job.file.fault(path) is None
    if there:
        log.info("%s: already there", job.name)
    return there


def _from_any(urls: Sequence[str], job: _Job) -> str:
    failures = []
    with requests.Session() as session:
        session.max_redirects = _REDIRECTS
        for url in urls:
            try:
                _from_mirror(session, url, job)
            except _RefusedError as reason:
                failures.append(f"{url}: {reason}")
                if len(failures) < len(urls):  # the last one is in the error itself
                    log.warning("%s: %s: %s; trying the next mirror", job.name, url, reason)
            else:
                return url
    tried = "; ".join(failures) or "nothing: no address is given"
    raise EquisetError(f"{job.name} could not be downloaded. Tried {tried}")


def _from_mirror(session: requests.Session, url: str, job: _Job) -> None:
    failed, most = 0, job.file.arrived()
    while True:
        try:
            return _attempt(session, url, job)
        except _InterruptedError as reason:
            # A long download over a poor line may be cut many times, as long as every attempt adds to it.
            arrived = job.file.arrived()
            failed = 1 if arrived >= most + _PROGRESS else failed + 1
            most = max(most, arrived)
            if failed >= job.attempts:
                raise _RefusedError(f"{reason} (attempts: {job.attempts})") from None
            log.info("%s: %s; trying again", job.name, reason)
            time.sleep(min(_PAUSE_S * 2 ** (failed - 1), 8.0))


def _attempt(session: requests.Session, url: str, job: _Job) -> None:
    """Ask a server once for the file, or for the rest of it, and give it its name if it is right."""
    file = job.file
    validator = file.validator(url)
    offset = file.arrived() if validator else 0
    if file.size is None or offset < file.size:
        offset = _transfer(session, url, job, offset, validator)
    if fault := file.fault(file.part):
        with file.part.open("rb") as part:
            page = _is_web_page(part.read(512))
        file.drop()
        # What another run left behind may be what is damaged, and not the mirror: that deserves a fresh start.
        kind = _InterruptedError if offset else _RefusedError
        raise kind(_WEB_PAGE if page else f"the file is not the right one: {fault}")
    file.finish(url)
    log.info("%s: complete and checked, %d bytes", job.name, file.destination.stat().st_size)


def _transfer(session: requests.Session, url: str, job: _Job, offset: int, validator: str | None) -> int:
    """Receive the body into the part; return the position from which it was resumed, 0 for a fresh start."""
    # `identity` here and raw bytes below: checksums are those of the file itself, not of its transport.
    headers = {"Accept-Encoding": "identity", "User-Agent": "equiset"}
    if offset and validator:
        headers |= {"Range": f"bytes={offset}-", "If-Range": validator}
    log.info("%s: %s", job.name, f"resuming at {offset} bytes from {url}" if offset else f"downloading {url}")
    size = job.file.size
    with _ask(session, url, headers, job.timeout_s) as response:
        if response.status_code == 200:
            offset, total = 0, _number(response.headers.get("Content-Length"))
        else:
            total = _resumed_total(response, offset, job)
        chunks = _chunks(response, job.timeout_s)
        first = next(chunks, b"")
        if offset == 0 and _is_web_page(first):
            raise _RefusedError(_WEB_PAGE)
        if None not in (size, total) and total != size:
            raise _RefusedError(f"the server announces {total} bytes, expected {size}")
        total = size if total is None else total
        if offset == 0:
            etag = response.headers.get("ETag", "")
            # A weak ETag does not promise the same bytes, so If-Range does not take it.
            job.file.begin(url, etag if etag.startswith('"') else response.headers.get("Last-Modified"))
        arrived = _store(job, chain([first], chunks), offset, total)
    if total is not None and arrived < total:
        raise _InterruptedError(f"the connection broke after {arrived} of {total} bytes")
    return offset


def _store(job: _Job, chunks: Iterable[bytes], offset: int, total: int | None) -> int:
    """Append the chunks to the part, never beyond its size; return its length."""
    length, logged = offset, time.monotonic()
    bar = tqdm(total=total, initial=offset, desc=job.name, unit="B", unit_scale=True, disable=None)
    with bar, job.file.part.open("ab") as file:
        for chunk in chunks:
            length += len(chunk)
            if length > (_LARGEST if total is None else total):
                job.file.drop()
                raise _RefusedError(f"the server sends more than the {total or _LARGEST} bytes that the file may have")
            file.write(chunk)
            bar.update(len(chunk))
            if bar.disable and time.monotonic() - logged > _LOG_EVERY_S:
                logged = time.monotonic()
                log.info("%s: %d of %s bytes", job.name, length, total or "an unknown number of")
    return length


def _ask(session: requests.Session, url: str, headers: dict[str, str], timeout_s: float) -> requests.Response:
    try:
        response = session.get(url, headers=headers, stream=True, timeout=(min(_CONNECT_S, timeout_s), timeout_s))
    except requests.exceptions.TooManyRedirects:
        raise _RefusedError(f"more than {_REDIRECTS} redirects") from None
    except requests.exceptions.SSLError as error:
        raise _RefusedError(f"no secure connection: {_plain(error)}") from None
    except requests.Timeout:
        raise _InterruptedError("no answer within the time limit") from None
    except requests.ConnectionError as error:
        raise _InterruptedError(_plain(error)) from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
        raise _RefusedError(f"{type(error).__name__}: {error}") from None
    status = response.status_code
    if status in (200, 206, 416):
        return response
    response.close()
    kind = _InterruptedError if status >= 500 or status in (408, 429) else _RefusedError
    raise kind(f"the server answered {status} {response.reason}")


def _resumed_total(response: requests.Response, offset: int, job: _Job) -> int | None:
    """Check that a partial answer goes on where the part ends; return the size of the whole file if it is given."""
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if response.status_code != 206 or not found or int(found[1]) != offset:
        job.file.drop()
        raise _InterruptedError("the server cannot resume where the download was cut off")
    return _number(found[2])


def _chunks(response: requests.Response, timeout_s: float) -> Iterator[bytes]:
    """Yield the body as it arrives, unless it comes to a halt."""
    response.raw.enforce_content_length = False  # the caller compares the sizes, and says it in plain words
    since, arrived = time.monotonic(), 0
    while True:
        try:
            chunk = response.raw.read1(_CHUNK, decode_content=False)
        except (urllib3.exceptions.ReadTimeoutError, TimeoutError):
            raise _InterruptedError(f"nothing arrived for {timeout_s:g} s") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _InterruptedError(f"the connection broke: {_plain(error)}") from None
        if not chunk:
            return
        yield chunk
        # The socket's own time limit starts anew with every byte, so a trickle would never reach it.
        arrived += len(chunk)
        elapsed = time.monotonic() - since
        if elapsed >= timeout_s:
            if arrived < _SLOWEST * elapsed:
                raise _InterruptedError(f"only {arrived} bytes arrived in {elapsed:.1f} s")
            since, arrived = time.monotonic(), 0


def _is_web_page(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html"))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def _plain(error: Exception) -> str:
    """Return the reason inside the wrappings of requests and urllib3."""
    inner = getattr(error.args[0] if error.args else error, "reason", None) or error
    return re.sub(r"^.*?\((host=[^)]*)\): ", "", str(inner))
