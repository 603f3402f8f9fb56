"""Downloads that fail: with the reason in one line, no final file, and nothing left but what can be resumed."""

import socket

import pytest

from equiset.errors import EquisetError

from .downloading import CONTENT, get, left_behind


def test_wrong_content_goes_to_the_next_mirror(web, target):
    web.answers = {"/a": [web.body(CONTENT[::-1])], "/b": [web.body(CONTENT)]}
    assert get([web.url("/a"), web.url("/b")], target) == web.url("/b")
    assert target.read_bytes() == CONTENT


def test_wrong_content_everywhere(web, target):
    web.answers["/a"] = [web.body(CONTENT[::-1])]
    with pytest.raises(EquisetError, match=r"data\.bin could not be downloaded.*/a: .*sha256 is .*expected"):
        get(web.url("/a"), target)
    assert left_behind(target) == set()
    assert len(web.requests) == 1


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_web_page_in_place_of_the_file(web, target, size):
    web.answers["/a"] = [web.body(b"\n<!DOCTYPE html><html><body>Quota exceeded</body></html>")]
    with pytest.raises(EquisetError, match="web page, perhaps a quota or login page"):
        get(web.url("/a"), target, size=size)
    assert left_behind(target) == set()


def test_redirect_loop(web, target):
    web.answers["/a"] = [web.status(302, Location="/a")]
    with pytest.raises(EquisetError, match="more than 5 redirects"):
        get(web.url("/a"), target)
    assert len(web.requests) <= 7


@pytest.mark.parametrize("announce", [100, len(CONTENT) + 1, 10**15])
def test_announcement_that_contradicts_the_known_size(web, target, announce):
    web.answers["/a"] = [web.body(CONTENT, announce=announce)]
    with pytest.raises(EquisetError, match=f"announces {announce} bytes, expected {len(CONTENT)}"):
        get(web.url("/a"), target, size=len(CONTENT))
    assert left_behind(target) == set()


def test_announcement_too_long_for_an_unknown_size(web, target):
    web.answers["/a"] = [web.body(CONTENT, announce=len(CONTENT) + 5, etag=None)]
    with pytest.raises(EquisetError, match="broke after 300000 of 300005 bytes"):
        get(web.url("/a"), target)
    assert not target.exists()


def test_announcement_too_short_for_an_unknown_size(web, target):
    web.answers["/a"] = [web.body(CONTENT, announce=1000)]
    with pytest.raises(EquisetError, match="not the right one"):
        get(web.url("/a"), target)
    assert left_behind(target) == set()


def test_more_bytes_than_the_known_size(web, target):
    web.answers["/a"] = [web.body(CONTENT + b"x" * 10_000_000, announce=None)]
    with pytest.raises(EquisetError, match="more than the 300000 bytes"):
        get(web.url("/a"), target, size=len(CONTENT))
    assert left_behind(target) == set()


def test_silent_server(web, target):
    web.answers["/a"] = [lambda handler: web.released.wait(10)]
    with pytest.raises(EquisetError, match="no answer within the time limit"):
        get(web.url("/a"), target, timeout_s=0.2, attempts=2)
    assert len(web.requests) == 2
    assert left_behind(target) == set()


def test_server_that_falls_silent(web, target):
    def answer(handler) -> None:
        web.body(CONTENT, stop=1000)(handler)
        handler.wfile.flush()
        web.released.wait(10)

    web.answers["/a"] = [answer]
    with pytest.raises(EquisetError, match=r"nothing arrived for 0\.2 s"):
        get(web.url("/a"), target, timeout_s=0.2, attempts=1)
    assert left_behind(target) == {"data.bin.part", "data.bin.part.json"}


def test_trickle(web, target):
    def answer(handler) -> None:
        web.body(CONTENT, stop=0)(handler)
        for _ in range(100):
            handler.wfile.write(b"x")
            if web.released.wait(0.05):
                break

    web.answers["/a"] = [answer]
    with pytest.raises(EquisetError, match=r"only \d+ bytes arrived in"):
        get(web.url("/a"), target, timeout_s=0.3, attempts=1)


def test_nobody_listens(web, target):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(EquisetError, match="refused"):
        get(f"http://127.0.0.1:{port}/a", target)
    assert left_behind(target) == set()


def test_unknown_host(web, target, monkeypatch):
    def no_name(*_args, **_options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_name)
    with pytest.raises(EquisetError, match=r"Tried http://mirror\.invalid/a: .*mirror\.invalid.*not known"):
        get("http://mirror.invalid/a", target)


@pytest.mark.parametrize("url", ["no-scheme/a", "ftp://127.0.0.1/a", "http://", "http://[broken/a"])
def test_address_that_is_none(web, target, url):
    with pytest.raises(EquisetError, match="could not be downloaded"):
        get(url, target)


def test_every_failure_is_listed_in_one_line(web, target):
    web.answers["/b"] = [web.body(b"<html>login</html>")]
    with pytest.raises(EquisetError) as caught:
        get([web.url("/a"), web.url("/b")], target)
    message = str(caught.value)
    assert "\n" not in message
    assert f"{web.url('/a')}: the server answered 404" in message
    assert f"{web.url('/b')}: the server sent a web page" in message


def test_no_mirror(web, target):
    with pytest.raises(EquisetError, match="no address is given"):
        get([], target)


def test_folder_that_cannot_be_made(web, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EquisetError, match="cannot be written"):
        get(web.url("/a"), tmp_path / "file" / "data.bin")
