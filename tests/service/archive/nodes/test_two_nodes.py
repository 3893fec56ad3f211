"""Two nodes of one Archive, each as in operation, with a real PostgreSQL and a real S3 store."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.accounts.people import Accounts, Role
from ibi.accounts.sign_in import WRONG_BY_ONE
from ibi.accounts.tokens import Scope, Tokens
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import ArchiveSettings
from ibi.runtime.shared.store import close_store
from support.archive.administration_fixture import PASSWORD, Librarian
from support.cli.archive_commands import ibi, make_archive, serving, until
from support.engines.postgresql import PostgreSQL, programs
from support.engines.seaweedfs import BUCKET, SeaweedFS
from support.network.up import Answer, get
from support.ports import free_port
from support.programs import Reply

MADE = "2026-11-22T10:00:00Z"
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="item"\r\n\r\n%s\r\n'
    b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n%s\r\n--x--\r\n'
)


class Node:
    """One node: its data directory, and where it answers."""

    def __init__(self, data: Path, port: int) -> None:
        self.data = data
        self.port = port
        self.service = ""
        self.token = ""

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **headers: str) -> Answer:
        return get(f"{self.root}{path}", **headers)

    def api(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", **more: str
    ) -> tuple[int, bytes]:
        """Status and body of a request of a program."""
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": kind}
        head |= {name.replace("_", "-"): value for name, value in more.items()}
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"/-/api{path}", body, head)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def deposit(self, title: str, content: bytes = b"bytes", **more: str) -> str:
        """Deposit an item with one file; return its name."""
        item = json.dumps({"metadata": {"title": [title]}}).encode()
        status, body = self.api(
            "POST", "/items", FORM % (item, content), "multipart/form-data; boundary=x", **more
        )
        assert status in {200, 201}, body  # 200: it was deposited before under this key
        return str(json.loads(body)["rep"])

    def state(self, name: str) -> ItemState | None:
        """What it answers a resolver."""
        query = UrlRequest(("127.0.0.1",), parse_ibi(name)).query()
        answer = self.get(f"/{self.service}?{query}")
        return UrlList.read(answer.body).state if answer.status == 200 else None


class Field:
    """The engines and the two nodes; the second one has two workers."""

    def __init__(self, folder: Path, stack: ExitStack, place: str) -> None:
        self.postgresql = PostgreSQL(durable=True)
        stack.callback(self.postgresql.remove)
        self.postgresql.start()
        self.nodes = [Node(folder / name, free_port()) for name in ("first", "second")]
        first, second = self.nodes
        store = self.postgresql.new_database()
        service = make_archive(first.data, first.port, "--store", store, "--files", place)
        ibi("archive", "init", "--data", second.data, "--store", store)
        ibi("archive", "set", "--data", second.data, "--alias", f"127.0.0.1:{second.port}", "--page-rate", 0)
        ibi("archive", "set", "--data", second.data, "--costly-rate", 0)
        Accounts(first.data).add("root", Role.ADMINISTRATOR, PASSWORD, MADE)
        token = Tokens(second.data).make("program", MADE, list(Scope))
        for number, node in enumerate(self.nodes, 1):
            node.service, node.token = service, token
            close_store(node.data)
            stack.enter_context(
                serving("--data", node.data, "--bind", f"127.0.0.1:{node.port}", "--workers", number)
            )


@pytest.fixture(scope="module")
def field(seaweedfs: SeaweedFS, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    if programs() is None:
        pytest.skip("needs PostgreSQL")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name, value in seaweedfs.environment().items():
            patch.setenv(name, value)
        made = Field(tmp_path_factory.mktemp("nodes"), stack, f"s3://{BUCKET}/{secrets.token_hex(6)}")
        yield made
        for node in made.nodes:
            close_store(node.data)


def test_what_is_deposited_at_one_node_is_seen_at_the_other(field: Field) -> None:
    here, there = field.nodes
    name = here.deposit("Marshlands of the south", b"water and reeds")
    page = there.get(f"/{name}?ibiurl.language=en", accept="text/html")
    assert page.status in {200, 302}
    assert there.state(name) is ItemState.ORIGINAL
    assert there.get(f"/col/{name}/doc/a.txt").body == b"water and reeds"
    until(lambda: name in there.get("/-/search?text=marshlands", accept="text/html").body.decode())
    until(lambda: name in there.get("/-/feed").body.decode())
    harvested = "/-/oai?verb=ListIdentifiers&metadataPrefix=oai_dc"
    until(lambda: name in there.get(harvested).body.decode())


def test_what_is_closed_or_removed_at_one_node_is_never_served_by_the_other(field: Field) -> None:
    here, there = field.nodes
    name = here.deposit("Quicksilver", b"secret")
    until(lambda: name in there.get("/-/search?text=quicksilver", accept="text/html").body.decode())
    file = f"/col/{name}/doc/a.txt"
    tag = there.get(file).headers["etag"]
    ibi("archive", "edit", "--data", here.data, name, "--access", "closed")
    # Read from the store each time, so that nothing has to be waited for.
    assert there.get(file, if_none_match=tag).status == 403
    ibi("archive", "edit", "--data", there.data, name, "--access", "open")
    assert here.get(file).body == there.get(file).body == b"secret"
    ibi("archive", "delete", "--data", here.data, name, "--reason", "by mistake")
    assert there.get(file, if_none_match=tag).status == 410
    assert there.state(name) is ItemState.DELETED
    until(lambda: name not in there.get("/-/search?text=quicksilver", accept="text/html").body.decode())


def test_who_signs_in_at_one_node_is_signed_in_at_the_other_until_one_of_them_ends_it(field: Field) -> None:
    here, there = field.nodes
    browser = Librarian(here.port)
    assert browser.sign_in("root").status == 303
    other = Librarian(there.port, cookies=browser.cookies)
    assert other.look("/-/admin").status == 200
    assert other.send("/-/admin/sign-out").status == 303
    assert browser.ask("GET", "/-/admin").status == 303


def test_wrong_passwords_are_counted_over_all_nodes(field: Field) -> None:
    browsers = [Librarian(node.port) for node in field.nodes]
    Accounts(field.nodes[0].data).add("maria", Role.KEEPER, PASSWORD, MADE)
    for number in range(WRONG_BY_ONE):
        assert browsers[number % 2].sign_in("maria", "wrong words").status == 403
    for browser in browsers:
        refused = browser.sign_in("maria")
        assert (refused.status, "retry-after" in refused.headers) == (429, True)


def test_a_setting_and_a_token_that_change_at_one_node_change_at_the_other(field: Field) -> None:
    here, there = field.nodes
    ibi("archive", "institution", "--data", here.data, "--name", "Institute of Rivers")
    ibi("archive", "set", "--data", here.data, "--admin", "new@archive.example")

    def is_known() -> bool:
        # Of each worker: they follow the store by themselves.
        answers = [there.get("/", accept="text/html").body.decode() for _ in range(8)]
        return all("Institute of Rivers" in text and "new@archive.example" in text for text in answers)

    until(is_known)
    assert ArchiveSettings.read(there.data).admin == "new@archive.example"
    token = Tokens(here.data).make("passing", MADE, list(Scope))
    head = {"authorization": f"Bearer {token}"}
    until(lambda: all(there.get("/-/api/jobs", **head).status == 200 for _ in range(8)))
    Tokens(there.data).revoke("passing")
    until(lambda: all(here.get("/-/api/jobs", **head).status == 401 for _ in range(8)))


def test_a_deposit_that_is_repeated_at_the_other_node_is_answered_and_not_done_again(field: Field) -> None:
    here, there = field.nodes
    assert here.deposit("Once", idempotency_key='"k1"') == there.deposit("Once", idempotency_key='"k1"')


def test_an_upload_that_one_node_has_begun_is_continued_and_deposited_by_the_other(field: Field) -> None:
    here, there = field.nodes

    def tus(node: Node, method: str, path: str, body: bytes = b"", **more: str) -> Reply:
        head = {"Authorization": f"Bearer {node.token}", "Tus-Resumable": "1.0.0"}
        head |= {name.replace("_", "-"): value for name, value in more.items()}
        connection = HTTPConnection("127.0.0.1", node.port, timeout=60)
        try:
            connection.request(method, path, body, head)
            reply = connection.getresponse()
            headers = {name.lower(): value for name, value in reply.getheaders()}
            return Reply(reply.status, headers, reply.read())
        finally:
            connection.close()

    at = tus(here, "POST", "/-/api/uploads", upload_length="9").headers["location"]
    bytes_of = "application/offset+octet-stream"
    assert tus(here, "PATCH", at, b"four", upload_offset="0", content_type=bytes_of).status == 204
    assert tus(there, "HEAD", at).headers["upload-offset"] == "4"
    assert tus(there, "PATCH", at, b"teen.", upload_offset="4", content_type=bytes_of).status == 204
    uploads = {"b.txt": at.rpartition("/")[2]}
    status, body = there.api("POST", "/items", json.dumps({"uploads": uploads}).encode())
    assert status == 201, body
    assert here.get(f"/col/{json.loads(body)['rep']}/doc/b.txt").body == b"fourteen."
    assert tus(here, "HEAD", at).status == 404


def test_a_list_that_one_node_has_begun_is_not_continued_by_another_index(field: Field) -> None:
    from ibi.archive.oai.lists import ListPosition, ResumptionTokens
    from ibi.runtime.shared.store import node_name

    here, there = field.nodes
    secret = bytes.fromhex(ArchiveSettings.read(here.data).secret)
    tokens = ResumptionTokens(secret + node_name(here.data).encode(), lambda: 4_000_000_000)
    token = tokens.write(
        ListPosition("ListIdentifiers", "oai_dc", "", None, None, 0, 0, 0, 1, tokens.expiry())
    )
    path = f"/-/oai?verb=ListIdentifiers&resumptionToken={token}"
    until(lambda: b"badResumptionToken" not in here.get(path).body)
    assert b"badResumptionToken" in there.get(path).body


def test_while_the_store_is_away_nodes_say_so_and_refuse_and_go_on_afterwards(field: Field) -> None:
    here, there = field.nodes
    name = here.deposit("Before")

    def statuses(path: str) -> set[int]:
        return {node.get(path).status for node in field.nodes for _ in range(8)}

    field.postgresql.stop()
    try:
        until(lambda: statuses("/-/readyz") == {503})
        assert statuses("/-/healthz") == {200}
        refused = there.get(f"/{name}")
        assert (refused.status, "retry-after" in refused.headers) == (503, True)
        until(lambda: here.api("POST", "/items", b"{}")[0] == 503)
    finally:
        field.postgresql.start()
    until(lambda: statuses("/-/readyz") == {200})
    until(lambda: statuses(f"/{name}") <= {200, 302})
    after = here.deposit("After")
    # A worker may find its store again a moment after the one that says ready.
    until(lambda: there.state(after) is ItemState.ORIGINAL)
