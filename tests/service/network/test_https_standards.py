"""What else programs expect of an Archive and a resolver on https, whose authority the environment alone names.

Traces and their collector, statuses and problems, retries, conditional requests, statistics, copies by ResourceSync,
handles, labels, and a real Prometheus; the readers of metadata are in `test_https_clients`.
"""

from __future__ import annotations

import asyncio
import html
import io
import json
import re
import shutil
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

import pytest
import requests
from pyhandle.handleclient import PyHandleClient  # type: ignore[import-untyped]  # it has no types
from pyhandle.handleexceptions import HandleNotFoundException  # type: ignore[import-untyped]  # it has no types

from ibi.client import (
    Archive,
    AsyncMinting,
    Minting,
    NotFound,
    Refused,
    Removed,
    Resolver,
    Retries,
    TwoOriginals,
    Unavailable,
)
from ibi.runtime.settings import ArchiveSettings
from support.cli.archive_commands import ibi, make_archive, until
from support.client.scripted_server import losing
from support.network.https_network import Authority, HttpsNetwork, https_network, serving_https
from support.network.span_receiver import Received, SpanReceiver
from support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long

SERVICE: Final = "archive.example/archive"
FIRST, LAST, ENGLISH, GONE, TWICE = (f"{SERVICE}/2026/0{number}.02.10.15" for number in range(1, 6))
NOWHERE: Final = f"{SERVICE}/2020/02.02.00.00"
TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
READER: Final = "00f067aa0ba902b7"
FIREFOX: Final = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
BOTH = pytest.mark.parametrize("at", ["archive", "resolver"])
ORIGINAL: Final = "?ibiurl.requireditemstatus=Original"


@dataclass(frozen=True)
class Whole:
    """A network of a resolver and two Archives that claim one original both, and the collector of their spans."""

    network: HttpsNetwork
    spans: SpanReceiver

    def root(self, at: str) -> str:
        return str(getattr(self.network, at))


def _fill(data: Path, *lines: dict[str, Any]) -> None:
    (data.parent / "a.txt").write_text("to be read")
    given = {"metadata": {"title": ["Waves"], "creator": ["Silva, Maria"]}, "files": {"a.txt": "a.txt"}}
    items = data.parent / f"{data.name}.jsonl"
    items.write_text("\n".join(json.dumps({**given, **line}) for line in lines))
    ibi("archive", "import", "--data", data, items)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("https")
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        receivers = []

        def prepare(_: Path) -> None:
            authority = Authority(folder / "authority")
            receivers.append(stack.enter_context(SpanReceiver(tls=authority.certify("collector"))))
            for name in (
                "SSL_CERT_FILE",
                "REQUESTS_CA_BUNDLE",
                "CURL_CA_BUNDLE",
                "OTEL_EXPORTER_OTLP_CERTIFICATE",
            ):
                patch.setenv(name, str(authority.file))
            patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receivers[0].url)
            patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
            patch.delenv("OTEL_SERVICE_NAME", raising=False)
            edition = {"rep": FIRST, "next_edition": LAST, "language": "pt", "translations": {"en": ENGLISH}}
            others = [{"rep": LAST}, {"rep": ENGLISH, "language": "en"}, {"rep": GONE}, {"rep": TWICE}]
            _fill(folder / "archive", edition, *others)
            ibi("archive", "delete", "--data", folder / "archive", "--reason", "by mistake", GONE)

        network = stack.enter_context(https_network(folder, prepare))
        stack.enter_context(_another_archive(network, "second"))
        yield Whole(network, receivers[0])


@contextmanager
def _another_archive(network: HttpsNetwork, name: str) -> Iterator[subprocess.Popen[str]]:
    """One more Archive on https, included in the resolver, which claims one of the originals, too."""
    data, tls, plain = network.folder / name, free_port(), free_port()
    service = make_archive(data, plain, "--resolver", network.resolver)
    _fill(data, {"rep": TWICE})
    words = ("--archive-service", service, "--key", ArchiveSettings.read(data).key)
    before = _included(network)
    ibi("resolver", "register", "--data", network.folder / "resolver", *words)
    with serving_https(network.authority, "archive", data, tls, plain) as process:
        until(lambda: _included(network) == before + 1)
        yield process


def _included(network: HttpsNetwork) -> int:
    return int(json.loads(network.get(f"{network.resolver}/-/about").body)["archives"])


def _token(whole: Whole, *scopes: str) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        words = [word for scope in scopes for word in ("--scope", scope)]
        ibi("archive", "token", "add", "-".join(scopes), "--data", whole.network.folder / "archive", *words)
    return printed.getvalue().split()[-1]


def _curl(*words: str) -> tuple[int, dict[str, str], str]:
    """What curl gets from an https URL: the status, the headers by their names in lower case, the body."""
    command = ["curl", "--silent", "--show-error", "--globoff", "--proto", "=https", "--include", *words]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, text=True)
    assert done.returncode == 0, done.stderr
    head, _, body = done.stdout.partition("\n\n")
    first, *lines = head.splitlines()
    return (
        int(first.split()[1]),
        {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in lines},
        body,
    )


def _of(spans: SpanReceiver, trace: str) -> dict[str, Received]:
    return {f"{each.program} {each.name}": each for each in spans.spans if each.trace == trace}


def test_the_trace_of_a_click_goes_through_both_to_a_collector_on_https(whole: Whole) -> None:
    words = ("--header", f"traceparent: 00-{TRACE}-{READER}-01", f"{whole.network.resolver}/{LAST}")
    assert _curl(*words)[0] == 302
    steps = [f"ibi-resolver {name}" for name in ("GET click", "resolution", "round", "query")]
    steps.append("ibi-archive GET message")
    until(lambda: set(steps) <= set(_of(whole.spans, TRACE)))
    chain = [_of(whole.spans, TRACE)[step] for step in steps]
    assert [each.parent for each in chain] == [READER, *(each.span for each in chain[:-1])]


def test_the_page_of_an_archive_belongs_to_the_trace_of_its_reader(whole: Whole) -> None:
    trace = "a" * 32
    words = ("--header", f"traceparent: 00-{trace}-{READER}-01", f"{whole.network.archive}/-/item/{LAST}")
    assert _curl(*words)[0] == 200
    until(lambda: _of(whole.spans, trace))
    [span] = _of(whole.spans, trace).values()
    assert (span.program, span.parent, span.values["http.response.status_code"]) == (
        "ibi-archive",
        READER,
        200,
    )


@BOTH
def test_a_request_keeps_its_id(whole: Whole, at: str) -> None:
    _, headers, _ = _curl("--header", "X-Request-ID: of-a-proxy.1", f"{whole.root(at)}/{LAST}")
    assert headers["x-request-id"] == "of-a-proxy.1"


@BOTH
@pytest.mark.parametrize(
    ("word", "end"),
    [("", "/col/{}/doc/a.txt"), ("ibi:", "/col/{}/doc/a.txt"), ("IBI:", "/col/{}/doc/a.txt")],
)
def test_the_compact_form_leads_where_the_name_alone_leads(
    whole: Whole, at: str, word: str, end: str
) -> None:
    status, headers, _ = _curl(f"{whole.root(at)}/{word}{LAST}")
    assert (status, headers["location"]) == (302, whole.network.archive + end.format(LAST))
    assert f'<{whole.network.resolver}/{LAST}>; rel="cite-as"' in headers["link"]


@pytest.mark.parametrize(
    ("at", "path", "words", "status", "kind"),
    [
        ("resolver", f"/{NOWHERE}", (), 404, "not-found"),
        ("resolver", f"/{GONE}", (), 410, "deleted"),
        ("resolver", f"/{TWICE}{ORIGINAL}", (), 409, "suspect-originals"),
        ("resolver", f"/{LAST}+(de)", (), 404, "no-translation"),
        ("resolver", "/!!!", (), 400, "bad-url"),
        ("archive", f"/-/api/items/{NOWHERE}", (), 404, None),
        ("archive", f"/-/api/items/{GONE}", (), 410, None),
        ("archive", f"/-/api/items/{LAST}", ("--request", "DELETE"), 401, None),
        ("archive", f"/-/metadata/{LAST}?format=none", (), 404, None),
    ],
)  # fmt: skip
def test_curl_gets_a_problem_with_its_status(
    whole: Whole, at: str, path: str, words: tuple[str, ...], status: int, kind: str | None
) -> None:
    got, headers, body = _curl("--header", "Accept: application/json", *words, whole.root(at) + path)
    problem = json.loads(body)
    assert (got, headers["content-type"], problem["status"]) == (status, "application/problem+json", status)
    assert problem.get("kind") == kind or kind is None
    assert problem["detail"]
    assert "http://127" not in body


@BOTH
def test_what_changes_something_is_refused_at_a_persistent_url(whole: Whole, at: str) -> None:
    status, headers, _ = _curl("--request", "POST", f"{whole.root(at)}/{LAST}")
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_a_program_in_python_gets_each_alert_as_an_error_of_its_own(whole: Whole) -> None:
    with Resolver(whole.network.resolver) as resolver:
        for name, error in ((NOWHERE, NotFound), (GONE, Removed), (f"{TWICE}{ORIGINAL}", TwoOriginals)):
            with pytest.raises(error):
                resolver.resolve(f"{whole.network.resolver}/{name}")


def test_a_name_that_a_silent_archive_may_hold_is_503_for_curl_and_for_python(whole: Whole) -> None:
    network = whole.network
    with _another_archive(network, "third") as process:
        process.kill()  # an Archive that ends by itself says so, and is not asked meanwhile
    try:
        status, headers, body = _curl("--header", "Accept: application/json", f"{network.resolver}/{NOWHERE}")
        assert (status, json.loads(body)["kind"], int(headers["retry-after"]) > 0) == (
            503,
            "incomplete",
            True,
        )
        with (
            Resolver(network.resolver, retries=Retries(attempts=1)) as resolver,
            pytest.raises(Unavailable) as unavailable,
        ):
            resolver.resolve(NOWHERE)
        assert unavailable.value.retry_after
    finally:
        third = "archive.example/third/2020/01.01.00.00"
        ibi("resolver", "unregister", "--data", network.folder / "resolver", "--archive-service", third)


def test_a_deposit_whose_answer_is_lost_over_https_makes_one_item(whole: Whole) -> None:
    chain, key = whole.network.authority.certify("proxy")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    token, at_once = _token(whole, "deposit"), Retries(pause=0)
    port = int(whole.network.archive.rpartition(":")[2])
    with (
        losing(port, 0, 0.5, context=context) as there,
        Archive(there.root, token, retries=at_once) as archive,
        Archive(whole.network.archive, token) as direct,
    ):
        made = archive.deposit("Lost and found", files={"a.txt": b"x"}, key="one key")
        assert there.requests == ["POST /-/api/items"] * 3
        assert {each["idempotency-key"] for each in there.headers} == {"one key"}
        assert direct.deposit("Lost and found", files={"a.txt": b"x"}, key="one key").ibi == made.ibi
        with pytest.raises(Refused) as refused:
            direct.deposit("Another", files={"a.txt": b"x"}, key="one key")
        assert refused.value.status == 422
        until(lambda: list(direct.search("lost found")))
        assert [each.ibi for each in direct.search("lost found")] == [made.rep]


def test_what_is_unchanged_is_not_sent_again_and_what_has_changed_is_not_overwritten(whole: Whole) -> None:
    root, token = whole.network.archive, _token(whole, "edit")
    for path in (
        f"/-/api/items/{FIRST}",
        f"/-/linkset/{FIRST}",
        "/-/feed",
        f"/-/item/{FIRST}",
        f"/col/{FIRST}/doc/a.txt",
    ):
        with requests.Session() as session:
            tag = session.get(root + path, timeout=60).headers["etag"]
            assert session.get(root + path, headers={"If-None-Match": tag}, timeout=60).status_code == 304, (
                path
            )
    url = f"{root}/-/api/items/{FIRST}"
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {token}"
        tag = session.get(url, timeout=60).headers["etag"]
        statuses = [
            session.patch(
                url, json={"licence": "https://far.example/by"}, headers={"If-Match": tag}, timeout=60
            ).status_code
            for _ in range(2)
        ]
    assert statuses == [200, 412]


def test_a_reader_is_counted_and_a_program_is_not(whole: Whole) -> None:
    url = f"{whole.network.archive}/-/api/items/{ENGLISH}/statistics"

    def figures() -> dict[str, Any]:
        months = json.loads(_curl(url)[2])["months"]
        return dict(months[-1]) if months else {}

    page = f"{whole.network.archive}/-/item/{ENGLISH}"
    _curl(page)
    _curl("--user-agent", FIREFOX, page)
    _curl("--user-agent", FIREFOX, "--location", f"{whole.network.resolver}/{ENGLISH}")
    until(lambda: figures().get("requests"))
    assert figures() | {"month": ""} == {
        "month": "", "investigations": 2, "unique_investigations": 1, "requests": 1, "unique_requests": 1
    }  # fmt: skip


@pytest.mark.parametrize(("language", "name"), [("pt-BR,en;q=0.5", FIRST), ("en", ENGLISH)])
@BOTH
def test_a_translation_is_chosen_by_the_languages_of_the_reader(
    whole: Whole, at: str, language: str, name: str
) -> None:
    status, headers, _ = _curl("--header", f"Accept-Language: {language}", f"{whole.root(at)}/{FIRST}+")
    assert (status, headers["location"]) == (302, f"{whole.network.archive}/col/{name}/doc/a.txt")


@BOTH
@pytest.mark.parametrize("word", ["info", "json"])
def test_what_is_known_of_a_name_is_asked_for_by_its_query(whole: Whole, at: str, word: str) -> None:
    status, _, body = _curl(f"{whole.root(at)}/{LAST}?{word}")
    assert (status, f"{whole.network.resolver}/{LAST}" in body, "http://127" in body) == (200, True, False)


@BOTH
def test_a_program_of_the_handle_system_reads_a_record(whole: Whole, at: str) -> None:
    client = PyHandleClient("rest").instantiate_for_read_access(handle_server_url=f"{whole.root(at)}/-")
    record = client.retrieve_handle_record(LAST)
    assert record["IBI"] == LAST
    assert record["URL"].startswith(f"{whole.network.archive}/")
    assert client.get_value_from_handle(LAST, "IBI_STATE") == "Original"
    with pytest.raises(HandleNotFoundException):
        client.get_value_from_handle(NOWHERE, "URL")


@BOTH
def test_what_operators_and_finders_of_faults_look_for_is_there(whole: Whole, at: str) -> None:
    for path, begin in (("/-/healthz", "ok"), ("/-/readyz", "ready")):
        status, _, body = _curl(whole.root(at) + path)
        assert (status, body.startswith(begin)) == (200, True), (path, body)


def test_faults_of_security_have_an_address(whole: Whole) -> None:
    status, _, body = _curl(f"{whole.network.archive}/.well-known/security.txt")
    assert (status, "Contact: mailto:admin@archive.example" in body.splitlines()) == (200, True)


@BOTH
def test_every_example_of_the_page_for_programs_runs_as_it_is_printed(whole: Whole, at: str) -> None:
    root = whole.root(at)
    page = whole.network.get(f"{root}/-/programs", accept="text/html").body.decode()
    examples = re.findall(r'<pre tabindex="0"><code class="(\w+)">(.*?)</code></pre>', page, re.DOTALL)
    assert len(examples) >= 10
    for kind, text in examples:
        command = html.unescape(text)
        assert root in command
        words = ["sh", "-c", command] if kind == "sh" else [sys.executable, "-c", command]
        done = subprocess.run(words, capture_output=True, check=False, text=True, timeout=60)
        assert (done.returncode, done.stdout.strip() != "", "http://127" in done.stdout) == (
            0,
            True,
            False,
        ), (command, done)
        assert not re.match(r"HTTP/\S+ [45]|\s*\{\s*\"type\": \"[^\"]*#", done.stdout), (command, done.stdout)


def test_what_the_entries_of_registries_say_of_the_compact_form_is_true(whole: Whole) -> None:
    root, name = whole.network.resolver, f"ibi:{LAST}"
    status, headers, _ = _curl(f"{root}/-/find?text={name}")
    assert (status, urljoin(root, headers["location"])) == (303, f"{root}/{LAST}")
    with Resolver(root) as resolver:
        assert resolver.resolve(name).url == f"{whole.network.archive}/col/{LAST}/doc/a.txt"
    command = [sys.executable, "-m", "ibi", "resolve", "--resolver", root, name]
    done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
    assert f"{whole.network.archive}/col/{LAST}/doc/a.txt" in done.stdout, done


def _resync(folder: Path, *words: str) -> str:
    """What the client of the authors of ResourceSync says; it keeps its state in the folder where it is run."""
    program = Path(sys.executable).with_name("resync-sync")
    if not program.exists():
        pytest.skip("needs resync-sync, which Python 3.12 and newer do not run")
    command = [sys.executable, "-W", "ignore", str(program), "--verbose", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_a_copy_by_resource_sync_is_made_and_kept_up_to_date(whole: Whole, tmp_path: Path) -> None:
    root, token = whole.network.archive, _token(whole, "deposit", "edit", "delete")
    mapping, changes = f"{root}={tmp_path / 'copy'}", f"{root}/-/resourcesync/changelist.xml"
    with Archive(root, token) as archive:
        # One a second: the client reads the last second of its baseline again.
        removed, edited, kept = (
            archive.deposit(f"To be {what}", url="https://far.example/")
            for what in ("removed", "edited", "kept")
        )
        until(lambda: f"{root}/-/item/{kept.rep}" in _curl(f"{root}/-/sitemap/1.xml")[2])
        printed = _resync(tmp_path, "--baseline", mapping)
        pages = {name: tmp_path / f"copy/-/item/{name}" for name in (kept.rep, edited.rep, removed.rep)}
        assert all("To be" in page.read_text() for page in pages.values()), printed
        time.sleep(1.1)  # the client compares whole seconds
        with requests.Session() as session:
            session.headers.update({"Authorization": f"Bearer {token}", "If-Match": "*"})
            url = f"{root}/-/api/items/"
            edit = session.patch(url + edited.rep, json={"metadata": {"title": ["Was edited"]}}, timeout=60)
            removal = session.delete(url + removed.rep, params={"reason": "a test"}, timeout=60)
        assert (edit.status_code, removal.status_code) == (200, 200), (edit.text, removal.text)
        added = archive.deposit("Was added", url="https://far.example/")
    printed = _resync(tmp_path, "--incremental", "--delete", "--changelist-uri", changes, mapping)
    assert "Was edited" in pages[edited.rep].read_text(), printed
    assert "Was added" in (tmp_path / f"copy/-/item/{added.rep}").read_text()
    assert not pages[removed.rep].exists(), printed
    until(lambda: f"{root}/-/item/{added.rep}" in _curl(f"{root}/-/sitemap/1.xml")[2])
    assert "IN SYNC" in _resync(tmp_path, "--audit", mapping)


@contextmanager
def _mint(whole: Whole) -> Iterator[tuple[str, str]]:
    """The root of a mint on https, and a token of it."""
    data = whole.network.folder / "mint"
    chain, key = whole.network.authority.certify("mint")
    command = [sys.executable, "-m", "ibi", "mint"]
    name = ["--data", str(data), "--name", f"t{time.monotonic_ns()}"]
    token = subprocess.run(
        [*command, "token", *name], capture_output=True, check=True, text=True
    ).stdout.strip()
    words = f"--host mint.example.org --ip 150.163.34.243 --granularity 0.000001 --tls-cert {chain} --tls-key {key}"
    serve = [*command, "serve", "--data", str(data), "--bind", "127.0.0.1:0", *words.split()]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[1], token
        finally:
            process.terminate()
            process.wait(timeout=60)


def test_labels_are_ordered_over_https(whole: Whole) -> None:
    async def later(root: str, token: str) -> list[str]:
        async with AsyncMinting(root, token) as mint:
            return [label.rep for label in await mint.mint(2)]

    with _mint(whole) as (root, token):
        assert root.startswith("https://")
        with Minting(root, token) as mint:
            labels = [label.rep for label in mint.mint(3)]
        labels += asyncio.run(later(root, token))
    assert len(set(labels)) == 5


def test_a_real_prometheus_asks_both_with_the_authority_in_its_settings(whole: Whole, tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus here (Debian: prometheus)")
    targets = ", ".join(f"'{whole.root(at).removeprefix('https://')}'" for at in ("archive", "resolver"))
    settings = tmp_path / "prometheus.yml"
    settings.write_text(
        "global: {scrape_interval: 500ms}\nscrape_configs:\n- {job_name: ibi, scheme: https, metrics_path: /-/metrics, "
        f"tls_config: {{ca_file: '{whole.network.authority.file}'}}, static_configs: [{{targets: [{targets}]}}]}}\n"
    )
    address = f"127.0.0.1:{free_port()}"
    words = [
        f"--config.file={settings}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
    ]

    def healths() -> list[str]:
        try:
            answer = requests.get(f"http://{address}/api/v1/targets", timeout=20)
        except requests.ConnectionError:  # it does not listen yet
            return []
        ready = answer.status_code == requests.codes.ok  # 503 while it begins
        return [each["health"] for each in answer.json()["data"]["activeTargets"]] if ready else []

    with subprocess.Popen(["prometheus", *words, "--log.level=error"]) as process:
        try:
            until(lambda: healths() == ["up", "up"])
        finally:
            process.terminate()
            process.wait(timeout=60)
