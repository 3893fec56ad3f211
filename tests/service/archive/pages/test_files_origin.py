"""Files that a browser would render, at an address of their own where nothing else is (note 32, threat T14)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from ibi.errors import IbiError, SetupError
from support.archive.archive_fixture import (
    GONE,
    REP,
    SERVICE,
    Answer,
    Served,
    fill,
    listener,
    make_archive,
    serving,
    settings_for,
)

FILES = "files.archive.example"
BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"
MANY, CLOSED, LICENSED, LONG = (f"a.example/b/2020/01.01.00.0{number}" for number in range(4))
RENDERED = {
    "a.html": b"<p>x</p>",
    "a.xhtml": b"<html xmlns='http://www.w3.org/1999/xhtml'/>",
    "a.svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "a.xml": b"<a/>",
    "a.js": b"alert(1)",
    "a.mht": b"MIME-Version: 1.0",
    "page": b"<!DOCTYPE html><p>x</p>",
    "a.pdf": b"%PDF-1.4",
    "thesis": b"%PDF-1.4",
}
SHOWN_AS_THEY_ARE = {
    "a.txt": b"<script>x</script>",
    "a.csv": b"a,b",
    "a.css": b"p {}",
    "a.png": b"\x89PNG\r\n\x1a\n",
    "a.zip": b"PK\x03\x04",
    "a.mp4": b"\x00\x00\x00\x20ftyp",
    "data": b"\x00\x01",
}


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An Archive whose files have an address of their own."""
    made = listener()
    address = f"127.0.0.1:{made.getsockname()[1]}"
    more: dict[str, object] = {"files_address": FILES, "networks": ("192.0.2.0/24",)}
    more["trusted_proxies"] = ("127.0.0.0/8",)
    archive = make_archive(tmp_path_factory.mktemp("apart") / "archive", address, more)
    fill(archive)
    files = {**RENDERED, **SHOWN_AS_THEY_ARE}
    for name, body in files.items():
        (archive.data / name).write_bytes(body)
    report = archive.load(
        {"rep": MANY, "files": {name: name for name in files}, "target": "a.html"},
        {"rep": CLOSED, "files": {"a.html": "a.html"}, "access": "closed"},
        {"rep": LICENSED, "files": {"a.html": "a.html"}, "access": "restricted"},
        {"rep": LONG, "files": {"a.html": "a.html"}, "metadata": {"description": ["x" * 70_000]}},
        file="more.jsonl",
    )
    assert (report.added, archive.refused) == (4, [])
    with serving(archive, made) as served:
        yield served


def at_files(served: Served, target: str, method: str = "GET", **headers: str) -> Answer:
    """Ask for a target at the address of the files."""
    return served.get(target, method, host=FILES, **headers)


@pytest.mark.parametrize("name", RENDERED)
def test_what_a_browser_would_render_is_not_served_at_the_archives_address(apart: Served, name: str) -> None:
    target = f"/col/{MANY}/doc/{name}?x=1"
    tag = at_files(apart, target).headers["etag"]
    for method, more in (("GET", {}), ("HEAD", {}), ("GET", {"if_none_match": tag, "range": "bytes=0-0"})):
        answer = apart.get(target, method, **more)
        assert (answer.status, answer.headers["location"], answer.body) == (302, f"//{FILES}{target}", b"")
        assert answer.headers["cache-control"] == "private, no-store"
    there = at_files(apart, target)
    assert (there.status, there.body) == (200, RENDERED[name])
    assert at_files(apart, target, if_none_match=tag).status == 304
    part = at_files(apart, target, range="bytes=1-2")
    assert (part.status, part.body) == (206, RENDERED[name][1:3])


@pytest.mark.parametrize("name", SHOWN_AS_THEY_ARE)
def test_what_runs_nothing_is_served_at_both(apart: Served, name: str) -> None:
    target = f"/col/{MANY}/doc/{name}"
    answers = [apart.get(target), at_files(apart, target)]
    assert [(each.status, each.body) for each in answers] == [(200, SHOWN_AS_THEY_ARE[name])] * 2
    assert {each.headers.get("content-security-policy") for each in answers} == {None}


def test_scripts_may_run_there_and_read_nothing(apart: Served) -> None:
    names = [name for name in RENDERED if not RENDERED[name].startswith(b"%PDF")]
    for name in names:
        policy = at_files(apart, f"/col/{MANY}/doc/{name}").headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts ")
        assert "allow-same-origin" not in policy
    # The viewers of browsers do not open a document that is in a sandbox.
    assert "content-security-policy" not in at_files(apart, f"/col/{MANY}/doc/a.pdf").headers


@pytest.mark.parametrize("host", [FILES.upper(), f"{FILES}:8443", f"{FILES}."])
def test_the_address_of_the_files_is_known_by_its_host(apart: Served, host: str) -> None:
    assert apart.get(f"/col/{MANY}/doc/a.html", host=host).status == 200
    assert apart.get("/", host=host).status == 404


@pytest.mark.parametrize(
    "path",
    ["/", f"/{MANY}", f"/{MANY}:", f"/-/item/{MANY}", f"/-/metadata/{MANY}", f"/-/files/{MANY}", f"/-/zip/{MANY}",
     "/-/about", "/-/oai?verb=Identify", "/robots.txt", "/.well-known/api-catalog", "/-/admin", "/-/api/items",
     f"/{SERVICE.rep}", f"/{SERVICE.rep}?servicesubject=confirmationRequest"],
)  # fmt: skip
def test_nothing_but_files_is_there(apart: Served, path: str) -> None:
    for accept in (BROWSER, "*/*"):
        answer = at_files(apart, path, accept=accept, cookie="session=x")
        assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")
        assert answer.text == "there is nothing but files at this address\n"
        assert "set-cookie" not in answer.headers
    assert at_files(apart, path, "POST", accept=BROWSER).status == 405


def test_refusals_there_are_no_pages(apart: Served) -> None:
    expected = {f"/col/{MANY}/doc/b.html": 404, f"/col/{GONE}/doc/a.html": 410, f"/col/{CLOSED}/doc/a.html": 403,
                "/col/nothing": 400}  # fmt: skip
    for path, status in expected.items():
        answer = at_files(apart, path, accept=BROWSER)
        assert (answer.status, answer.headers["content-type"]) == (status, "text/plain; charset=utf-8"), path


def test_a_reader_who_may_not_have_a_file_is_refused_at_both(apart: Served) -> None:
    assert apart.get(f"/col/{CLOSED}/doc/a.html").status == 403
    assert at_files(apart, f"/col/{CLOSED}/doc/a.html").status == 403
    licensed = f"/col/{LICENSED}/doc/a.html"
    for reader, statuses in (("192.0.2.7", (302, 200)), ("203.0.113.7", (403, 403))):
        answers = [ask(licensed) for ask in (partial(apart.get, x_forwarded_for=reader),
                                             partial(at_files, apart, x_forwarded_for=reader))]  # fmt: skip
        assert tuple(each.status for each in answers) == statuses
        # The address of the files opens nothing by itself, and no cache keeps what it gave to this reader.
        assert {each.headers["cache-control"] for each in answers} <= {"private, no-store", "no-store"}


def test_a_file_of_a_large_item_is_there_too(apart: Served) -> None:
    target = f"/col/{LONG}/doc/a.html"
    assert apart.get(target).status == 302
    assert at_files(apart, target).body == RENDERED["a.html"]


def test_the_target_of_an_item_is_found_there(apart: Served) -> None:
    first = apart.get(f"/{MANY}")
    assert first.headers["location"] == f"http://{apart.archive.settings.address}/col/{MANY}/doc/a.html"
    assert at_files(apart, f"/col/{MANY}/doc/").headers["location"] == f"/col/{MANY}/doc/a.html"


def test_without_such_an_address_its_name_is_none_of_ours(full: Served) -> None:
    answer = full.get(f"/col/{REP}/doc/index.html", host=FILES, accept="application/json")
    assert answer.status == 421
    assert json.loads(answer.body)["detail"] == "no Archive of this name is here"


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("archive.example", "archive.example is one under which the Archive itself answers"),
        ("Archive.Example.:8080", "archive.example is one under which the Archive itself answers"),
        ("www.archive.example", "www.archive.example is one under which the Archive itself answers"),
        ("files", "such as files.example.org, and not files"),
        ("192.0.2.1:8080", "such as files.example.org, and not 192.0.2.1"),
        ("http://files.example/", "http://files.example/"),
    ],
)
def test_an_address_of_files_that_browsers_could_not_tell_apart_is_refused(
    address: str, problem: str
) -> None:
    with pytest.raises(IbiError) as refused:
        settings_for("archive.example:8080", aliases=("www.archive.example",), files_address=address)
    assert isinstance(refused.value, SetupError)
    assert problem in str(refused.value)
