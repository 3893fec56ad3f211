"""The frame of an administration without a server: where each request leads, what each page is given, each refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from ibi.accounts.administration import Administration, form_with_small_files
from ibi.accounts.layout import Form, Layout, NoticePage, PageHandler, PageRequest, SignInPage
from ibi.accounts.people import Role
from ibi.accounts.sign_in import Authentication, Client
from ibi.accounts.tokens import Scope
from ibi.errors import HoldingError, IbiError, SetupError
from ibi.http.request import ClientGone, Request
from ibi.http.response import Refusal, Response

PASSWORD = "seven words of a pass phrase"
PLACE = Client("127.0.0.1", secure=False, local=True)
ROOT = "/-/admin"
URLENCODED = "application/x-www-form-urlencoded"
LATER = "this server cannot answer now; try again later"


class Service:
    """An administration with a few pages; `shown`: the layout and the language of each page that was rendered."""

    def __init__(self, folder: Path) -> None:
        self.shown: list[tuple[Layout, str]] = []
        self.fault: Exception | None = None
        self.client = PLACE
        self.counts: Mapping[str, int] | None = {"items": 2}
        self.authentication = Authentication(folder, "x", lambda: 1_700_000_000.0)
        for name, role in (("maria", Role.KEEPER), ("root", Role.ADMINISTRATOR)):
            self.authentication.accounts.add(name, role, PASSWORD, "2026-11-22T10:00:00Z")
        handlers = {
            "items": PageHandler(Scope.EDIT, self.show, self.do),
            "read": PageHandler(Scope.READ, self.show, self.do),
            "async": PageHandler(Scope.EDIT, self.show, self.do_later),
            "files": PageHandler(Scope.EDIT, self.show, self.do, small_files=True),
            "all": PageHandler(Scope.ADMIN, self.show),
        }
        self.administration = Administration(
            self.authentication, handlers, self.render, lambda _: self.client, "a.example", self.problem_of,
            waiting=self.waiting,
        )  # fmt: skip
        self.cookie = ""
        self.token = ""

    def waiting(self) -> Mapping[str, int]:
        if self.counts is None:
            raise SetupError("the counts cannot be read")
        return self.counts

    def render(self, layout: Layout, language: str) -> bytes:
        self.shown.append((layout, language))
        return b"page"

    def show(self, page_request: PageRequest, typed: Form | None) -> Any:
        if self.fault is not None and typed is None:
            raise self.fault
        if page_request.rest == "file":
            return Response(200, b"file")
        return ("page", page_request.rest, typed and tuple(typed.fields))

    def do(self, page_request: PageRequest, form: Form) -> Any:
        if self.fault is not None:
            raise self.fault
        answers = {"file": Response(200, b"file"), "page": "next"}
        return answers.get(form.one("to"), ("done", page_request.rest, dict(form.files)))

    async def do_later(self, page_request: PageRequest, form: Form) -> Any:
        return self.do(page_request, form)

    @staticmethod
    def problem_of(error: Exception) -> Any:
        return (
            (418, IbiError("a teapot"), (("retry-after", "7"),)) if isinstance(error, HoldingError) else None
        )

    def sign_in(self, name: str = "maria", query: str = "") -> None:
        request = Request("POST", f"{ROOT}/sign-in", query, {})
        signed, cookies = asyncio.run(self.authentication.sign_in(request, self.client, name, PASSWORD))
        self.cookie, self.token = cookies[1].partition(";")[0], signed.token

    def ask(self, method: str, path: str, query: str = "", body: bytes = b"", **headers: str) -> Response:
        known = {"cookie": self.cookie, "content-type": URLENCODED, "sec-fetch-site": "same-origin"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        request = Request(
            method, f"{ROOT}{path}", query, {name.encode(): text.encode() for name, text in known.items()}
        )

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        return asyncio.run(self.administration.answer(request, receive))

    def send(self, path: str, query: str = "", **fields: str) -> Response:
        body = urlencode({"form_token": self.token} | fields).encode()
        return self.ask("POST", path, query, body)

    @property
    def layout(self) -> Layout:
        return self.shown[-1][0]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    made.administration.close()


def location(response: Response) -> str:
    assert response.status == 303
    assert ("cache-control", "no-store") in response.headers
    return dict(response.headers)["location"]


def problem(service: Service, response: Response) -> tuple[int, str]:
    assert (response.status, response.body) == (service.layout.status, b"page")
    return response.status, str(service.layout.problem)


def test_a_page_has_its_layout_and_headers_that_keep_it_to_its_reader(service: Service) -> None:
    service.sign_in()
    response = service.ask("GET", "/items/a/b", "x=1&lang=pt-BR&done=made&y=%C3%A9")
    layout, language = service.shown[-1]
    signed = layout.signed
    assert signed is not None
    assert (signed.name, language) == ("maria", "pt-BR")
    assert layout == Layout(
        ("page", "a/b", None), 200, signed, None, "made", "items", layout.nonce, "a.example", "x=1&y=%C3%A9",
        "?lang=pt-BR", layout.scopes, {"items": 2}, None, True,
    )  # fmt: skip
    assert layout.scopes == {
        "items": Scope.EDIT, "read": Scope.READ, "async": Scope.EDIT, "files": Scope.EDIT, "all": Scope.ADMIN,
    }  # fmt: skip
    assert response == Response(200, b"page", "text/html; charset=utf-8", (
        ("content-security-policy",
         (f"default-src 'none'; style-src 'self'; script-src 'nonce-{layout.nonce}'; connect-src 'self'; "
         "font-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")),
        ("referrer-policy", "same-origin"),
        ("x-frame-options", "DENY"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("x-robots-tag", "noindex, nofollow"),
        ("vary", "Cookie, Accept-Language"),
        ("cache-control", "no-store"),
        ("content-language", "pt-BR"),
    ))  # fmt: skip
    assert len(layout.nonce) == 22
    service.ask("GET", "/items")
    assert service.layout.nonce != layout.nonce
    assert (service.layout.lang, service.shown[-1][1]) == ("?lang=pt-BR", "pt-BR")  # the session keeps it
    assert service.ask("GET", "/items/file") == Response(200, b"file")


def test_what_waits_is_left_out_where_it_cannot_be_counted(service: Service) -> None:
    service.ask("GET", "/sign-in", accept_language="pt-BR")
    assert (service.layout.waiting, service.shown[-1][1], service.layout.lang) == ({}, "pt-BR", "")
    service.sign_in()
    service.counts = None
    service.ask("GET", "/items")
    assert service.layout.waiting == {}


def test_without_a_session_a_page_leads_to_the_sign_in_and_back(service: Service) -> None:
    def leads(path: str, query: str = "") -> str:
        return location(service.ask("GET", path, query))

    assert leads("/items/a", "x=1") == f"{ROOT}/sign-in?next={quote(f'{ROOT}/items/a?x=1', safe='/')}"
    assert (
        leads("/items", "lang=en")
        == f"{ROOT}/sign-in?next={quote(f'{ROOT}/items?lang=en', safe='/')}&lang=en"
    )
    assert leads("") == f"{ROOT}/sign-in?next={ROOT}"
    assert leads("/sign-out") == f"{ROOT}/sign-in"
    assert leads("/sign-out", "lang=en") == f"{ROOT}/sign-in?lang=en"
    for outside in ("//x", "/..", "/%2E", "/a\\b", "/a#b", "x"):
        assert leads(outside) == f"{ROOT}/sign-in", outside


def test_the_sign_in_page_has_where_it_leads_and_whether_it_is_possible(service: Service) -> None:
    service.ask("GET", "/sign-in", f"next={ROOT}/items&done=signed-out")
    assert (service.layout.page, service.layout.done) == (SignInPage(f"{ROOT}/items"), "signed-out")
    service.ask("GET", "/sign-in", "next=http://far.example/")
    assert service.layout.page == SignInPage()
    service.client = PLACE._replace(local=False)
    service.ask("GET", "/sign-in")
    assert service.layout.page == SignInPage(possible=False)
    service.client = PLACE._replace(local=False, secure=True)
    service.ask("GET", "/sign-in")
    assert service.layout.page == SignInPage()


def test_a_sign_in_leads_where_it_was_to_lead(service: Service) -> None:
    for where, leads in ((f"{ROOT}/items?x=1", f"{ROOT}/items?x=1"), ("//far.example", ROOT), ("", ROOT)):
        response = service.send("/sign-in", next=where, name="maria", password=PASSWORD)
        assert location(response) == leads
        assert [name for name, _ in response.headers].count("set-cookie") == 2
    response = service.send("/sign-in", next=f"{ROOT}/items", name="maria", password="x", kept='[["a","b"]]')
    assert problem(service, response) == (
        403,
        "the name or the password is wrong; look at both and try again",
    )
    assert service.layout.page == SignInPage(f"{ROOT}/items", "maria", (("a", "b"),))
    assert not service.layout.reads
    assert [name for name, _ in response.headers].count("set-cookie") == 0


def test_a_form_after_its_session_is_kept_and_shown_again(service: Service) -> None:
    response = service.send("/items/a", "x=1", text="b", password="secret")
    assert problem(service, response) == (403, "your session has ended; sign in, and send the form again")
    page = service.layout.page
    assert page == SignInPage(f"{ROOT}/items/a?x=1", kept=(("text", "b"),))
    service.client = PLACE._replace(local=False)
    service.send("/items", text="x" * (1 << 18))
    assert service.layout.page == SignInPage(f"{ROOT}/items", possible=False)
    assert str(service.layout.problem) == (
        "your session has ended, and what you typed is too long to be kept here: "
        "go back in your browser and copy it before you sign in"
    )
    service.client = PLACE
    fields = {"name": "maria", "password": PASSWORD, "kept": '[["text","b"]]'}
    response = service.send("/sign-in", next=f"{ROOT}/items/a?x=1", **fields)
    assert (response.status, service.layout.page) == (200, ("page", "a", (("text", "b"),)))
    assert (service.layout.done, service.layout.here) == ("signed-in-again", "items")
    assert [name for name, _ in response.headers].count("set-cookie") == 2
    for word in ("all", "unheard"):
        assert location(service.send("/sign-in", next=f"{ROOT}/{word}", **fields)) == ROOT


def test_signing_out_leads_to_the_sign_in_in_the_language_of_the_session(service: Service) -> None:
    for query, leads in (("", "done=signed-out"), ("lang=pt-BR", "done=signed-out&lang=pt-BR")):
        service.sign_in(query=query)
        response = service.send("/sign-out")
        assert location(response) == f"{ROOT}/sign-in?{leads}"
        assert dict(response.headers)["set-cookie"].startswith(f"{service.cookie.partition('=')[0]}=; ")
        assert location(service.ask("GET", "/items")).startswith(f"{ROOT}/sign-in")
    cookies = []
    for _ in range(2):
        service.sign_in()
        cookies.append(service.cookie)
    service.send("/sign-out", everywhere="yes")
    service.cookie = cookies[0]
    assert location(service.ask("GET", "/items")).startswith(f"{ROOT}/sign-in")
    service.sign_in()
    service.token = "of another session"
    assert problem(service, service.send("/sign-out"))[0] == 403
    service.ask("GET", "/sign-out")
    assert problem(service, service.ask("GET", "/sign-out")) == (404, "there is no such page here")


def test_what_an_account_may_not_see_is_refused(service: Service) -> None:
    service.sign_in()
    for method in ("GET", "POST"):
        response = service.ask(method, "/all")
        assert problem(service, response) == (403, "your account does not permit this; ask an administrator")
        assert isinstance(service.layout.page, NoticePage)
    assert problem(service, service.ask("GET", "/unheard")) == (404, "there is no such page here")
    assert service.layout.signed is not None
    service.sign_in("root")
    assert service.ask("GET", "/all").status == 200
    assert problem(service, service.send("/all")) == (404, "there is no such page here")


def test_methods_and_forms_of_other_sites_are_refused(service: Service) -> None:
    service.sign_in()
    response = service.ask("PUT", "/items")
    assert problem(service, response) == (405, "only GET, HEAD, POST are understood here")
    assert ("allow", "GET, HEAD, POST") in response.headers
    assert service.ask("HEAD", "/items").status == 200
    assert service.ask("GET", "/items", sec_fetch_site="cross-site").status == 200
    for path in ("/items", "/sign-in", "/sign-out"):
        response = service.ask("POST", path, sec_fetch_site="cross-site")
        assert problem(service, response)[0] == 403


def test_a_form_is_acted_on_and_leads_on_or_shows_a_page(service: Service) -> None:
    service.sign_in()
    for word in ("items", "async"):
        assert location(service.send(f"/{word}", to="page")) == "next"
        assert service.send(f"/{word}", to="file") == Response(200, b"file")
        assert service.send(f"/{word}/rest").status == 200
        assert service.layout.page == ("done", "rest", {})
        assert (service.layout.here, service.layout.kept_query) == (word, "")
    service.token = "of another session"
    assert problem(service, service.send("/items", text="b"))[0] == 403
    assert isinstance(service.layout.page, NoticePage)


MULTIPART = (
    '--x\r\nContent-Disposition: form-data; name="form_token"\r\n\r\n{token}\r\n'
    '--x\r\nContent-Disposition: form-data; name="logo"; filename="a"\r\n\r\nbytes\r\n--x--\r\n'
)


def test_a_form_with_files_is_read_where_a_page_takes_them(service: Service) -> None:
    service.sign_in()
    body = MULTIPART.format(token=service.token).encode()
    kind = "multipart/form-data; boundary=x"
    assert service.ask("POST", "/files", "", body, content_type=kind).status == 200
    assert service.layout.page == ("done", "", {"logo": b"bytes"})
    response = service.ask("POST", "/items", "", body, content_type=kind)
    assert problem(service, response) == (415, "this is not the form of this page; open the page again")
    for broken in (body[:-8], b"", b"x" * ((1 << 20) + 1)):
        response = service.ask("POST", "/files", "", broken, content_type=kind)
        assert problem(service, response) == (
            (413, "the pictures of the form are too large") if len(broken) > 1 << 20
            else (400, "the form cannot be read; open the page again and repeat it")
        )  # fmt: skip
    service.token = "of another session"
    body = MULTIPART.format(token=service.token).encode()
    assert service.ask("POST", "/files", "", body, content_type=kind).status == 403


@pytest.mark.parametrize(
    ("fault", "word", "status", "sentence", "later"),
    [
        (HoldingError("x"), "items", 418, "a teapot", 7),
        (Refusal(409, IbiError("x"), ("retry-after", "9")), "items", 409, "x", 9),
        (Refusal(409, IbiError("x")), "items", 409, "x", None),
        (IbiError("x"), "items", 422, "x", None),
        (SetupError("x"), "items", 422, "x", None),
        (SetupError("x"), "read", 503, LATER, 10),
        (KeyError("x"), "items", 503, LATER, 10),
    ],
)
def test_a_problem_is_shown_beside_what_was_typed(
    service: Service, fault: Exception, word: str, status: int, sentence: str, later: int | None
) -> None:
    service.sign_in()
    service.fault = fault
    response = service.send(f"/{word}/a", text="b")
    assert problem(service, response) == (status, sentence)
    assert service.layout.page[:2] == ("page", "a")
    assert ("text", "b") in service.layout.page[2]
    assert (service.layout.retry_after, service.layout.reads, service.layout.here) == (later, False, word)
    assert dict(response.headers).get("retry-after") == (None if later is None else str(later))
    reading = service.ask("GET", f"/{word}/a", "text=b")
    shown_of_setup = (503, LATER) if isinstance(fault, SetupError) else (status, sentence)
    assert problem(service, reading) == shown_of_setup
    assert service.layout.page == ("page", "a", (("text", "b"),))
    assert service.layout.reads
    service.ask("GET", f"/{word}/a")
    assert isinstance(service.layout.page, NoticePage)


@pytest.mark.parametrize(
    ("fault", "answer"), [(ClientGone(), 400), (asyncio.CancelledError(), 503)], ids=["gone", "stopped"]
)
def test_a_request_that_ends_early_gets_the_least(
    service: Service, fault: BaseException, answer: int
) -> None:
    service.sign_in()

    async def receive() -> dict[str, Any]:
        raise fault

    headers = {
        b"cookie": service.cookie.encode(),
        b"content-type": URLENCODED.encode(),
        b"sec-fetch-site": b"same-origin",
    }
    request = Request("POST", f"{ROOT}/items", "", headers)
    response = asyncio.run(service.administration.answer(request, receive))
    assert response.status == answer
    if answer == 503:
        assert str(service.layout.problem) == "this server is stopping; ask again later"
        assert (service.layout.retry_after, dict(response.headers)["retry-after"]) == (11, "11")
    else:
        assert response == Response(400)


def test_small_files_are_read_as_a_form() -> None:
    seen: list[str] = []
    body = MULTIPART.format(token="t").encode()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def scenario() -> Form:
        request = Request("POST", "/", "", {b"content-type": b"multipart/form-data; boundary=x"})
        async with form_with_small_files(request, receive, seen.append) as form:
            return form

    form = asyncio.run(scenario())
    assert (form.fields, form.files, seen) == ([("form_token", "t")], {"logo": b"bytes"}, ["t"])
