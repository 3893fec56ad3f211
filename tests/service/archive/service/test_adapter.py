"""The adapter for other platforms: examples of docs/reference/library.md, as CGI, WSGI and ASGI, on real sockets."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server
from wsgiref.validate import validator

import pytest

import ibi
from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.model.url_key import AcknowledgmentCount, UrlKeys
from ibi.archive.service.adapter import ArchiveAdapter
from ibi.errors import IbiError, ParseError, SetupError
from ibi.http.server.service import Service, run
from ibi.protocol.messages import Acknowledgment, UrlRequest, is_key
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import Answer, listener
from support.network.up import get
from support.ports import free_port
from support.style.layers import ROOT

PATH = "/archive.example/w/2020/01.01.00.00"
ITEM, GONE, ABSENT = (f"archive.example/w/2021/01.01.00.0{number}" for number in range(3))
URL = "http://archive.example/items/17"
Ask = Callable[..., Answer]


def examples() -> dict[str, str]:
    """The files that docs/reference/library.md shows, by the names that their first lines say."""
    page = (ROOT / "docs/reference/library.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    named = (re.search(r"^# (\w+\.py)$", block, re.MULTILINE) for block in blocks)
    return {name[1]: block for name, block in zip(named, blocks, strict=True) if name}


def write(folder: Path, address: str = "archive.example") -> Path:
    """The examples as files in a folder; the Archive answers at an address."""
    for name, text in examples().items():
        text_here = text.replace('address="archive.example"', f'address="{address}"')
        (folder / name).write_text(text_here.replace("203.0.113.7", "127.0.0.1"), encoding="utf-8")
    return folder


def client_of(port: int) -> Ask:
    def ask(target: str, method: str = "GET", **headers: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, target, headers=sent)
            reply = connection.getresponse()
            received = {name.lower(): value for name, value in reply.getheaders()}
            return Answer(reply.status, received, reply.read())
        finally:
            connection.close()

    return ask


# Three ways onto the Web


def application(folder: Path, name: str) -> Any:
    """The application of an example, imported anew."""
    sys.path.insert(0, str(folder))
    try:
        for module in ("our_archive", name):
            sys.modules.pop(module, None)
        return importlib.import_module(name).application
    finally:
        sys.path.remove(str(folder))


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def wsgi(app: Any) -> Iterator[Ask]:
    """An application under the server that Python brings, watched by its validator."""
    with make_server("127.0.0.1", 0, validator(app), handler_class=_Quiet) as server:
        yield from _looking_after(server)


@contextmanager
def asgi(app: Any) -> Iterator[Ask]:
    """An application under uvicorn."""
    made = listener()
    loop, stop, ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    serving = run([Service(app)], [made], lambda _: ready.set(), stop)
    thread = threading.Thread(target=lambda: loop.run_until_complete(serving))
    port = made.getsockname()[1]
    thread.start()
    try:
        assert ready.wait(10)
        yield client_of(port)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(15)
        assert not thread.is_alive()
        loop.close()


class _Cgi(BaseHTTPRequestHandler):
    """What a Web server does for a CGI script (RFC 3875), with a Python that has no installed packages."""

    script: Path

    def answer(self) -> None:
        path, _, query = self.path.partition("?")
        inside = path.startswith(PATH)
        environ = {
            "GATEWAY_INTERFACE": "CGI/1.1",
            "REQUEST_METHOD": self.command,
            "SCRIPT_NAME": path[: len(PATH)] if inside else path,
            "PATH_INFO": path[len(PATH) :] if inside else "",
            "QUERY_STRING": query,
            "REMOTE_ADDR": self.client_address[0],
            "SERVER_PROTOCOL": "HTTP/1.1",
            "PYTHONPATH": str(ROOT / "src"),
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in self.headers.items()},
        }
        made = subprocess.run(
            [sys.executable, "-S", str(self.script)],
            env={name.encode("latin-1"): value.encode("latin-1") for name, value in environ.items()},
            capture_output=True,
            timeout=30,
            check=True,
        )
        assert made.stderr == b"", made.stderr
        head, _, body = made.stdout.partition(b"\r\n\r\n")
        lines = [line.partition(": ") for line in head.decode("ascii").split("\r\n")]
        headers = {name.lower(): value for name, _, value in lines}
        self.send_response(int(headers.pop("status").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Whatever the method."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        return self.answer

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def cgi(script: Path, server: ThreadingHTTPServer | None = None) -> Iterator[Ask]:
    """A CGI script behind a Web server."""
    handler = type("Script", (_Cgi,), {"script": script})
    with server or ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:
        made.RequestHandlerClass = handler
        yield from _looking_after(made)


def _looking_after(server: Any) -> Iterator[Ask]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield client_of(server.server_address[1])
    finally:
        server.shutdown()
        thread.join(10)


@pytest.fixture(scope="module", params=["wsgi", "asgi", "cgi"])
def ask(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """The example of docs/reference/library.md, served in each of the three ways."""
    folder = write(tmp_path_factory.mktemp("example"))
    if request.param == "cgi":
        with cgi(folder / "archive.py") as asking:
            yield asking
    else:
        server = {"wsgi": wsgi, "asgi": asgi}[request.param]
        with server(application(folder, request.param)) as asking:
            yield asking


def url_request(ibi_text: str, verbs: str = "", path: str = "") -> str:
    request = UrlRequest(("192.0.2.1",), ibi.parse_name(ibi_text), path, VerbList.parse(verbs))
    return f"{PATH}?{request.query()}"


def acknowledgment(key: str, readers: int = 1, event: str = "") -> str:
    message = Acknowledgment(
        ("192.0.2.1",), ContentType.DATA, ItemState.ORIGINAL, URL, URL, key, count=readers, event=event
    )
    return f"{PATH}?{message.query()}"


def url_list_of(answer: Answer) -> UrlList:
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain"), answer.body
    assert int(answer.headers["content-length"]) == len(answer.body)
    return UrlList.read(answer.body)


# The smallest Archive (CON-01)


@pytest.mark.proves("CON-01", "MSG-23", "SVC-01")
def test_it_confirms_that_it_is_there(ask: Ask) -> None:
    for path in (PATH, PATH.upper()):
        answer = ask(f"{path}?servicesubject=inclusionConfirmationRequest")
        assert (answer.status, answer.body) == (200, b"confirmation yes")
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.proves("CON-01", "SVC-03", "ARC-17")
def test_it_tells_where_an_item_is_by_either_name(ask: Ask) -> None:
    for name in (ITEM, ITEM.upper(), "lk47b6w/362sfkh"):
        found = url_list_of(ask(url_request(name)))
        assert len(found.pairs) == 9
        assert found.pairs["archiveaddress"] == "archive.example"
        assert found.pairs["ibi"] == ("rep", ITEM, "ibip", "LK47B6W/362SFKH")
        assert found.entry().url == URL
        assert is_key(found.url_key or "")


@pytest.mark.proves("CON-01", "SVC-03", "ARC-07")
def test_it_remembers_what_was_removed_and_knows_nothing_of_strangers(ask: Ask) -> None:
    gone = url_list_of(ask(url_request(GONE)))
    assert (gone.state, gone.timestamp, gone.entry().url) == (ItemState.DELETED, "2022-01-01T00:00:00Z", None)
    assert ask(url_request(ABSENT)).body == b""


@pytest.mark.proves("CON-03")
def test_it_has_a_plain_answer_whatever_is_asked(ask: Ask) -> None:
    for verbs, path in (
        ("GetMetadata(oai_dc)", ""),
        ("GetMetadata GetLastEdition", ""),
        ("", "/a.pdf"),
        ("GetFileList", ""),
    ):
        found = url_list_of(ask(url_request(ITEM, verbs, path)))
        assert found.entry().url == URL
        assert [name for name in found.pairs if name.startswith("url.")] == []


@pytest.mark.proves("CON-01", "MSG-28", "SVC-20")
def test_an_acknowledgment_gets_the_notice(ask: Ask) -> None:
    key = url_list_of(ask(url_request(ITEM))).url_key or ""
    for token in (key, key, "1234567890"):
        assert ask(acknowledgment(token)).body == b"notice {acknowledgment received}"


@pytest.mark.proves("AMB-32")
@pytest.mark.parametrize(
    ("target", "status", "sentence"),
    [
        (PATH, 400, "servicesubject is missing"),
        (f"{PATH}?servicesubject=inclusionRequest", 400, "is missing"),
        (f"{PATH}?servicesubject=urlRequest&clientinformation.ipaddress=::1&parsedibiurl.ibi=%ff%00", 400, "IBI"),
        (f"{PATH}?servicesubject=nonsense", 400, "no service knows"),
        (f"{PATH}?{'a=b&' * 300}", 400, "at most"),
        (f"{PATH}/x?servicesubject=inclusionConfirmationRequest", 404, "no Archive service"),
        ("/?servicesubject=inclusionConfirmationRequest", 404, "no Archive service"),
    ],
)  # fmt: skip
def test_what_is_no_request_gets_one_sentence(ask: Ask, target: str, status: int, sentence: str) -> None:
    answer = ask(target)
    assert answer.status == status
    assert answer.text.startswith("error {")
    assert sentence in answer.text


def test_it_reads_and_nothing_else(ask: Ask) -> None:
    refused = ask(f"{PATH}?servicesubject=inclusionConfirmationRequest", "POST")
    assert (refused.status, refused.headers["allow"]) == (405, "GET, HEAD")
    head = ask(f"{PATH}?servicesubject=inclusionConfirmationRequest", "HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", "16")


# A real resolver


@pytest.mark.long
@pytest.mark.proves("CON-01", "REG-04", "MSG-20", "RES-12")
def test_a_resolver_of_ours_includes_an_archive_that_is_a_cgi_script_and_leads_to_its_items(
    tmp_path: Path,
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Cgi)
    folder = write(tmp_path, f"127.0.0.1:{server.server_address[1]}")
    resolver, port = tmp_path / "resolver", free_port()
    command = [sys.executable, "-m", "ibi", "resolver"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    service, key = "J8LNKB5R7W/3FUQHC5", "12345678901234567890"
    for words in (
        ["init", "--address", f"127.0.0.1:{port}", "--service-ibi", service, "--allow-private-archives"],
        ["register", "--archive-service", PATH.removeprefix("/"), "--key", key],
    ):
        subprocess.run([*command, *words, "--data", resolver], check=True, env=environ, capture_output=True)
    serve: list[str | Path] = [*command, "serve", "--data", resolver, "--bind", f"127.0.0.1:{port}"]
    with (
        cgi(folder / "archive.py", server),
        subprocess.Popen(serve, stdout=subprocess.PIPE, env=environ) as running,
    ):
        try:
            assert running.stdout is not None
            assert running.stdout.readline().startswith(b"ready")
            switched = subprocess.run(
                [sys.executable, "-S", folder / "switch_on.py", f"http://127.0.0.1:{port}/{service}", key],
                env=environ, capture_output=True, text=True, timeout=60, check=True,
            )  # fmt: skip
            assert switched.stdout.strip() == "status.archive included status.confirmation successful"
            assert get(f"http://127.0.0.1:{port}/{ITEM}").location == URL
            assert get(f"http://127.0.0.1:{port}/{GONE}").status == 410
            assert get(f"http://127.0.0.1:{port}/{ITEM}!").status == 404
            assert get(f"http://127.0.0.1:{port}/{ABSENT}").status == 404
        finally:
            running.terminate()
            running.communicate(timeout=20)


# What a platform gives and gets

FORMS = ibi.IBIForms.parse(f"rep {ITEM}")


class Platform:
    """An adapter over a few items, and the acknowledgments that it passed on."""

    def __init__(self, *items: Holding, **more: Any) -> None:
        self.now = 1_700_000_000.0
        self.acknowledgments: list[AcknowledgmentCount] = []
        shelf = {name: item for item in items for name in item.names}
        given: dict[str, Any] = {
            "address": "archive.example",
            "service": f"rep {PATH.removeprefix('/')}",
            "secret": b"s" * 16,
            "now": lambda: self.now,
            "acknowledge": self.acknowledgments.append,
        }
        self.adapter = ArchiveAdapter(shelf.get, **(given | more))

    def ask(self, target: str, method: str = "GET", **environ: str) -> Answer:
        path, _, query = target.partition("?")
        status: list[Any] = []
        given = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REMOTE_ADDR": "127.0.0.1",
        }
        body = b"".join(self.adapter.wsgi(given | environ, lambda *started: status.extend(started)))
        return Answer(int(status[0][:3]), {name.lower(): value for name, value in status[1]}, body)


def item(**more: Any) -> Holding:
    usual: dict[str, Any] = {"forms": FORMS, "timestamp": "2021-03-04T05:06:07Z", "url": URL, "number": 17}
    return Holding(**(usual | more))


@pytest.mark.proves("SVC-20", "SVC-21", "CON-07")
def test_a_platform_receives_its_own_acknowledgments_and_what_to_count_once() -> None:
    platform = Platform(item())
    first, second = (url_list_of(platform.ask(url_request(ITEM))).url_key or "" for _ in range(2))
    for key in (first, first, second, f"{first}0", "1234567890"):
        platform.ask(acknowledgment(key, 9, "1"))
    platform.ask(acknowledgment(first), "HEAD")
    platform.ask(acknowledgment(first), HTTP_SEC_PURPOSE="prefetch")
    expires = int(platform.now) + 600
    assert platform.acknowledgments == [
        AcknowledgmentCount(17, key, expires, 1) for key in (first, first, second)
    ]
    platform.now += 601
    platform.ask(acknowledgment(first))
    assert len(platform.acknowledgments) == 3


def test_a_platform_may_let_its_answers_be_reused() -> None:
    platform = Platform(item(), reuse_seconds=30, trusted_resolvers=("127.0.0.1",))
    answer = platform.ask(url_request(ITEM))
    assert answer.headers["cache-control"] == "max-age=30"
    assert url_list_of(answer).pairs["acknowledgment.batch"] == "yes"
    platform.ask(acknowledgment(url_list_of(answer).url_key or "", 12, "1"))
    assert [each.readers for each in platform.acknowledgments] == [12]


@pytest.mark.proves("SVC-21")
@pytest.mark.parametrize(("trusted", "readers"), [((), 1), (("127.0.0.1",), 100_000), (("192.0.2.1",), 1)])
def test_a_platform_is_told_for_how_many_readers_a_key_may_count(
    trusted: tuple[str, ...], readers: int
) -> None:
    platform = Platform(item(), reuse_seconds=30, trusted_resolvers=trusted)
    key = UrlKeys(b"s" * 16, lambda: platform.now).make(17, 30)
    for event in ("1", "2"):
        platform.ask(acknowledgment(key, 100_000, event))
    assert [each.readers for each in platform.acknowledgments] == [readers, readers]
    assert {each.key for each in platform.acknowledgments} == {key}
    assert {each.most for each in platform.acknowledgments} == {1_000_000}


@pytest.mark.proves("SVC-06", "SVC-15")
def test_what_is_elsewhere_is_named_and_what_a_platform_says_is_answered() -> None:
    other = ibi.IBIForms.parse(f"rep {ABSENT}")
    facts = {"language": "en", "translations": {"pt": other}, "formats": {"oai_dc": f"{URL}.xml"}}
    platform = Platform(item(next_edition=other, **facts))
    assert url_list_of(platform.ask(url_request(ITEM, "GetLastEdition"))).next_edition == other
    assert url_list_of(platform.ask(url_request(ITEM, "GetTranslation"))).pairs["ibi.translation(pt)"] == (
        "rep",
        ABSENT,
    )
    found = url_list_of(platform.ask(url_request(ITEM, "GetMetadata(oai_dc)")))
    assert found.pairs["url.metadata(oai_dc)"] == f"{URL}.xml"


def test_no_answer_leads_to_pages_and_files_that_a_platform_does_not_have() -> None:
    file = StoredFile("a.pdf", 1, "aa", "application/pdf")
    bare = item(url="", files=(file,), metadata={"title": (MetadataValue("A title"),)})
    platform = Platform(bare, filter_answers=False)
    for verbs, path in (("", ""), ("", "/a.pdf"), ("GetFileList", ""), ("GetMetadata", "")):
        answer = platform.ask(url_request(ITEM, verbs, path))
        assert b"http" not in answer.body
        assert url_list_of(answer).forms == FORMS
    closed = Platform(item(access=Access.CLOSED))
    assert url_list_of(closed.ask(url_request(ITEM))).entry().url is None


@pytest.mark.proves("SVC-10", "AMB-54")
def test_a_platform_may_have_licensed_readers() -> None:
    given = {
        "networks": ["192.0.2.0/24"],
        "trusted_resolvers": ["203.0.113.5"],
        "trusted_proxies": ["127.0.0.1"],
    }
    platform = Platform(item(access=Access.RESTRICTED), **given)
    believed = platform.ask(url_request(ITEM), HTTP_X_FORWARDED_FOR="203.0.113.5")
    assert (url_list_of(believed).entry().url, believed.headers["cache-control"]) == (URL, "no-store")
    assert (
        url_list_of(platform.ask(url_request(ITEM), HTTP_X_FORWARDED_FOR="198.51.100.1")).entry().url is None
    )


def test_a_fault_of_the_platform_is_no_answer_and_shows_nothing_of_its_insides(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lookup(_name: object) -> Holding | None:
        message = "the password is secret"
        raise RuntimeError(message)

    adapter = ArchiveAdapter(
        lookup, address="a.example", service=f"rep {PATH[1:]}", secret=b"s" * 16, now=lambda: 0
    )
    status: list[Any] = []
    path, _, query = url_request(ITEM).partition("?")
    body = b"".join(
        adapter.wsgi({"PATH_INFO": path, "QUERY_STRING": query}, lambda *started: status.extend(started))
    )
    assert status[0] == "503 Service Unavailable"
    assert body == b"error {this Archive cannot answer now; try again later}"
    assert "the password is secret" in caplog.text


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"secret": b"short"}, SetupError),
        ({"address": "user@archive.example"}, ParseError),
        ({"service": "archive"}, ParseError),
        ({"relations": (".metadata",)}, SetupError),
        ({"relations": ("", "metadata")}, ParseError),
        ({"platform_software": "x"}, ParseError),
        ({"networks": ("192.0.2.0/99",)}, SetupError),
        ({"trusted_proxies": ("everybody",)}, SetupError),
    ],
)
def test_what_no_service_can_have_is_refused_at_once(given: dict[str, Any], kind: type[IbiError]) -> None:
    with pytest.raises(kind):
        Platform(**given)


# What it needs


def test_the_adapter_needs_the_standard_library_alone() -> None:
    code = "import ibi.archive.service.adapter, json; print(json.dumps(sorted(sys.modules)))"
    start = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); "
    made = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    tops = {name.partition(".")[0] for name in json.loads(made.stdout)} - {"ibi", "__main__"}
    assert [name for name in sorted(tops) if name not in sys.stdlib_module_names] == []
