"""Downloads over servers that break off, lie, redirect and give something else."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drumline import datasets
from drumline.datasets.sources import download
from drumline.datasets.sources.download import DownloadError, fetch
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.progress import ProgressBars
from drumline.datasets.sources.resource import Resource

CONTENT = bytes(range(256)) * 4096  # 1 MiB
DIGEST = hashlib.sha256(CONTENT).hexdigest()

Answer = Callable[[http.server.BaseHTTPRequestHandler, int], None]


class Server:
    """A server on the loopback whose paths have answers; it counts requests."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with outer.lock:
                    outer.requests.append((self.path, self.headers.get("Range")))
                    count = sum(1 for path, _ in outer.requests if path == self.path)
                outer.answers[self.path](self, count)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    yield made
    made.close()


def send(
    handler: http.server.BaseHTTPRequestHandler,
    content: bytes = CONTENT,
    *,
    status: int = 200,
    length: int | None = None,
    stop: int | None = None,
    ranges: bool = True,
    etag: str = '"one"',
    pause: float = 0.0,
) -> None:
    """Answer with contents, or the part that is asked for; ``stop``: break off there."""
    start = 0
    wanted = handler.headers.get("Range")
    if wanted and ranges and handler.headers.get("If-Range") in (None, etag):
        start, status = int(wanted.removeprefix("bytes=").rstrip("-")), 206
    handler.send_response(status)
    if status == 206:
        handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    handler.send_header("Content-Length", str(len(content) - start if length is None else length))
    handler.send_header("ETag", etag)
    handler.end_headers()
    part = content[start:] if stop is None else content[start:stop]
    for at in range(0, len(part), 1 << 18):
        handler.wfile.write(part[at : at + (1 << 18)])
        time.sleep(pause)
    handler.close_connection = True


def get(url: str, path: Path, **known: Any) -> bytes:
    fetch(Resource(url, **known), path, ProgressBars(), first_wait=0.001)
    return path.read_bytes()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_a_file_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    server.answers["/a.bin"] = lambda handler, count: send(handler)
    for _ in range(2):
        got = get(server.url + "/a.bin", tmp_path / "a", size=len(CONTENT), sha256=DIGEST)
        assert got == CONTENT
    assert len(server.requests) == 1 and left(tmp_path) == ["a"]


def test_what_breaks_off_is_continued(server: Server, tmp_path: Path) -> None:
    def answer(handler: Any, count: int) -> None:
        send(handler, stop={1: 300_000, 2: 700_000}.get(count))

    server.answers["/a"] = answer
    assert get(server.url + "/a", tmp_path / "a", sha256=DIGEST) == CONTENT
    assert [part for _, part in server.requests] == [None, "bytes=300000-", "bytes=700000-"]


def test_a_later_process_continues(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "_ATTEMPTS", 2)
    server.answers["/a"] = lambda handler, count: send(handler, stop=500_000)
    with pytest.raises(DownloadError, match="broke off after 500,000 of 1,048,576 bytes, 2 times"):
        get(server.url + "/a", tmp_path / "a")
    assert not (tmp_path / "a").exists() and (tmp_path / "a.part").stat().st_size == 500_000
    server.answers["/a"] = lambda handler, count: send(handler)
    assert get(server.url + "/a", tmp_path / "a", sha256=DIGEST) == CONTENT
    assert server.requests[-1][1] == "bytes=500000-"


def test_another_file_is_not_joined_to_the_first_part(server: Server, tmp_path: Path) -> None:
    other = CONTENT[::-1]

    def answer(handler: Any, count: int) -> None:
        if count == 1:
            send(handler, stop=300_000)
        else:
            send(handler, other, etag='"two"')

    server.answers["/a"] = answer
    assert get(server.url + "/a", tmp_path / "a") == other


def test_a_part_of_another_url_is_not_continued(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(b"x" * 1000)
    state = {"url": server.url + "/other", "validator": '"one"'}
    (tmp_path / "a.part.json").write_text(json.dumps(state))
    server.answers["/a"] = lambda handler, count: send(handler)
    assert get(server.url + "/a", tmp_path / "a") == CONTENT
    assert server.requests == [("/a", None)]


def test_another_part_than_was_asked_for_is_not_joined(server: Server, tmp_path: Path) -> None:
    def answer(handler: Any, count: int) -> None:
        if count == 2:  # all of it, as a part that begins with the first byte
            del handler.headers["Range"]
            send(handler, status=206)
        else:
            send(handler, stop=300_000 if count == 1 else None)

    server.answers["/a"] = answer
    assert get(server.url + "/a", tmp_path / "a", sha256=DIGEST) == CONTENT
    assert [part for _, part in server.requests] == [None, "bytes=300000-", None]


def test_fewer_bytes_than_known_of_a_server_that_says_no_length(
    server: Server, tmp_path: Path
) -> None:
    def answer(handler: Any, count: int) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(CONTENT[:-9])
        handler.close_connection = True

    server.answers["/a"] = answer
    with pytest.raises(DownloadError, match="has 1,048,567 bytes, and 1,048,576 are expected"):
        get(server.url + "/a", tmp_path / "a", size=len(CONTENT))
    assert not (tmp_path / "a").exists() and not (tmp_path / "a.part").exists()


def test_a_server_without_ranges_begins_again(server: Server, tmp_path: Path) -> None:
    server.answers["/a"] = lambda handler, count: send(
        handler, ranges=False, stop=300_000 if count == 1 else None
    )
    assert get(server.url + "/a", tmp_path / "a", sha256=DIGEST) == CONTENT


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    def answer(handler: Any, count: int) -> None:
        if count < 3:
            send(handler, b"busy", status=503)
        else:
            send(handler)

    server.answers["/a"] = answer
    assert get(server.url + "/a", tmp_path / "a") == CONTENT


def test_a_server_says_how_long_to_wait(server: Server, tmp_path: Path) -> None:
    waits: list[float | None] = []

    class Clock(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return False

    later = {1: "7", 2: "Thu, 01 Jan 2099 00:00:00 GMT", 3: "soon"}

    def answer(handler: Any, count: int) -> None:
        if count not in later:
            send(handler)
            return
        handler.send_response(429)
        handler.send_header("Retry-After", later[count])
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.answers["/a"] = answer
    wanted = Resource(server.url + "/a")
    fetch(wanted, tmp_path / "a", ProgressBars(), first_wait=1.0, stopped=Clock())
    assert waits == [7.0, 30.0, 4.0]  # at most 30 seconds; then its own, doubled each time


def test_files_are_on_their_way_at_once(server: Server, tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def answer(handler: Any, count: int) -> None:
        together.wait(120)
        send(handler)

    urls = [f"{server.url}/{name}" for name in "abcd"]
    server.answers.update({f"/{name}": answer for name in "abcd"})
    paths = DownloadManager(tmp_path, tmp_path / "manual", "test").download(urls)
    assert [path.read_bytes() == CONTENT for path in paths] == [True] * 4


def test_redirects_are_followed(server: Server, tmp_path: Path) -> None:
    def redirect(handler: Any, count: int) -> None:
        handler.send_response(302)
        handler.send_header("Location", "/b")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.answers["/a"] = redirect
    server.answers["/b"] = lambda handler, count: send(handler)
    assert get(server.url + "/a", tmp_path / "a", sha256=DIGEST) == CONTENT


def test_a_slow_server(server: Server, tmp_path: Path) -> None:
    server.answers["/a"] = lambda handler, count: send(handler, pause=0.05)
    assert get(server.url + "/a", tmp_path / "a", sha256=DIGEST) == CONTENT


@pytest.mark.parametrize(
    ("content", "known", "message"),
    [
        (CONTENT[:-1] + b"x", {"sha256": DIGEST}, "SHA-256 is .* is expected"),
        (CONTENT[:-1], {"size": len(CONTENT)}, "has 1,048,575 bytes, and 1,048,576 are expected"),
        (b"\n<!DOCTYPE html><html>Please log in", {}, "a page of HTML .*Please log in"),
        (b"<html>blocked", {"size": len(CONTENT)}, "a page of HTML .*blocked"),
    ],
)
def test_another_file_is_an_error_and_not_kept(
    server: Server, tmp_path: Path, content: bytes, known: dict[str, Any], message: str
) -> None:
    server.answers["/a.zip"] = lambda handler, count: send(handler, content)
    with pytest.raises(DownloadError, match=message):
        get(server.url + "/a.zip", tmp_path / "a", **known)
    assert not (tmp_path / "a").exists()
    server.answers["/a.zip"] = lambda handler, count: send(handler)
    assert get(server.url + "/a.zip", tmp_path / "a", sha256=DIGEST) == CONTENT


def test_more_bytes_than_promised(server: Server, tmp_path: Path) -> None:
    def answer(handler: Any, count: int) -> None:
        handler.send_response(200)
        handler.end_headers()
        handler.wfile.write(CONTENT + b"more")
        handler.close_connection = True

    server.answers["/a"] = answer
    with pytest.raises(DownloadError, match="sends more than 1,048,576 bytes"):
        get(server.url + "/a", tmp_path / "a", size=len(CONTENT))


@pytest.mark.parametrize(("status", "hint"), [(404, "no such file"), (403, "it refuses")])
def test_a_refusal_is_final(server: Server, tmp_path: Path, status: int, hint: str) -> None:
    server.answers["/a"] = lambda handler, count: send(handler, b"no", status=status)
    with pytest.raises(DownloadError, match=f"answered {status} .*{hint}"):
        get(server.url + "/a", tmp_path / "a")
    assert len(server.requests) == 1


def test_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_ATTEMPTS", 2)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DownloadError, match="connection failed .*, 2 times"):
        get("http://127.0.0.1:9/a", tmp_path / "a")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_named(server: Server, tmp_path: Path) -> None:
    server.answers["/a"] = lambda handler, count: send(handler)
    (tmp_path / "a.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="free space on its disk"):
        get(server.url + "/a", tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_several_files_at_once_and_a_shared_cache(server: Server, tmp_path: Path) -> None:
    for i in range(4):
        content = CONTENT + bytes([i])
        server.answers[f"/{i}.bin"] = lambda handler, count, content=content: send(  # type: ignore[misc]
            handler, content, pause=0.02
        )
    urls = {str(i): f"{server.url}/{i}.bin" for i in range(4)}
    managers = [DownloadManager(tmp_path, tmp_path / "manual", "x") for _ in range(3)]
    found: list[dict[str, Path]] = []
    threads = [
        threading.Thread(target=lambda m=manager: found.append(m.download(urls)))  # type: ignore[misc]
        for manager in managers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and len(server.requests) == 4
    for paths in found:
        assert {key: path.read_bytes()[-1] for key, path in paths.items()} == {
            str(i): i for i in range(4)
        }
    assert managers[0].downloaded_size == 4 * (len(CONTENT) + 1)


def test_a_file_that_was_put_there_is_checked_and_taken(tmp_path: Path) -> None:
    resource = Resource("http://127.0.0.1:9/x/a.bin", len(CONTENT), DIGEST)
    manager = DownloadManager(tmp_path, tmp_path / "manual", "x")
    (tmp_path / "a.bin").write_bytes(CONTENT)
    assert manager.download([resource]) == [tmp_path / "a.bin"]
    (tmp_path / "a.bin").write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(DownloadError, match="its SHA-256 is not that of"):
        manager.download(resource)
    (tmp_path / "a.bin").write_bytes(CONTENT[:-1])
    with pytest.raises(DownloadError, match="has 1,048,575 bytes"):
        manager.download(resource)


def test_files_that_cannot_be_downloaded_are_named(tmp_path: Path) -> None:
    manager = DownloadManager(tmp_path, tmp_path / "manual", "faces", None, "Ask the authors.")
    with pytest.raises(FileNotFoundError, match=r"faces needs .*manual is not there\. Ask the"):
        manager.manual_file("a.tar")
    (tmp_path / "manual").mkdir()
    with pytest.raises(FileNotFoundError, match=r"a\.tar or b\.tar is not in .*Ask the authors"):
        manager.manual_file("a.tar", "b.tar")
    (tmp_path / "manual" / "b.tar").write_bytes(b"")
    assert manager.manual_file("a.tar", "b.tar").name == "b.tar"


def test_files_that_were_put_there_by_hand_are_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = Resource("http://127.0.0.1:9/x/a.tar", len(CONTENT), DIGEST)
    manager = DownloadManager(tmp_path, tmp_path, "x", manual=[resource])
    path = tmp_path / "a.tar"
    hashed: list[int] = []

    def sha256_of(path: Path, advance: Callable[[int], None]) -> str:
        counts: list[int] = []
        digest = download.sha256_of(path, counts.append)
        hashed.append(sum(counts))
        return digest

    monkeypatch.setattr("drumline.datasets.sources.manager.sha256_of", sha256_of)
    path.write_bytes(CONTENT)
    for _ in range(3):
        assert manager.manual_file("a.tar") == path
    assert hashed == [len(CONTENT)]
    (tmp_path / ".a.tar.sha256.json").write_text("{")  # damaged: hashed again
    manager.manual_file("a.tar")
    assert len(hashed) == 2
    path.write_bytes(CONTENT[:-1] + b"x")
    os.utime(path, ns=(1, 1))
    for _ in range(2):
        with pytest.raises(DownloadError, match=r"a\.tar: its SHA-256 is not that of"):
            manager.manual_file("a.tar")
    assert len(hashed) == 3
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(DownloadError, match="has 1,048,575 bytes"):
        manager.manual_file("a.tar")
    (tmp_path / "folder").mkdir()
    assert manager.manual_file("folder").is_dir()


def test_what_has_no_checksum_says_so(tmp_path: Path) -> None:
    known, unknown = (datasets.builder(each, data_dir=tmp_path) for each in ("cifar10", "esc50"))
    assert not any("checksum" in note for note in known.info.notes)
    assert "No checksum is known of ESC-50-master.zip" in unknown.info.notes[-1]
    both = datasets.builder("imagenet2012", data_dir=tmp_path)
    assert [each.size for each in both.MANUAL_RESOURCES.values()] == [  # type: ignore[attr-defined]
        147_897_477_120,
        6_744_924_160,
    ]
    (note,) = (note for note in both.info.notes if "SHA-256" in note)
    compared, taken = note.split(". ")
    for resource in both.MANUAL_RESOURCES.values():  # type: ignore[attr-defined]
        assert resource.filename in compared and resource.filename not in taken
    assert "ILSVRC2012_img_test.tar" in taken and "folders" in taken


def test_what_is_put_there_by_hand_is_said(tmp_path: Path) -> None:
    for name in ("imagenet2012", "criteo_terabyte", "kinetics", "wmt16_translate/cs-en"):
        info = datasets.builder(name, data_dir=tmp_path).info
        notes = " ".join(info.notes)
        assert "cannot be downloaded" in notes and "manual_dir" in notes, name
        assert "taken as" in notes and "checksum" in notes, name
    for name in ("cifar10", "c4", "wmt16_translate/de-en"):
        info = datasets.builder(name, data_dir=tmp_path).info
        assert not any("cannot be downloaded" in note for note in info.notes), name


def test_other_schemes_are_refused() -> None:
    with pytest.raises(ValueError, match="begins with http"):
        Resource("file:///etc/passwd")
    assert Resource("http://a/../x y?z=1").filename == "x_y"
    assert Resource("http://a/").filename == "file"
