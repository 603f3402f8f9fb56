"""Downloads that succeed, some of them in spite of the server. Those that fail are in test_download_faults.py."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from equiset.data import download as module
from equiset.data.partial import Partial
from equiset.errors import EquisetError

from .downloading import CHECKSUMS, CONTENT, get, left_behind


def test_whole_file(web, target):
    web.answers["/a"] = [web.body(CONTENT)]
    assert get(web.url("/a"), target, size=len(CONTENT)) == web.url("/a")
    assert target.read_bytes() == CONTENT
    assert left_behind(target) == {"data.bin", "data.bin.origin"}


def test_second_call_needs_no_network(web, target):
    web.answers["/a"] = [web.body(CONTENT)]
    get(web.url("/a"), target)
    assert get("http://127.0.0.1:1/nowhere", target) == web.url("/a")
    assert len(web.requests) == 1


def test_damaged_file_is_replaced(web, target):
    target.parent.mkdir()
    target.write_bytes(b"damaged")
    web.answers["/a"] = [web.body(CONTENT)]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT


def test_next_mirror_after_404(web, target):
    web.answers["/b"] = [web.body(CONTENT)]
    assert get([web.url("/a"), web.url("/b")], target) == web.url("/b")
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
    target.parent.mkdir()
    partial = Partial(target, CHECKSUMS, len(CONTENT))
    partial.begin(web.url("/a"), '"v1"')
    partial.part.write_bytes(CONTENT)
    get(web.url("/a"), target, size=len(CONTENT))
    assert target.read_bytes() == CONTENT
    assert web.requests == []


def test_damaged_part_is_dropped_and_the_same_mirror_asked_again(web, target):
    target.parent.mkdir()
    partial = Partial(target, CHECKSUMS, None)
    partial.begin(web.url("/a"), '"v1"')
    partial.part.write_bytes(b"x" * 1000)
    web.answers["/a"] = [web.body(CONTENT)]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT
    assert web.sent == [299_000, 300_000]


def test_part_that_the_server_cannot_continue_is_dropped(web, target):
    target.parent.mkdir()
    partial = Partial(target, CHECKSUMS, None)
    partial.begin(web.url("/a"), '"v1"')
    partial.part.write_bytes(CONTENT + b"more")
    web.answers["/a"] = [web.status(416), web.body(CONTENT)]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT


def test_answer_from_the_wrong_place_is_not_appended(web, target):
    web.answers["/a"] = [
        web.body(CONTENT, stop=1000),
        web.status(206, **{"Content-Range": "bytes 0-299999/300000"}),
        web.body(CONTENT),
    ]
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT


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


def test_part_of_one_mirror_is_not_continued_by_another(web, target):
    web.answers = {"/a": [web.body(CONTENT[::-1], stop=100_000)], "/b": [web.body(CONTENT)]}
    assert get([web.url("/a"), web.url("/b")], target, attempts=1) == web.url("/b")
    assert target.read_bytes() == CONTENT


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


def test_redirect_is_followed(web, target):
    web.answers = {"/a": [web.status(302, Location="/b")], "/b": [web.body(CONTENT)]}
    get(web.url("/a"), target)
    assert target.read_bytes() == CONTENT


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
    get(web.url("/a"), target, checksums={})
    assert target.read_bytes() == CONTENT


def test_two_downloads_at_once(web, target):
    web.answers["/a"] = [web.body(CONTENT)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: get(web.url("/a"), target), range(4))) == [web.url("/a")] * 4
    assert target.read_bytes() == CONTENT
    assert len(web.requests) == 1
