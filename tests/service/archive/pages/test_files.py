"""Files over HTTP: whole, in part, in one, and for those who may have them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urljoin

import pytest

from ibi.archive.model.item import StoredFile
from ibi.archive.pages.bundle import names_in_bundle
from ibi.archive.pages.files import SAMPLE, UNKNOWN, served_as
from ibi.web.rendering import day
from support.archive.archive_fixture import WHEN, NewArchive, Served, listener, serving
from support.archive.fixtures import IN_A_FOLDER
from support.ports import free_port
from support.web.html_page import Page

pytestmark = pytest.mark.usefixtures("files_place")

IBI = "a.example/b/2010/01.01.00.00"
DATA = bytes(range(256)) * 5000
DIGEST = base64.b64encode(hashlib.sha256(DATA).digest()).decode()
TAG = f'"{hashlib.sha256(DATA).hexdigest()}"'
BROWSER = {"accept": "text/html,*/*;q=0.8"}
LATIN = "São Paulo, verão".encode("latin-1")


@contextmanager
def _served(archive: NewArchive, *items: object, **files: bytes) -> Iterator[Served]:
    """Serve an Archive of these items; `files` are put beside them first."""
    for name, content in files.items():
        (archive.data / name).write_bytes(content)
    report = archive.load(*items)
    assert (report.added, archive.refused) == (len(items), [])
    made = listener()
    with serving(archive, made) as served:
        yield served


def _item(**facts: object) -> dict[str, object]:
    return {"rep": IBI, "timestamp": WHEN} | facts


@pytest.fixture
def one(new_archive: Callable[..., NewArchive]) -> Iterator[Served]:
    """An Archive with one item of one large file and one empty one."""
    item = _item(files={"data.bin": "data", "empty.bin": "empty"}, language="pt")
    with _served(new_archive("127.0.0.1"), item, data=DATA, empty=b"") as served:
        yield served


PATH = f"/col/{IBI}/doc/data.bin"

# Whole files, and parts of them


@pytest.mark.proves("SVC-11")
def test_a_file_comes_with_its_digest_its_tag_and_its_date(one: Served) -> None:
    answer = one.get(PATH)
    assert (answer.status, answer.body) == (200, DATA)
    expected = {
        "etag": TAG,
        "repr-digest": f"sha-256=:{DIGEST}:",
        "content-digest": f"sha-256=:{DIGEST}:",
        "last-modified": "Tue, 14 Nov 2023 22:13:20 GMT",
        "accept-ranges": "bytes",
        "cache-control": "public, no-cache",
        "content-type": "application/octet-stream",
        "content-language": "pt",
        "content-length": str(len(DATA)),
    }
    assert expected.items() <= answer.headers.items()
    assert "content-disposition" not in answer.headers


@pytest.mark.parametrize(
    ("requested_range", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=100-299", 100, 299),
        ("bytes=300000-", 300000, len(DATA) - 1),
        ("bytes=-1", len(DATA) - 1, len(DATA) - 1),
        (f"bytes=-{len(DATA) + 7}", 0, len(DATA) - 1),
        (f"bytes=5-{len(DATA) * 2}", 5, len(DATA) - 1),
        ("Bytes = 1 - 2 ", 1, 2),
    ],
)
def test_a_range_gives_just_that_part(one: Served, requested_range: str, first: int, last: int) -> None:
    answer = one.get(PATH, range=requested_range)
    assert (answer.status, answer.body) == (206, DATA[first : last + 1])
    assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(DATA)}"
    assert answer.headers["repr-digest"] == f"sha-256=:{DIGEST}:"
    assert "content-digest" not in answer.headers


@pytest.mark.parametrize(
    "requested_range",
    [
        "bytes=0-1,5-6",
        "bytes=9-3",
        "bytes=-",
        "lines=1-2",
        "bytes=a-b",
        "bytes",
        "bytes=" + "9" * 40 + "-",
        "=1-2",
    ],
)
def test_what_is_no_single_range_gives_the_whole_file(one: Served, requested_range: str) -> None:
    answer = one.get(PATH, range=requested_range)
    assert (answer.status, answer.body) == (200, DATA)


@pytest.mark.parametrize("requested_range", [f"bytes={len(DATA)}-", "bytes=-0"])
def test_a_part_that_the_file_does_not_have_is_refused(one: Served, requested_range: str) -> None:
    answer = one.get(PATH, range=requested_range)
    assert (answer.status, answer.body) == (416, b"")
    assert answer.headers["content-range"] == f"bytes */{len(DATA)}"


def test_an_empty_file_is_whole_or_has_no_part(one: Served) -> None:
    path = f"/col/{IBI}/doc/empty.bin"
    assert (one.get(path).status, one.get(path).body) == (200, b"")
    assert one.get(path, range="bytes=0-").status == 416


def test_a_part_comes_only_of_the_version_that_the_reader_has(one: Served) -> None:
    assert one.get(PATH, range="bytes=0-4", if_range=TAG).status == 206
    assert one.get(PATH, range="bytes=0-4", if_range='"other"').body == DATA
    assert one.get(PATH, range="bytes=0-4", if_range=f"W/{TAG}").status == 200
    assert one.get(PATH, range="bytes=0-4", if_range="Tue, 14 Nov 2023 22:13:20 GMT").status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if_none_match": TAG}, 304),
        ({"if_none_match": f'"x", W/{TAG}'}, 304),
        ({"if_none_match": "*"}, 304),
        ({"if_none_match": '"x"'}, 200),
        ({"if_none_match": '"x"', "if_modified_since": "Tue, 14 Nov 2023 22:13:20 GMT"}, 200),
        ({"if_modified_since": "Tue, 14 Nov 2023 22:13:20 GMT"}, 304),
        ({"if_modified_since": "Tuesday, 14-Nov-23 22:13:20 GMT"}, 304),
        ({"if_modified_since": "Tue, 14 Nov 2023 22:13:19 GMT"}, 200),
        ({"if_modified_since": "yesterday"}, 200),
        ({"if_modified_since": "Tue, 14 Nov 99999 22:13:20 GMT"}, 200),
        ({"if_none_match": TAG, "range": "bytes=0-1"}, 304),
    ],
)
def test_what_a_reader_has_already_is_not_sent_again(
    one: Served, headers: dict[str, str], status: int
) -> None:
    answer = one.get(PATH, **headers)
    assert (answer.status, answer.body) == (status, b"" if status == 304 else DATA)
    assert answer.headers["etag"] == TAG
    assert status != 304 or "content-length" not in answer.headers


def test_head_tells_what_get_gives_and_knows_no_parts(one: Served) -> None:
    head = one.get(PATH, "HEAD", range="bytes=0-1")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(DATA))


@pytest.mark.parametrize("place", ["col/{ibi}/doc/huge", "-/zip/{ibi}"])
def test_a_long_answer_ends_when_its_reader_goes_away(
    new_archive: Callable[..., NewArchive], place: str
) -> None:
    size = 96 << 20
    with _served(new_archive("127.0.0.1"), _item(files={"huge": "huge"}), huge=bytes(size)) as served:
        before = _read_so_far()
        with socket.create_connection(("127.0.0.1", served.port)) as reader:
            path = f"/{place.format(ibi=IBI)}"
            reader.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            assert reader.recv(1000).startswith(b"HTTP/1.1 200")
        for _ in range(30):  # whatever goes on, goes on beside these
            assert served.get("/-/healthz").status == 200
            time.sleep(0.02)
        assert _read_so_far() - before < size // 2


def _read_so_far() -> int:
    """Bytes that this process, in which the Archive answers, has read since it began."""
    return int(Path("/proc/self/io").read_text("ascii").split()[1])


@IN_A_FOLDER
def test_a_file_that_became_shorter_is_never_served_and_logged_once(
    one: Served, caplog: pytest.LogCaptureFixture
) -> None:
    stored = next(one.archive.data.glob("col/**/data.bin"))
    stored.write_bytes(DATA[:-1])
    for _ in range(3):
        answer = one.get(PATH)
        assert answer.status == 503
        assert "cannot be read" in answer.text
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert line.startswith("data.bin of ")
    assert line.endswith(" cannot be opened: the stored file is not the one that was listed")


# Names and kinds


@pytest.mark.proves("URL-20", "AMB-31")
def test_a_name_in_other_bytes_than_utf8_is_found_as_it_is_stored(
    new_archive: Callable[..., NewArchive],
) -> None:
    name = "Relat%f3rio%20Final.pdf"
    item = _item(files={name: "x", "ol%C3%A1.txt": "y"})
    with _served(new_archive("127.0.0.1"), item, x=b"%PDF-1.4 x", y=b"ol\xc3\xa1") as served:
        for spelling in (name, "Relat%F3rio%20Final.pdf", "Relat%F3rio%20Fina%6C.pdf"):
            answer = served.get(f"/col/{IBI}/doc/{spelling}")
            assert (answer.status, answer.body) == (200, b"%PDF-1.4 x")
            disposition = (
                "inline; filename=\"Relat_rio Final.pdf\"; filename*=UTF-8''Relat%C3%B3rio%20Final.pdf"
            )
            assert answer.headers["content-disposition"] == disposition
        for other, stored in (
            ("Relat%C3%B3rio%20Final.pdf", name),
            ("Relato%CC%81rio%20Final.pdf", name),
            ("ola%CC%81.txt", "ol%C3%A1.txt"),
            ("ol%E1.txt", "ol%C3%A1.txt"),
        ):
            answer = served.get(f"/col/{IBI}/doc/{other}")
            assert (answer.status, answer.headers["location"]) == (302, f"/col/{IBI}/doc/{stored}")
        assert served.get(f"/col/{IBI}/doc/Relatorio%20Final.pdf").status == 404


@pytest.mark.parametrize("page", ["item", "files"])
def test_pages_call_files_as_people_named_them(new_archive: Callable[..., NewArchive], page: str) -> None:
    shown = {
        "Anexo%20%E2%80%93%20medi%C3%A7%C3%B5es.csv": "Anexo – medições.csv",
        "Relat%C3%B3rio%20final.pdf": "Relatório final.pdf",
        "100%25.txt": "100%.txt",
        "ol%e1.txt": "olá.txt",
    }
    item = _item(files=dict.fromkeys(shown, "x"), metadata={"title": ["T"]})
    with _served(new_archive("127.0.0.1"), item, x=b"x") as served:
        made = Page(served.get(f"/-/{page}/{IBI}", **BROWSER).body)
        found = {target: text for target, text in made.links.items() if "/doc/" in target}
        assert found == {f"/col/{IBI}/doc/{name}": text for name, text in shown.items()}
        for target in found:
            assert served.get(target).body == b"x"


KINDS = (
    ("a.txt", b"plain", "text/plain; charset=utf-8"),
    ("a.txt", LATIN, "text/plain; charset=iso-8859-1"),
    ("a.txt", LATIN.decode("latin-1").encode(), "text/plain; charset=utf-8"),
    ("a.html", b'<meta charset="iso-8859-1">' + LATIN, "text/html; charset=iso-8859-1"),
    ("a.html", b'<meta charset="utf-8">' + LATIN, "text/html; charset=iso-8859-1"),
    ("a.html", b'<meta charset="koi8-r">' + "Москва".encode("koi8-r"), "text/html"),
    ("a.html", b'<meta charset="iso-8859-1">' + "ã".encode(), "text/html"),
    ("a.html", b'<meta charset="iso-2022-jp">abc', "text/html"),
    ("a.txt", "Москва".encode("utf-16"), "text/plain; charset=utf-16"),
    ("a.txt", b"\xef\xbb\xbfabc", "text/plain; charset=utf-8"),
    ("a.txt", b"\x1b$B", "text/plain"),
    ("a.txt", b"\x00\x01\xff", "text/plain"),
    ("a.css", b'@charset "latin1"; a{content:"\xe3"}', "text/css; charset=iso-8859-1"),
    ("a.pdf", b"%PDF-1.7 \xe3", "application/pdf"),
    ("a.png", b"text after all", "image/png"),
    ("a.xml", b"<?xml version='1.0' encoding='iso-8859-1'?><a/>", "application/xml"),
    ("report", b"%PDF-1.7 \xe3", "application/pdf"),
    ("picture", b"\x89PNG\r\n\x1a\n.", "image/png"),
    ("all.tar.gz", b"\x1f\x8b\x08", "application/gzip"),
    ("README", b"Read me, p\xe1gina 1", "text/plain; charset=iso-8859-1"),
    ("page", b" <!-- x -->\n<!DOCTYPE HTML><p>", "text/html; charset=utf-8"),
    ("page", b"<?xml version='1.0'?><a/>", "application/xml"),
    ("noise", b"\x00\x01\x02", "application/octet-stream"),
    ("nothing", b"", "application/octet-stream"),
)
"""A name, what is in the file, and as what it is served."""


def test_a_file_is_served_as_what_its_name_or_else_its_bytes_tell(
    new_archive: Callable[..., NewArchive],
) -> None:
    files = {f"{number}/{name}": f"f{number}" for number, (name, _, _) in enumerate(KINDS)}
    contents = {f"f{number}": content for number, (_, content, _) in enumerate(KINDS)}
    with _served(new_archive("127.0.0.1"), _item(files=files), **contents) as served:
        for number, (name, content, kind) in enumerate(KINDS):
            answer = served.get(f"/col/{IBI}/doc/{number}/{name}")
            assert (name, answer.headers["content-type"], answer.body) == (name, kind, content)
            active = kind.partition(";")[0] in {"text/html", "application/xml"}
            assert ("content-security-policy" in answer.headers) is active


def test_a_text_too_long_to_be_looked_through_is_called_only_what_is_sure() -> None:
    ascii_first = b"a" * SAMPLE
    assert served_as("text/plain", ascii_first, SAMPLE) == "text/plain; charset=utf-8"
    assert served_as("text/plain", ascii_first, SAMPLE + 1) == "text/plain"
    cut = ("a" * (SAMPLE - 1) + "é").encode()[:SAMPLE]
    assert served_as("text/plain", "é".encode() + cut[2:], SAMPLE + 9) == "text/plain; charset=utf-8"
    assert served_as("text/plain", b"\xe9" + cut[1:], SAMPLE + 9) == "text/plain; charset=iso-8859-1"
    assert served_as(UNKNOWN, b"\x00", 1) == UNKNOWN
    assert served_as("text/html; charset=koi8-r", b"\xe9", 1) == "text/html; charset=koi8-r"


# Who may have them


@pytest.mark.proves("SVC-10", "ARC-16", "SVC-12")
@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"access": "embargoed", "embargo": "2027-01-01"}, "2027-01-01"),
        ({"access": "restricted"}, "networks that have a licence"),
        ({"access": "closed"}, "not given to readers"),
    ],
)
@pytest.mark.parametrize("place", [f"/col/{IBI}/doc/x.txt", f"/-/files/{IBI}", f"/-/zip/{IBI}"])
def test_data_that_a_reader_may_not_have_are_refused_and_lead_to_what_is_known(
    new_archive: Callable[..., NewArchive], facts: dict[str, object], words: str, place: str
) -> None:
    in_words = {"2027-01-01": day("2027-01-01", "en")}  # on a page; programs read a date of ISO 8601
    item = _item(files={"x.txt": "x"}, metadata={"title": ["Known"]}, **facts)
    with _served(new_archive("127.0.0.1", networks=("192.0.2.0/24",)), item, x=b"secret") as served:
        about = f"http://127.0.0.1/-/metadata/{IBI}"
        html, text = served.get(place, **BROWSER), served.get(place, range="bytes=0-1")
        problem = served.get(place, accept="application/problem+json", if_none_match="*")
        for answer in (html, text, problem):
            assert answer.status == 403
            assert (words if answer is not html else in_words.get(words, words)) in answer.text
            assert about in answer.text
            assert b"secret" not in answer.body
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["link"] == f'<{about}>; rel="describedby"'
        assert html.headers["content-type"].startswith("text/html")
        assert json.loads(problem.body)["status"] == 403
        assert served.get(f"/-/metadata/{IBI}").status == 200
        landing = served.get(f"/-/item/{IBI}", **BROWSER)
        assert landing.status == 200
        assert "/col/" not in landing.text
        assert served.get(place, **BROWSER, accept_language="pt-BR").headers["content-language"] == "pt-BR"


@pytest.mark.proves("SVC-10")
def test_a_licensed_reader_gets_it_and_no_cache_keeps_it(new_archive: Callable[..., NewArchive]) -> None:
    item = _item(files={"x.txt": "x"}, access="restricted")
    archive = new_archive("127.0.0.1", networks=("192.0.2.0/24",), trusted_proxies=("127.0.0.1/32",))
    with _served(archive, item, x=b"licensed") as served:
        path = f"/col/{IBI}/doc/x.txt"
        answer = served.get(path, x_forwarded_for="192.0.2.7")
        assert (answer.status, answer.body) == (200, b"licensed")
        assert answer.headers["cache-control"] == "private, no-store"
        assert (
            served.get(f"/-/zip/{IBI}", x_forwarded_for="192.0.2.7").headers["cache-control"]
            == "private, no-store"
        )
        assert served.get(path, x_forwarded_for="192.0.2.7, 198.51.100.1").status == 403
        assert served.get(path).status == 403


@pytest.mark.proves("SVC-10")
def test_an_embargo_ends_with_its_day(new_archive: Callable[..., NewArchive]) -> None:
    item = _item(files={"x.txt": "x"}, access="embargoed", embargo="2023-11-15")
    with _served(new_archive("127.0.0.1"), item, x=b"x") as served:
        path = f"/col/{IBI}/doc/x.txt"
        assert served.get(path).status == 403
        served.archive.clock.now += 2 * 3600  # from 22:13 to the next day
        answer = served.get(path)
        assert (answer.status, answer.headers["cache-control"]) == (200, "public, no-cache")


# All of an item in one


@pytest.mark.proves("ARC-16")
def test_an_item_comes_as_a_zip_with_what_is_known_of_it(new_archive: Callable[..., NewArchive]) -> None:
    names = {
        "a/b%20c.txt": "x",
        "Relat%f3rio.pdf": "y",
        "con.txt": "x",
        "what%3F.txt": "x",
        "big": "big",
        "empty": "empty",
    }
    item = _item(files=names, metadata={"title": ["São todos"]})
    files = {"x": b"x" * 10, "y": b"%PDF", "big": DATA, "empty": b""}
    with _served(new_archive("127.0.0.1"), item, **files) as served:
        answer = served.get(f"/-/zip/{IBI}")
        assert answer.headers["content-type"] == "application/zip"
        assert (
            answer.headers["content-disposition"] == 'attachment; filename="a.example-b-2010-01.01.00.00.zip"'
        )
        assert int(answer.headers["content-length"]) == len(answer.body)
        head = served.get(f"/-/zip/{IBI}", "HEAD")
        assert head.headers["content-length"] == answer.headers["content-length"]
        again = served.get(f"/-/zip/{IBI}", if_none_match=answer.headers["etag"])
        assert (again.status, again.body) == (304, b"")
    bundle = zipfile.ZipFile(io.BytesIO(answer.body))
    assert bundle.testzip() is None
    unpacked = {info.filename: bundle.read(info) for info in bundle.infolist()}
    facts = unpacked.pop(f"{IBI}/item.json").decode()
    assert '"São todos"' in facts, "letters are written as they are"
    known = json.loads(facts)
    assert known["rep"] == IBI
    assert known["metadata"] == {"title": ["São todos"]}
    assert known["files"]["big"]["sha256"] == hashlib.sha256(DATA).hexdigest()
    assert unpacked == {
        f"{IBI}/doc/a/b c.txt": b"x" * 10,
        f"{IBI}/doc/Relatório.pdf": b"%PDF",
        f"{IBI}/doc/%63on.txt": b"x" * 10,
        f"{IBI}/doc/what%3F.txt": b"x" * 10,
        f"{IBI}/doc/big": DATA,
        f"{IBI}/doc/empty": b"",
    }


def test_no_two_files_of_a_zip_have_one_name_on_any_system() -> None:
    names = ("x%F3", "x%C3%B3", "X%C3%93", "a.", "a", "nul", "a%25")
    files = tuple(StoredFile(name, 0, "", "") for name in names)
    shown = [name for name, _ in names_in_bundle(files)]
    assert shown == ["xó", "x%C3%B3", "X%C3%93", "a%2E", "a", "%6Eul", "a%25"]


@pytest.mark.proves("SVC-12", "ARC-16")
def test_no_zip_tells_what_a_list_must_not_tell(new_archive: Callable[..., NewArchive]) -> None:
    other = "a.example/b/2011/01.01.00.00"
    items = [
        _item(files={"x.txt": "x"}, file_list_public=False),
        {"rep": other, "url": "http://far.example/"},
        {"rep": "a.example/b/2012/01.01.00.00", "state": "Deleted", "timestamp": WHEN},
    ]
    with _served(new_archive("127.0.0.1"), *items, x=b"x") as served:
        hidden = served.get(f"/-/zip/{IBI}")
        assert (hidden.status, "not permitted" in hidden.text) == (403, True)
        assert served.get(f"/-/files/{IBI}").status == 403
        assert served.get(f"/-/zip/{other}").status == 404
        assert served.get("/-/zip/a.example/b/2012/01.01.00.00").status == 410
        assert served.get("/-/zip/a.example/b/2013/01.01.00.00").status == 404


# Relative links between items


@IN_A_FOLDER
@pytest.mark.proves("SVC-11")
def test_a_relative_link_between_items_of_two_archives_works_without_any_resolver(
    new_archive: Callable[..., NewArchive],
) -> None:
    """The link printed in the draft of 2009: the first item, and a copy of the second one beside it."""
    first, second = "iconet.com.br/banon/2003/11.21.21.08", "dpi.inpe.br/banon/1998/08.02.08.56"
    link = "../../../../../../dpi.inpe.br/banon/1998/08.02.08.56/doc/utilities1.tcl"
    here = {"rep": first, "files": {"cgi/oai.tcl": "oai"}}
    there = {"rep": second, "state": "Copy", "files": {"utilities1.tcl": "utilities"}}
    utilities = "proc utilities {} {# útil}\n".encode("latin-1")
    content = f"source {link}\n".encode()
    archive = new_archive("127.0.0.1")
    with _served(archive, here, there, oai=content, utilities=utilities) as served:
        base = f"http://127.0.0.1:{served.port}/col/{first}/doc/cgi/oai.tcl"
        read = served.get(base.removeprefix(f"http://127.0.0.1:{served.port}"))
        named = read.body.split()[1].decode()
        found = urljoin(base, named)
        assert served.get(found.removeprefix(f"http://127.0.0.1:{served.port}")).body == utilities
    disk = archive.data / "col" / first / "doc" / "cgi" / "oai.tcl"
    assert (disk.parent / disk.read_text("utf-8").split()[1]).resolve().read_bytes() == utilities


# By way of nginx

_NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin")
_SAMPLE = Path(__file__).parents[4] / "docs" / "nginx.conf"


def _configured(folder: Path, front: int, back: int, col: Path) -> str:
    """The sample of the documentation for a folder and ports of this test."""
    server = _SAMPLE.read_text("utf-8")
    for shown, real in (
        ("listen 80;", f"listen 127.0.0.1:{front};"),
        ("server_name archive.example;", "server_name _;"),
        ("http://127.0.0.1:8001;", f"http://127.0.0.1:{back};"),
        ("/srv/archive/col/;", f"{col}/;"),
    ):
        assert server.count(shown) == 1, shown
        server = server.replace(shown, real)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    user = "user root;\n" if os.geteuid() == 0 else ""  # the folders of a test are for their owner only
    return (
        f"{user}daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{temporary}{server}\n}}\n"
    )


@contextmanager
def _nginx(folder: Path, back: int, col: Path) -> Iterator[int]:
    """The port of an nginx in front of an Archive."""
    if _NGINX is None:
        pytest.skip("there is no nginx here")
    front = free_port()
    folder.mkdir()
    (folder / "nginx.conf").write_text(_configured(folder, front, back, col), "utf-8")
    command = [_NGINX, "-p", str(folder), "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
    with subprocess.Popen(command) as process:
        try:
            end = time.monotonic() + 10
            while time.monotonic() < end and process.poll() is None:
                with suppress(OSError), socket.create_connection(("127.0.0.1", front), 1):
                    break
                time.sleep(0.02)
            yield front
        finally:
            process.terminate()


@IN_A_FOLDER
def test_nginx_hands_files_over_and_all_else_is_as_without_it(
    new_archive: Callable[..., NewArchive], tmp_path: Path
) -> None:
    name = "a%20b/Relat%f3rio%25.html"
    item = _item(files={name: "data", "x.txt": "x"}, language="pt")
    closed = {"rep": "a.example/b/2011/01.01.00.00", "files": {"y.txt": "x"}, "access": "closed"}
    trusted = ("127.0.0.1/32",)
    page = b"<!doctype html>" + DATA
    plain = new_archive("127.0.0.1")
    behind = new_archive("127.0.0.1", accel_prefix="/-/kept", trusted_proxies=trusted)
    with (
        _served(plain, item, data=page, x=b"x") as direct,
        _served(behind, item, closed, data=page, x=b"x") as served,
        _nginx(tmp_path / "nginx", served.port, behind.data / "col") as port,
    ):
        path = f"/col/{IBI}/doc/{name}"
        handed = served.get(path)
        assert (handed.status, handed.body) == (200, b"")
        assert handed.headers["x-accel-redirect"] == f"/-/kept/{IBI}/doc/a%20b/Relat%F3rio%25.html"
        front = Served(behind, port)
        ours, theirs = direct.get(path), front.get(path)
        assert (theirs.status, theirs.body) == (200, page)
        missing = {"content-digest", "date"}  # of parts it would be wrong, and nginx does not tell them apart
        assert {k: v for k, v in ours.headers.items() if k not in missing}.items() <= theirs.headers.items()
        with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            connection.request("GET", path, headers={"Host": "127.0.0.1"})
            reply = connection.getresponse()
            assert reply.headers.get_all("accept-ranges") == ["bytes"]
            reply.read()
        for requested_range in (
            {"range": "bytes=3-9"},
            {"range": "bytes=3-9", "if_range": ours.headers["etag"]},
        ):
            part = front.get(path, **requested_range)
            assert (part.status, part.body) == (206, page[3:10])
            assert part.headers["content-range"] == f"bytes 3-9/{len(page)}"
        assert front.get(path, range="bytes=3-9", if_range='"other"').status == 200
        assert front.get(path, range="bytes=99999999-").status == 416
        assert front.get(path, if_none_match=ours.headers["etag"]).status == 304
        assert front.get(path, "HEAD").headers["content-length"] == str(len(page))
        assert front.get("/-/kept/" + f"{IBI}/doc/x.txt").status == 404
        assert front.get("/col/a.example/b/2011/01.01.00.00/doc/y.txt").status == 403
        assert front.get(f"/-/item/{IBI}", **BROWSER).status == 200
        assert front.get(path.replace("/Relat", "//Relat")).status == 404  # two slashes stay two
