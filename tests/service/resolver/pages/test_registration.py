"""Applying at /-/register and asking for a new key at /-/api/keys, with Archives on real sockets."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from ibi.api.fields import schema_of
from ibi.app.resolver import site_pages
from ibi.http.public_url import PublicURL
from ibi.http.request import Request
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ArchiveTitles, is_key
from ibi.resolver.api.keys import KeyRecoveryHandler
from ibi.resolver.members.mail import MailSender
from ibi.resolver.members.status import Readiness
from ibi.resolver.pages.registration import (
    APPLICATIONS,
    LARGEST_BODY,
    ApplicationFields,
    RegistrationHandler,
)
from ibi.resolver.pages.site import Site
from ibi.resolver.registry.keys import CHALLENGE_SECONDS, is_weak_key, proof_of
from ibi.runtime.settings import ResolverSettings
from support.resolver.membership_fixture import (
    ARCHIVE,
    KEY,
    SERVICE,
    STRANGER,
    Member,
    member,
)
from support.resolver.running_resolver import Answer, Running, resolver
from support.scripted_archive import Behaviour, ReceivedRequest, ScriptedArchive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from ibi.http.response import Response

IBI = parse_ibi(ARCHIVE)
FORM = {
    "service_ibi": ARCHIVE,
    "address": "old.example",
    "mail": "admin@archive.example",
    "name": "Ada",
    "hosts": "",
}
HTML = {b"accept": b"text/html", b"host": b"urlib.net"}


class ProvingArchive(ScriptedArchive):
    """An Archive that shows something at /-/nonce."""

    shown = b""

    def behaviour_for(self, received: ReceivedRequest) -> Behaviour:
        if received.target == "/-/nonce":
            return Behaviour(self.shown) if self.shown else Behaviour(lie="status-404")
        return super().behaviour_for(received)


@dataclass
class Scene:
    at: Member
    archive: ProvingArchive
    registration: RegistrationHandler
    recovery: KeyRecoveryHandler

    async def apply(
        self, fields: dict[str, str] | bytes = FORM, source: str = STRANGER, **headers: str
    ) -> Response:
        kind = {b"content-type": b"application/x-www-form-urlencoded", b"accept": b"application/json"}
        given = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        body = fields if isinstance(fields, bytes) else urlencode(fields).encode()
        request = Request("POST", "/-/register", "", {b"host": b"urlib.net"} | kind | given, (source,))
        return await self.registration.answer(request, body)

    async def keys(self, value: Any, source: str = STRANGER, **headers: str) -> tuple[int, dict[str, Any]]:
        given = {name.replace("_", "-").encode(): word.encode() for name, word in headers.items()}
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        kind = {b"content-type": b"application/json"} | given
        response = await self.recovery.answer(Request("POST", "/-/api/keys", "", kind, (source,)), body)
        return response.status, json.loads(response.body)

    async def get(self, headers: dict[bytes, bytes] = HTML) -> Response:
        return await self.registration.answer(Request("GET", "/-/register", "", headers, (STRANGER,)), b"")


@asynccontextmanager
async def staged(
    data: Path,
    *,
    registered: bool,
    absent: bool = False,
    opened: str = "form",
    mail: MailSender | None = None,
) -> AsyncIterator[Scene]:
    archive = ProvingArchive("old", "old.example", ARCHIVE, ip="127.0.0.2")
    gone = frozenset({"old"}) if absent else frozenset[str]()
    async with member(data, [archive], registered=registered, absent=gone) as at:
        settings = ResolverSettings(address="urlib.net", service=SERVICE, registration=opened)
        letters = mail or MailSender("", "", "")
        site = Site(
            settings, at.registry, PublicURL(settings, ()), site_pages(), Readiness(at.registry), now=at.clock
        )
        registration = RegistrationHandler(
            settings, at.registry, at.confirmation, at.throttle, at.evidence, letters, site
        )
        addresses = ["urlib.net", "www.urlib.net:80"]
        recovery = KeyRecoveryHandler(
            addresses, at.registry, at.client, at.throttle, at.clock, at.evidence, letters
        )
        yield Scene(at, archive, registration, recovery)


def play(data: Path, scene: Callable[[Scene], Awaitable[None]], **more: Any) -> None:
    async def main() -> None:
        async with staged(data, **{"registered": False, **more}) as here:
            await scene(here)

    asyncio.run(main())


@pytest.mark.proves("REG-01", "REG-02", "MSG-21")
def test_an_application_waits_for_approval_and_its_key_is_shown_once(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        answer = await here.apply()
        facts = json.loads(answer.body)
        key = facts["key"]
        assert (answer.status, facts["service_ibi"]) == (200, ARCHIVE)
        assert is_key(key)
        assert not is_weak_key(key)
        assert dict(answer.headers)["cache-control"] == "no-store"
        assert (await here.at.include("old.example", key=key)).status == 403
        assert here.at.addresses == []
        here.at.registry.approve(IBI)
        assert (await here.at.include("old.example", key=key)).status == 200
        assert here.at.addresses == ["old.example"]
        known = here.at.registry.entry(IBI)
        assert known is not None
        assert (known.contact, known.contact_name) == ("admin@archive.example", "Ada")
        assert here.at.evidence.of("registered") == [{"ibi": ARCHIVE, "by": "form"}]
        keys.append(key)

    keys: list[str] = []
    play(tmp_path, scene)
    for file in tmp_path.glob("registry*"):
        assert keys[0].encode() not in file.read_bytes()


def test_an_approved_archive_cannot_begin_at_another_address_than_it_applied_with(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        key = json.loads((await here.apply()).body)["key"]
        here.at.registry.approve(IBI)
        assert (await here.at.include("127.0.0.3", key=key)).status == 403

    play(tmp_path, scene)


def test_a_refused_application_is_forgotten_and_may_come_again(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        await here.apply()
        again = await here.apply()
        assert again.status == 409
        assert "has applied already" in again.body.decode()
        here.at.registry.refuse(IBI)
        assert here.at.registry.registered() == []
        assert (await here.apply()).status == 200

    play(tmp_path, scene)


def test_who_is_registered_already_cannot_apply(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        again = await here.apply()
        assert again.status == 409
        assert "is registered here already" in again.body.decode()
        assert here.at.registry.check_key(IBI, KEY)

    play(tmp_path, scene, registered=True)


def test_the_administrator_s_word_settles_an_application(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        await here.apply()
        assert here.at.registry.register(IBI, KEY) == KEY
        known = here.at.registry.entry(IBI)
        assert known is not None
        assert not known.applied

    play(tmp_path, scene)


def test_who_does_not_confirm_at_its_address_cannot_apply(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        assert (await here.apply()).status == 422
        assert here.at.registry.registered() == []

    play(tmp_path, scene, absent=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("service_ibi", ""),
        ("service_ibi", "nothing"),
        ("service_ibi", "urlib.net/www/2014/03.22.01.53"),
        ("address", ""),
        ("address", "a b"),
        ("address", "old.example/path"),
        ("address", "169.254.169.254"),
        ("address", "urlib.net"),
        ("mail", ""),
        ("mail", "a@b\r\nBcc: c@d"),
        ("hosts", "a b c/d"),
        ("hosts", "a " * 200),
    ],
)
def test_a_field_outside_its_domain_is_one_sentence(tmp_path: Path, name: str, value: str) -> None:
    async def scene(here: Scene) -> None:
        answer = await here.apply(FORM | {name: value})
        assert answer.status == 422
        problem = json.loads(answer.body)["problem"]
        assert problem
        assert "\n" not in problem
        assert here.at.registry.registered() == []

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        *((name, "  ", f"the field {name} is missing") for name in ("service_ibi", "address", "mail")),
        ("service_ibi", "i" * 513, "service_ibi is a text of at most 512 characters"),
        ("address", "a" * 257, "address is a text of at most 256 characters"),
        ("mail", "m" * 255, "mail is a text of at most 254 characters"),
        ("name", "n" * 101, "name is a text of at most 100 characters"),
        ("hosts", "h" * 513, "hosts is a text of at most 512 characters"),
        ("mail", "no mail", "this is not a plain mail address: no mail"),
    ],
)
def test_a_field_that_is_missing_or_too_long_is_named_as_in_a_registration(
    tmp_path: Path, name: str, value: str, problem: str
) -> None:
    async def scene(here: Scene) -> None:
        answer = await here.apply(FORM | {name: value})
        assert (answer.status, json.loads(answer.body)["problem"]) == (422, problem)
        assert here.at.registry.registered() == []

    play(tmp_path, scene)


def test_the_form_has_the_fields_of_an_application_and_their_limits(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        text = (await here.get()).body.decode()
        limits = dict(re.findall(r'name="(\w+)" type="\w+" value="" maxlength="(\d+)"', text))
        declared = schema_of(ApplicationFields)["properties"]
        assert limits == {each: str(schema["maxLength"]) for each, schema in declared.items()}
        required = set(re.findall(r'<input id="(\w+)"[^>]* required>', text))
        assert required == set(schema_of(ApplicationFields)["required"])

    play(tmp_path, scene)


def test_a_form_of_another_site_or_no_form_at_all_is_refused(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        foreign = await here.apply(origin="http://evil.example")
        assert foreign.status == 403
        assert json.loads(foreign.body)["problem"] == "the form was sent from another site"
        assert (await here.apply(origin="null")).status == 403
        assert (await here.apply(origin="http://[")).status == 403
        assert (await here.apply(sec_fetch_site="cross-site")).status == 403
        other = await here.apply(content_type="application/json")
        assert other.status == 415
        assert json.loads(other.body)["problem"] == "this is not the form that was expected"
        for body in (b"\xff\xfe", b"a=1&" * 100, b"service_ibi=a&service_ibi=b", b"other=1", b"mail=%ff"):
            assert (await here.apply(body)).status == 415
        assert here.at.registry.registered() == []
        assert (await here.apply(origin="https://urlib.net", sec_fetch_site="same-origin")).status == 200

    play(tmp_path, scene)


def test_one_source_applies_a_few_times_only_and_others_still_can(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        faulty = FORM | {"mail": ""}
        statuses = [(await here.apply(faulty)).status for _ in range(APPLICATIONS.most + 1)]
        assert statuses == [422] * APPLICATIONS.most + [429]
        answer = await here.apply()
        assert 0 < int(dict(answer.headers)["retry-after"]) <= APPLICATIONS.seconds + 1
        assert (await here.apply(source="127.0.0.99")).status == 200

    play(tmp_path, scene)


def test_so_many_applications_wait_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ibi.resolver.registry.registrations.MOST_APPLICATIONS", 3)

    async def scene(here: Scene) -> None:
        for number in range(3):
            ibi = parse_ibi(f"archive.example/a{number}/2026/01.02.03.04")
            assert here.at.registry.apply(ibi, "a.example", "a@b.example")
        one_more = await here.apply()
        assert one_more.status == 409
        assert "too many Archives wait for a decision" in one_more.body.decode()

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("service_ibi", "archive.example/a/2026/1.2"), ("mail", "no mail"), ("address", "127.0.0.1"), ("hosts", "a_b"),
        ("title", "x" * 201), ("address", "gone.example"),
    ],
)  # fmt: skip
def test_a_fault_is_shown_at_its_field_and_at_the_top(tmp_path: Path, name: str, value: str) -> None:
    async def scene(here: Scene) -> None:
        body = (await here.apply(FORM | {name: value}, accept="text/html")).body.decode()
        assert f'<a href="#{name}">' in body
        assert f'aria-describedby="{name}-fault"' in body
        assert f'<p class="fault" id="{name}-fault">' in body
        assert "<title>Error: " in body

    play(tmp_path, scene)


def test_an_application_names_the_archive_and_its_page_tells_what_comes_next(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        form = (await here.get()).body.decode()
        assert 'class="here" aria-current="step"><strong>You send the request' in form
        names = {"title": " Vale  <Novo> ", "title_pt": "Vale  <velho>"}
        done = (await here.apply(FORM | names, accept="text/html")).body.decode()
        assert 'class="here" aria-current="step"><strong>You get its key' in done
        assert "copy.js" in done
        (applied,) = here.at.registry.registered()
        assert applied.titles == ArchiveTitles("Vale <Novo>", "Vale <velho>")
        here.at.registry.approve(IBI)
        key = re.search(r'<pre class="pick"[^>]*>([0-9-]+)</pre>', done)
        assert key
        assert (await here.at.include("old.example", key=key[1])).status == 200
        assert [each.titles for each in here.at.registry.archives()] == [applied.titles]

    play(tmp_path, scene)


def test_where_registration_is_closed_there_is_no_such_page(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        assert b"the administrator of the resolver registers Archives" in (await here.get()).body
        assert b"<form" not in (await here.get()).body
        assert (await here.get()).status == 404
        assert (await here.apply()).status == 404
        assert here.at.registry.registered() == []

    play(tmp_path, scene, opened="closed")


def test_the_page_is_html_and_shows_what_was_typed_as_text(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        form = await here.get()
        assert (form.status, form.content_type) == (200, "text/html; charset=utf-8")
        assert b'action="/-/register" method="post"' in form.body
        typed = FORM | {"mail": '"><script>alert(1)</script>'}
        faulty = await here.apply(typed, accept="text/html")
        assert faulty.status == 422
        assert b"<script>" not in faulty.body
        assert b"&lt;script&gt;" in faulty.body
        done = await here.apply(accept="text/html")
        (row,) = here.at.registry.registered()
        assert row.applied
        assert done.body.count(b"<pre") == 1
        assert dict(done.headers)["cache-control"] == "no-store"
        assert (await here.get({b"accept": b"text/plain"})).body.startswith(b"POST service_ibi")

    play(tmp_path, scene)


@pytest.mark.proves("MSG-21")
def test_a_new_key_for_who_shows_the_proof_at_its_confirmed_address(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        await here.at.include("old.example")
        status, facts = await here.keys({"service_ibi": ARCHIVE})
        assert (status, facts["at"], facts["seconds"]) == (200, "/-/nonce", CHALLENGE_SECONDS)
        proof = {"service_ibi": ARCHIVE.upper(), "challenge": facts["challenge"]}
        assert (await here.keys(proof))[0] == 403
        here.archive.shown = proof_of(facts["challenge"], "www.urlib.net").encode() + b"\n"
        status, given = await here.keys(proof)
        assert status == 200
        assert is_key(given["key"])
        assert not here.at.registry.check_key(IBI, KEY)
        assert here.at.registry.check_key(IBI, given["key"])
        assert here.at.addresses == ["old.example"]
        assert here.at.evidence.of("rotated") == [{"ibi": ARCHIVE, "by": "proof"}]
        assert (await here.keys(proof))[0] == 403  # once

    play(tmp_path, scene, registered=True)


def test_a_key_is_not_given_where_that_cannot_be_recorded(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        here.at.evidence.full = True
        assert (await here.apply()).status == 503
        assert here.at.registry.registered() == []
        here.at.evidence.full = False
        assert (await here.apply()).status == 200
        here.at.registry.approve(IBI)
        secret = here.at.registry.challenge_secret(IBI)
        _, facts = await here.keys({"service_ibi": ARCHIVE})
        proof = {"service_ibi": ARCHIVE, "challenge": facts["challenge"]}
        here.archive.shown = proof_of(facts["challenge"], "urlib.net").encode()
        here.at.evidence.full = True
        assert (await here.keys(proof))[0] == 503
        assert here.at.registry.challenge_secret(IBI) == secret
        here.at.evidence.full = False
        assert (await here.keys(proof))[0] == 200

    play(tmp_path, scene)


def test_the_proof_does_not_show_the_challenge_and_an_old_or_made_up_one_is_refused(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        await here.at.include("old.example")
        _, facts = await here.keys({"service_ibi": ARCHIVE})
        shown = proof_of(facts["challenge"], "urlib.net")
        here.archive.shown = shown.encode()
        assert shown not in facts["challenge"]
        other = "dpi.inpe.br/banon/1999/01.09.22.14"
        _, foreign = await here.keys({"service_ibi": other})
        until, _, signature = facts["challenge"].split("-")
        for challenge in (
            shown,
            foreign["challenge"],
            f"{until}-{'0' * 32}-{signature}",
            f"9{until}-{facts['challenge'].partition('-')[2]}",
            "9" * 5000,
            "-",
        ):
            assert (await here.keys({"service_ibi": ARCHIVE, "challenge": challenge}))[0] == 403
        here.at.clock.now += CHALLENGE_SECONDS + 1
        assert (await here.keys({"service_ibi": ARCHIVE, "challenge": facts["challenge"]}))[0] == 403
        assert here.at.registry.check_key(IBI, KEY)

    play(tmp_path, scene, registered=True)


def test_a_proof_that_another_resolver_has_begged_is_none_here(tmp_path: Path) -> None:
    """It began here in the name of an Archive that has question it for a new key, and passed our challenge on."""

    async def scene(here: Scene) -> None:
        await here.at.include("old.example")
        _, facts = await here.keys({"service_ibi": ARCHIVE})
        for address in ("evil.example", "", "urlib.net:8080"):
            here.archive.shown = proof_of(facts["challenge"], address).encode()
            assert (await here.keys({"service_ibi": ARCHIVE, "challenge": facts["challenge"]}))[0] == 403
        assert here.at.registry.check_key(IBI, KEY)

    play(tmp_path, scene, registered=True)


def test_who_never_confirmed_or_is_not_registered_gets_no_key(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        for ibi in (ARCHIVE, "dpi.inpe.br/banon/1999/01.09.22.14"):
            status, facts = await here.keys({"service_ibi": ibi})
            assert status == 200
            here.archive.shown = proof_of(facts["challenge"], "urlib.net").encode()
            assert (await here.keys({"service_ibi": ibi, "challenge": facts["challenge"]}))[0] == 403

    play(tmp_path, scene, registered=True)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"\xff", b"[" * 5000, b'{"service_ibi": 1}', b'{"service_ibi": "nothing"}',
     b'{"challenge": "x"}', b'{"service_ibi": "a.b/c/2000/01.01.01.01", "challenge": {}}'],
)  # fmt: skip
def test_what_is_no_request_for_a_key_is_one_sentence(tmp_path: Path, body: bytes) -> None:
    async def scene(here: Scene) -> None:
        status, facts = await here.keys(body)
        assert status == 400
        assert "\n" not in facts["problem"]

    play(tmp_path, scene)


def test_requests_for_keys_come_from_programs_and_not_too_often(tmp_path: Path) -> None:
    async def scene(here: Scene) -> None:
        assert (await here.keys({"service_ibi": ARCHIVE}, origin="http://evil.example"))[0] == 415
        assert (await here.keys({"service_ibi": ARCHIVE}, content_type="text/plain"))[0] == 415
        statuses = [(await here.keys({"service_ibi": ARCHIVE}))[0] for _ in range(11)]
        assert statuses == [200] * 10 + [429]
        assert (await here.keys({"service_ibi": ARCHIVE}, source="127.0.0.99"))[0] == 200

    play(tmp_path, scene)


def test_both_paths_answer_over_http_and_take_no_more_than_they_need(tmp_path: Path) -> None:
    async def post(running: Running, path: str, kind: str, body: bytes) -> Answer:
        head = f"POST {path} HTTP/1.1\r\nHost: urlib.net\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        return await running.say(f"{head}Connection: close\r\n\r\n".encode() + body)

    async def main() -> None:
        async with resolver(tmp_path, [], registration="form") as running:
            form = "application/x-www-form-urlencoded"
            assert (await running.ask("/-/register", "Accept: text/html")).status == 200
            assert (await post(running, "/-/register", form, b"service_ibi=nothing")).status == 422
            assert (await post(running, "/-/register", form, b"a" * (LARGEST_BODY + 1))).status == 413
            question = json.dumps({"service_ibi": ARCHIVE}).encode()
            facts = await post(running, "/-/api/keys", "application/json", question)
            assert facts.status == 200
            assert json.loads(facts.body).keys() == {"challenge", "at", "seconds"}
            assert facts.headers["cache-control"] == "no-store"
            assert (await running.ask("/-/api/keys")).status == 405
            assert (await running.ask("/-/register", method="DELETE")).status == 405
            assert (await post(running, "/-/healthz", form, b"")).status == 405
            assert (await running.ask("/-/register", host="evil.example")).status == 421

    asyncio.run(main())
