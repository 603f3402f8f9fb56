"""Addresses of tracking servers may hold passwords. They never reach a command line, a log or a file of results.

Jobs get the address without its secrets, which is what Snakemake prints and keeps; the whole one is in their
environment.
"""

import logging
import os
import sys
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from equiset.errors import EquisetError

VARIABLE = "MLFLOW_TRACKING_URI"
_MASK = "***"


def without_secrets(uri: str) -> str:
    """Return an address with user, password and the values of its query masked: `http://***@host/?token=***`."""
    parts = _split(uri)
    address = parts.netloc.rpartition("@")
    netloc = f"{_MASK}@{address[2]}" if address[1] else parts.netloc
    query = urlencode({key: _MASK for key, _ in parse_qsl(parts.query, keep_blank_values=True)}, safe="*")
    if (netloc, query) == (parts.netloc, parts.query):
        return uri
    # Put together by hand: `sqlite:///file` would lose slashes.
    return uri.replace(parts.netloc, netloc, 1).partition("?")[0] + (f"?{query}" if query else "")


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError as error:
        # Without the address, whose secrets cannot be told from the rest.
        raise EquisetError(f"the tracking address is not valid ({error}): correct tracking.uri or {VARIABLE}") from None


def with_secrets(uri: str) -> str:
    """Return the whole address that stands in the environment, if `uri` is what is left of it without its secrets."""
    whole = os.environ.get(VARIABLE, "")
    return whole if whole and without_secrets(whole) == uri else uri


def scrub(text: str, uri: str) -> str:
    """Return a text in which no secret of an address is left."""
    parts = _split(uri)
    user = parts.netloc.rpartition("@")[0]
    secrets = {user, *user.split(":"), *(value for _, value in parse_qsl(parts.query))}
    secrets |= {unquote(secret) for secret in secrets}
    text = text.replace(uri, without_secrets(uri))
    for secret in sorted(secrets - {""}, key=len, reverse=True):
        text = text.replace(secret, _MASK)
    return text


class _Scrubbed:
    """A stream through which no secret of an address passes."""

    def __init__(self, stream: Any, uri: str):
        self._stream, self._uri = stream, uri

    def write(self, text: str) -> int:
        return self._stream.write(scrub(text, self._uri))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def keep_secrets_of(uri: str) -> None:
    """Let nothing that this process prints from now on, tracebacks included, show a secret of an address."""
    if without_secrets(uri) == uri:
        return
    sys.stdout, sys.stderr = _Scrubbed(sys.stdout, uri), _Scrubbed(sys.stderr, uri)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(_Scrubbed(handler.stream, uri))
