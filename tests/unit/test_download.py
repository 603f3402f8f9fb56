"""Downloads: resumed where they were cut off, checked before they get their name, and every failure in one line."""

import hashlib
import json
import socket
from pathlib import Path

import numpy as np
import pytest

from equiset.data import download as module
from equiset.data.mnist import MnistSettings
from equiset.errors import EquisetError

CONTENT = np.random.default_rng(0).bytes(300_000)
CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


def get(urls: str | list[str], target: Path, checksum=CHECKSUM, size=None, timeout_s=5.0, attempts=3) -> None:
    settings = MnistSettings(timeout_s=timeout_s, attempts=attempts)
    module.download(settings, [urls] if isinstance(urls, str) else urls, target, checksum, size)


def left_behind(target: Path) -> set[str]:
    return {path.name for path in target.parent.iterdir()}


def begin(target: Path, url: str, content: bytes) -> None:
    """Leave behind what a download that was cut off leaves."""
    target.parent.mkdir()
    target.with_name("data.bin.part").write_bytes(content)
    target.with_name("data.bin.part.json").write_text(json.dumps({"url": url, "validator": '"v1"'}))


# Downloads that succeed, some of them in spite of the server


def test_whole_file(web, target):
    web.answers["/a"] = [web.body(CONTENT)]
    get(web.url("/a"), target, size=len(CONTENT))
    assert target.read_bytes() == CONTENT
    assert left_behind(target) == {"data.bin"}


SPITE = {
    "redirected": lambda web: {"/a": [web.status(302, Location="/b")], "/b": [web.body(CONTENT)]},
    "other content, then another mirror": lambda web: {"/a": [web.body(CONTENT[::-1])], "/b": [web.body(CONTENT)]},
    "cut off, and another mirror": lambda web: {"/a": [web.body(CONTENT[::-1], stop=1000)], "/b": [web.body(CONTENT)]},
    "continued from the wrong place": lambda web: {
        "/a": [
            web.body(CONTENT, stop=1000),
            web.status(206, **{"Content-Range": "bytes 0-299999/300000"}),
            web.body(CONTENT),
        ]
    },
    "cannot be continued": lambda web: {"/a": [web.body(CONTENT, stop=1000), web.status(416), web.body(CONTENT)]},
}


@pytest.mark.parametrize("server", SPITE)
def test_it_arrives_in_spite_of_the_server(web, target, server):
    web.answers = SPITE[server](web)
    target.parent.mkdir()
    target.write_bytes(b"damaged")
    get([web.url("/a"), web.url("/b")], target, attempts=1 if "mirror" in server else 3)
    assert target.read_bytes() == CONTENT


def test_second_call_needs_no_network(web, target):
    web.answers["/a"] = [web.body(CONTENT)]
    get(web.url("/a"), target)
    get("http://127.0.0.1:1/nowhere", target)
    get("http://127.0.0.1:1/nowhere", target, checksum=f"md5:{hashlib.md5(CONTENT).hexdigest()}")
    assert len(web.requests) == 1


def test_next_mirror_after_404(web, target):
    web.answers["/b"] = [web.body(CONTENT)]
    get([web.url("/a"), web.url("/b")], target)
    assert target.read_bytes() == CONTENT
    assert [path for path, _ in web.requests] == ["/a", "/b"]  # a 404 is not asked again


def test_5xx_is_asked_again(web, target):
    web.answers["/a"] = [web.status(500), web.status(503), web.body(CONTENT)]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT
    assert len(web.requests) == 3


def test_5xx_gives_up_after_the_attempts(web, target):
    web.answers["/a"] = [web.status(500)]
    with pytest.raises(EquisetError, match=r"answered 500 .*attempts: 3"):
        get(web.url("/a"), target)
    assert len(web.requests) == 3
    assert left_behind(target) == set()


def test_cut_off_is_resumed(web, target):
    web.answers["/a"] = [web.body(CONTENT, stop=100_000), web.body(CONTENT)]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT
    asked = web.requests[1][1]
    assert asked["Range"] == "bytes=100000-"
    assert asked["If-Range"] == '"v1"'
    assert web.sent == [100_000, 200_000]


def test_cut_off_is_resumed_by_a_later_call(web, target):
    web.answers["/a"] = [web.body(CONTENT, stop=100_000), web.body(CONTENT)]
    with pytest.raises(EquisetError, match="broke after 100000 of 300000 bytes"):
        get(web.url("/a"), target, attempts=1)
    assert left_behind(target) == {"data.bin.part", "data.bin.part.json"}
    get(web.url("/a"), target, attempts=1)
    assert target.read_bytes() == CONTENT
    assert web.sent == [100_000, 200_000]


def test_part_that_is_whole_needs_no_network(web, target):
    begin(target, web.url("/a"), CONTENT)
    get(web.url("/a"), target, size=len(CONTENT))
    assert target.read_bytes() == CONTENT
    assert web.requests == []


def test_damaged_part_is_dropped_and_the_same_mirror_asked_again(web, target):
    begin(target, web.url("/a"), b"x" * 1000)
    web.answers["/a"] = [web.body(CONTENT)]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT
    assert web.sent == [299_000, 300_000]


def test_server_without_ranges_starts_again(web, target):
    web.answers["/a"] = [web.body(CONTENT, stop=100_000), web.body(CONTENT, etag='"v2"')]
    get(web.url("/a"), target)  # the second answer is a 200 with the whole file
    assert target.read_bytes() == CONTENT
    assert web.sent == [100_000, 300_000]


def test_file_without_a_version_starts_again(web, target):
    web.answers["/a"] = [web.body(CONTENT, stop=100_000, etag=None), web.body(CONTENT, etag=None)]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT
    assert "Range" not in web.requests[1][1]


def test_progress_makes_attempts_count_anew(web, target, monkeypatch):
    monkeypatch.setattr(module, "_PROGRESS", 50_000)
    web.answers["/a"] = [web.body(CONTENT, stop=stop) for stop in (60_000, 120_000, 180_000, 240_000, None)]
    get(web.url("/a"), target, attempts=2)
    assert target.read_bytes() == CONTENT


def test_no_progress_ends(web, target, monkeypatch):
    monkeypatch.setattr(module, "_PROGRESS", 50_000)
    web.answers["/a"] = [web.body(CONTENT, stop=60_000, etag=None)]  # starts from 0 each time
    with pytest.raises(EquisetError, match="broke after 60000"):
        get(web.url("/a"), target, attempts=2)
    assert len(web.requests) == 2


def test_no_announcement_at_all(web, target):
    web.answers["/a"] = [web.body(CONTENT, announce=None, stop=5000), web.body(CONTENT, announce=None)]
    get(web.url("/a"), target, size=len(CONTENT))
    assert target.read_bytes() == CONTENT


def test_chunked_body_that_breaks(web, target):
    def chunked(blocks: int):
        def answer(handler) -> None:
            handler.protocol_version = "HTTP/1.1"
            handler.close_connection = True
            handler.send_response(200)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            for i in range(blocks):
                handler.wfile.write(b"186a0\r\n" + CONTENT[i * 100_000 : (i + 1) * 100_000] + b"\r\n")
            if blocks == 3:
                handler.wfile.write(b"0\r\n\r\n")

        return answer

    web.answers["/a"] = [chunked(2), chunked(3)]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT


def test_transport_encoding_is_not_undone(web, target):
    def answer(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")  # what some servers say of any file named .gz
        handler.end_headers()
        handler.wfile.write(CONTENT)

    web.answers["/a"] = [answer]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT


def test_without_checksums_the_size_decides(web, target):
    web.answers["/a"] = [web.body(CONTENT, stop=7), web.body(CONTENT)]
    get(web.url("/a"), target, checksum=None)
    assert target.read_bytes() == CONTENT


# Downloads that fail: one line, no final file, and nothing left but what can be resumed


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
    with pytest.raises(EquisetError, match="Exceeded 30 redirects"):
        get(web.url("/a"), target)
    assert len(web.requests) <= 31


@pytest.mark.parametrize("announce", [100, 10**15])
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
    with pytest.raises(EquisetError, match="there is no mirror"):
        get([], target)


def test_folder_that_cannot_be_made(web, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EquisetError, match="cannot be written"):
        get(web.url("/a"), tmp_path / "file" / "data.bin")
