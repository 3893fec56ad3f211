"""Signing in, without a server: cookies, whose form it is, how a client reaches us, and each refusal whole."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from ibi.accounts import sign_in
from ibi.accounts.people import Account, Role
from ibi.accounts.sessions import IDLE, Sessions
from ibi.accounts.sign_in import Authentication, Client, SignedInUser, client_of
from ibi.http.request import Request
from ibi.http.response import Refusal

PASSWORD = "seven words of a pass phrase"
NETWORK = "192.0.2.1"
SECURE = Client(NETWORK, secure=True, local=False)
LOCAL = Client("127.0.0.1", secure=False, local=True)
PAGE = "open the page again and repeat it"


class Clock:
    """The time of a test."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def seconds(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(tmp_path: Path, clock: Clock) -> Iterator[Authentication]:
    made = Authentication(tmp_path, "archive.example", clock.seconds)
    made.accounts.add("Maria", Role.KEEPER, PASSWORD, "2026-11-22T10:00:00Z")
    yield made
    made.close()


def request(query: str = "", **headers: str) -> Request:
    known = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Request("POST", "/-/admin/sign-in", query, known)


def enter(
    service: Authentication,
    wanted: Request,
    client: Client = SECURE,
    name: str = "maria",
    password: str = PASSWORD,
) -> tuple[SignedInUser, tuple[str, ...]]:
    return asyncio.run(service.sign_in(wanted, client, name, password))


def refused(service: Authentication, name: str, client: Client = SECURE, **headers: str) -> Refusal:
    with pytest.raises(Refusal) as caught:
        enter(service, request(**headers), client, name, "wrong")
    return caught.value


def sent_back(cookies: tuple[str, ...]) -> str:
    return "; ".join(cookie.partition(";")[0] for cookie in cookies)


def test_a_user_who_signs_in_gets_two_cookies_for_this_host_alone(service: Authentication) -> None:
    label = f"ibi-{sha256(b'archive.example').hexdigest()[:8]}"
    for client, prefix, ending in ((SECURE, "__Host-", "; Secure"), (LOCAL, "", "")):
        signed, cookies = enter(service, request("lang=pt-BR"), client, "\uff2d\uff21\uff32\uff29\uff21 ")
        assert signed == SignedInUser(
            "Maria",
            Role.KEEPER,
            sha256(f"form {signed.session}".encode()).hexdigest(),
            signed.session,
            "pt-BR",
        )
        known, session = cookies
        common = f"Path=/; Max-Age={{}}; HttpOnly; SameSite=Strict{ending}"
        assert session == f"{prefix}{label}={signed.session}; {common.format(12 * 3600)}"
        assert re.fullmatch(
            f"{prefix}{label}-known=[0-9a-f]{{32}}\\.[0-9a-f]{{64}}; {common.format(365 * 86_400)}", known
        )
        back = request(cookie=f"other=1; {sent_back(cookies)}; {prefix}{label}=x")
        assert service.signed_in(back, client) == signed
        other = SECURE if client is LOCAL else LOCAL
        assert service.signed_in(back, other) is None
        assert service.sign_out(signed, client, everywhere=False) == (f"{prefix}{label}=; {common.format(0)}")
        assert service.signed_in(back, client) is None


def test_of_a_typed_name_only_the_beginning_is_read(service: Authentication) -> None:
    enter(service, request(), name="maria".rjust(256))
    with pytest.raises(Refusal) as caught:
        enter(service, request(), name="maria".rjust(257))
    assert shown(caught.value) == (403, WRONG, ())


def test_signing_out_ends_one_session_or_all(service: Authentication) -> None:
    for everywhere in (False, True):
        signed, cookies = enter(service, request())
        backs = [request(cookie=sent_back(each)) for each in (cookies, enter(service, request())[1])]
        service.sign_out(signed, SECURE, everywhere=everywhere)
        assert [service.signed_in(back, SECURE) is None for back in backs] == [True, everywhere]


def test_a_sign_in_ends_the_session_that_the_browser_had_and_keeps_its_number(
    service: Authentication,
) -> None:
    _, first = enter(service, request())
    before = request(cookie=sent_back(first))
    _, second = enter(service, before)
    assert service.signed_in(before, SECURE) is None
    assert second[0] == first[0]
    assert second[1] != first[1]


def test_a_session_is_of_an_account_and_of_its_password(service: Authentication) -> None:
    signed, cookies = enter(service, request())
    back = request(cookie=sent_back(cookies))
    service.accounts.set_password("maria", f"another {PASSWORD}")
    assert service.signed_in(back, SECURE) is None
    assert service.sessions.find(signed.session) is None
    _, cookies = enter(service, request(), password=f"another {PASSWORD}")
    service.accounts.remove("maria")
    assert service.signed_in(request(cookie=sent_back(cookies)), SECURE) is None


@pytest.mark.parametrize("length", [0, 64, 65])
def test_a_session_has_a_number_of_at_most_so_many_characters(
    service: Authentication, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    looked_for: list[str] = []
    monkeypatch.setattr(service.sessions, "find", looked_for.append)
    name = f"__Host-ibi-{sha256(b'archive.example').hexdigest()[:8]}"
    assert service.signed_in(request(cookie=f"{name}={'x' * length}"), SECURE) is None
    assert looked_for == (["x" * length] if length == 64 else [])


def test_the_language_of_a_session_is_the_one_that_was_chosen_last(service: Authentication) -> None:
    _, cookies = enter(service, request("lang=pt-BR"))
    back = sent_back(cookies)
    languages = []
    for query in ("", "lang=en", ""):
        signed = service.signed_in(request(query, cookie=back), SECURE)
        assert signed is not None
        languages.append(signed.language)
    assert languages == ["pt-BR", "en", "en"]


WRONG = "the name or the password is wrong; look at both and try again"
BUSY = (503, "too many people are signing in just now; try again in a moment", (("retry-after", "6"),))
LAST_SECOND = (429, "too many attempts; wait 1 minutes, then try again", (("retry-after", "2"),))
"""What is said when one second is left."""


def shown(refusal: Refusal) -> tuple[int, str, tuple[tuple[str, str], ...]]:
    return refusal.status, str(refusal.why), tuple(refusal.headers)


def test_after_five_wrong_passwords_of_one_account_from_one_network_all_wait(
    service: Authentication, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "is_hash_of", lambda _kept, password: password == PASSWORD)
    for _ in range(5):
        assert shown(refused(service, "maria")) == (403, WRONG, ())
        clock.now += 100
    assert shown(refused(service, "MARIA")) == (
        429, "too many attempts; wait 7 minutes, then try again", (("retry-after", "401"),),
    )  # fmt: skip
    assert refused(service, "maria", SECURE._replace(address="192.0.2.2")).status == 403
    assert refused(service, "joana").status == 403
    clock.now += 399.5
    assert shown(refused(service, "maria"))[2] == (("retry-after", "2"),)
    clock.now += 0.5
    enter(service, request())
    for _ in range(4):
        assert refused(service, "maria").status == 403


@pytest.mark.parametrize(
    ("names", "address", "seconds", "most"),
    [
        (lambda number: f"name{number}", lambda _: NETWORK, 899, 30),
        (lambda _: "maria", lambda number: f"192.0.{number}.1", 3599, 50),
    ],
    ids=["of one network", "of one account"],
)
def test_wrong_passwords_count_together(
    service: Authentication, clock: Clock, monkeypatch: pytest.MonkeyPatch, names: object, address: object,
    seconds: int, most: int,
) -> None:  # fmt: skip
    monkeypatch.setattr(sign_in, "is_hash_of", lambda _kept, password: password == PASSWORD)

    def attempt(number: int) -> Refusal:
        client = SECURE._replace(address=address(number))  # type: ignore[operator]  # functions of the table
        return refused(service, names(number), client)  # type: ignore[operator]  # the same

    assert [attempt(number).status for number in range(most + 1)] == [403] * most + [429]
    clock.now += seconds
    assert shown(attempt(most + 2)) == LAST_SECOND
    clock.now += 1
    assert attempt(most + 3).status == 403


def test_a_browser_that_is_known_has_attempts_of_its_own(
    service: Authentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "is_hash_of", lambda _kept, password: password == PASSWORD)
    known = sent_back(enter(service, request())[1][:1])
    for _ in range(5):
        refused(service, "maria")
    assert refused(service, "maria").status == 429
    changed = known[:-1] + ("0" if known[-1] != "0" else "1")
    assert refused(service, "maria", cookie=changed).status == 429
    assert [refused(service, "maria", cookie=known).status for _ in range(6)] == [403] * 5 + [429]


def test_right_passwords_use_up_no_attempts(service: Authentication, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "is_hash_of", lambda _kept, password: password == PASSWORD)
    for _ in range(31):
        enter(service, request())
    refused(service, "joana")
    assert refused(service, "joana").status == 403


@pytest.mark.parametrize(("limit", "seconds"), [("session", 899), ("account", 3599)])
def test_a_present_password_is_checked_so_often(
    service: Authentication, clock: Clock, monkeypatch: pytest.MonkeyPatch, limit: str, seconds: int
) -> None:
    monkeypatch.setattr(sign_in, "is_hash_of", lambda _kept, password: password == PASSWORD)
    signed, _ = enter(service, request())

    def attempt(number: int) -> tuple[int, str, tuple[tuple[str, str], ...]]:
        user = signed if limit == "session" else signed._replace(session=str(number))
        with pytest.raises(Refusal) as caught:
            service.check_password(user, "wrong")
        return shown(caught.value)

    most = 5 if limit == "session" else 50
    wrong = (403, "this is not your current password", ())
    assert [attempt(number) for number in range(most)] == [wrong] * most
    clock.now += seconds
    assert attempt(most) == LAST_SECOND
    clock.now += 1
    assert attempt(most + 1) == wrong
    service.check_password(signed, PASSWORD)
    if limit == "session":
        assert [attempt(number) for number in range(5)] == [wrong] * 5


def test_while_very_many_sign_in_one_more_is_asked_to_come_again(
    service: Authentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "MOST_WAITING", 0)
    assert shown(refused(service, "maria")) == BUSY


def test_two_passwords_are_compared_at_a_time_while_sixteen_wait(
    service: Authentication, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, both, go_on = list[str](), threading.Barrier(3), threading.Event()

    def compare(_kept: str, _password: str) -> bool:
        entered.append(threading.current_thread().name)
        if not go_on.is_set():
            both.wait(30)
        return not go_on.wait(30)

    monkeypatch.setattr(sign_in, "is_hash_of", compare)
    monkeypatch.setattr(sign_in, "decoy_hash", lambda: "")

    async def attempt(number: int) -> tuple[int, str, tuple[tuple[str, str], ...]]:
        with pytest.raises(Refusal) as caught:
            await service.sign_in(request(), SECURE, f"name{number}", "wrong")
        return shown(caught.value)

    async def play() -> list[tuple[int, str, tuple[tuple[str, str], ...]]]:
        tasks = [asyncio.create_task(attempt(number)) for number in range(17)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(both.wait, 30)
        go_on.set()
        return sorted(await asyncio.gather(*tasks))

    assert asyncio.run(play()) == [(403, WRONG, ())] * 16 + [BUSY]
    assert (len(entered), len(set(entered))) == (16, 2)


HTTPS = (
    "signing in needs https: open this page by an address that begins with https, or ask the administrator of the "
    "server to provide one"
)


@pytest.mark.parametrize(("secure", "local"), [(False, False), (True, False), (False, True), (True, True)])
def test_a_password_comes_by_https_or_from_this_machine(
    service: Authentication, *, secure: bool, local: bool
) -> None:
    client = Client(None, secure, local)
    if secure or local:
        service.check_transport(client)
        enter(service, request(), client)
    else:
        assert shown(refused(service, "maria", client)) == (403, HTTPS, ())


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({}, False),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"origin": "https://A.example:80", "host": "a.Example:80"}, True),
        ({"origin": "https://a.example", "host": "a.example", "sec_fetch_site": "same-origin"}, True),
        ({"origin": "https://a.example", "host": "a.example", "sec_fetch_site": "cross-site"}, False),
        ({"origin": "https://b.example", "host": "a.example", "sec_fetch_site": "same-origin"}, False),
        ({"origin": "null", "host": ""}, False),
        ({"origin": "null", "host": "a.example"}, False),
        ({"origin": "http://[", "host": "a.example"}, False),
    ],
)
def test_a_form_comes_from_a_page_of_ours(headers: dict[str, str], ours: bool) -> None:
    if ours:
        Authentication.check_origin(request(**headers))
        return
    with pytest.raises(Refusal) as caught:
        Authentication.check_origin(request(**headers))
    assert shown(caught.value) == (403, f"this form was not sent from a page of ours; {PAGE}", ())


def test_a_form_belongs_to_its_session() -> None:
    signed = SignedInUser("maria", Role.KEEPER, "token", "session")
    Authentication.check_form(signed, "token")
    for token in ("", "tokeN", "\ud800"):
        with pytest.raises(Refusal) as caught:
            Authentication.check_form(signed, token)
        assert shown(caught.value) == (403, f"this form belongs to an earlier session; {PAGE}", ())


@pytest.mark.parametrize(
    ("headers", "peer", "proxied", "secure", "local"),
    [
        ({"host": "localhost:8080"}, "127.0.0.1", False, False, True),
        ({"host": "[::1]"}, "::1", False, False, True),
        ({"host": "archive.example"}, "127.0.0.1", False, False, False),
        ({"host": "localhost"}, "192.0.2.1", False, False, False),
        ({"host": "localhost"}, "127.0.0.1", True, False, False),
        *[
            ({"host": "localhost", name: "x"}, "127.0.0.1", False, False, False)
            for name in (
                "forwarded",
                "via",
                "x_forwarded_for",
                "x_forwarded_host",
                "x_forwarded_proto",
                "x_real_ip",
            )
        ],
        ({"host": "archive.example", "x_forwarded_proto": "https"}, "192.0.2.1", True, True, False),
        ({"host": "archive.example", "x_forwarded_proto": "https"}, "192.0.2.1", False, False, False),
    ],
)
def test_how_a_client_reaches_us(
    headers: dict[str, str], peer: str, proxied: bool, secure: bool, local: bool
) -> None:  # fmt: skip
    known = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    wanted = Request("GET", "/", "", known, peer=peer)
    assert client_of(wanted, "192.0.2.9", proxied=proxied) == Client("192.0.2.9", secure, local)


def test_an_account_has_a_stamp_that_its_password_alone_changes() -> None:
    account = Account("Maria", Role.KEEPER, "$argon2x", "2026-11-22T10:00:00Z")
    assert account.stamp == sha256(b"$argon2x").hexdigest()[:32]
    assert account._replace(name="x", role=Role.DEPOSITOR, made="").stamp == account.stamp


@pytest.mark.parametrize(("seconds", "is_noted"), [(59.75, False), (60.0, True)])
def test_the_use_of_a_session_is_noted_once_a_minute(
    tmp_path: Path, seconds: float, *, is_noted: bool
) -> None:
    clock = Clock()
    sessions = Sessions(tmp_path / "sessions.sqlite", clock.seconds)
    session = sessions.start("maria", "stamp")
    clock.now += seconds
    assert sessions.find(session) is not None
    clock.now += IDLE - seconds
    assert (sessions.find(session) is not None) is is_noted
    sessions.close()
