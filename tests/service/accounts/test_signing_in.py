"""Signing in at the administration, over HTTP: who is let in, how long, and which forms count (threat T44)."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

import pytest

from ibi.accounts import people, sign_in
from ibi.accounts.administration import Administration
from ibi.accounts.forms import LONGEST_FIELDS, LONGEST_KEPT
from ibi.accounts.layout import Layout, PageHandler
from ibi.accounts.people import AccountManager, Accounts, Role, check_password, new_password
from ibi.accounts.sessions import ABSOLUTE, IDLE, MOST_SESSIONS, AttemptLimit, Sessions
from ibi.accounts.sign_in import Authentication, client_of
from ibi.accounts.tokens import Scope
from ibi.errors import IbiError, ParseError, SetupError
from ibi.http.request import Request
from ibi.http.response import Refusal
from support.archive.administration_fixture import PASSWORD, Librarian, administered_archive
from support.archive.administration_fixture import AdministeredArchive as Served

MADE = "2026-11-22T10:00:00Z"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with administered_archive(tmp_path_factory.mktemp("office")) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_attempts_before(served: Served) -> None:
    path = served.archive.data / "sessions.sqlite"
    if path.exists():
        with sqlite3.connect(path, timeout=10) as database:
            database.execute("DELETE FROM attempt")
        database.close()


class At:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def test_without_a_session_pages_lead_to_the_sign_in_and_back(served: Served) -> None:
    stranger = served.new_browser()
    answer = stranger.look("/-/admin/items?after=a")
    assert answer.status == 303
    page = stranger.gone_to(answer)
    assert "<h1>Sign in</h1>" in page.text
    fields = (("name", "maria"), ("password", PASSWORD), ("next", stranger.hidden("next")))
    assert stranger.post("/-/admin/sign-in", *fields).headers["location"] == "/-/admin/items?after=a"


@pytest.mark.parametrize(
    "where",
    [
        "//far.example",
        "http://far.example",
        "/-/admin//far.example",
        "/-/admin\r\nx: y",
        "/-/administrator",
        "/-/admin/../../a.example/b/2010/01.01.00.01",
        "/-/admin/%2E%2e/%2e./a",
        "/-/admin#/x",
    ],
)
def test_signing_in_leads_nowhere_else(served: Served, where: str) -> None:
    stranger = served.new_browser()
    answer = stranger.post("/-/admin/sign-in", ("name", "maria"), ("password", PASSWORD), ("next", where))
    assert (answer.status, answer.headers["location"]) == (303, "/-/admin")


def test_the_cookie_is_for_this_host_alone_and_for_no_script(served: Served) -> None:
    answer = served.new_browser().sign_in()
    assert re.fullmatch(
        r"ibi-[0-9a-f]{8}=[\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict",
        answer.headers["set-cookie"],
    )
    assert answer.headers["cache-control"] == "no-store"


def test_of_a_session_only_a_hash_is_kept(served: Served) -> None:
    maria = served.new_browser("maria")
    [session] = maria.cookies.values()
    files = [path for path in served.archive.data.iterdir() if path.name.startswith("sessions.sqlite")]
    assert files
    assert all(session.encode() not in path.read_bytes() for path in files)
    assert (served.archive.data / "sessions.sqlite").stat().st_mode & 0o077 == 0


def test_signing_in_again_ends_the_session_that_was_there(served: Served) -> None:
    maria = served.new_browser("maria")
    before = dict(maria.cookies)
    assert maria.sign_in().status == 303
    assert maria.cookies != before
    assert Librarian(served.port, before).look("/-/admin").status == 303
    assert maria.look("/-/admin").status == 200


def test_an_unknown_name_and_a_wrong_password_get_the_same_answer(served: Served) -> None:
    wrong, unknown = (served.new_browser().sign_in(name, "something else") for name in ("maria", "nobody"))
    assert wrong.status == unknown.status == 403
    assert "the name or the password is wrong" in wrong.text.lower()
    plain = [re.sub(r'nonce[-=]"?[\w-]+|value="\w*"', "", each.text) for each in (wrong, unknown)]
    assert plain[0] == plain[1]
    assert "set-cookie" not in wrong.headers


def test_after_five_wrong_passwords_even_the_right_one_has_to_wait(served: Served) -> None:
    stranger = served.new_browser()
    statuses = [stranger.sign_in("maria", f"wrong {number}").status for number in range(6)]
    assert statuses == [403] * 5 + [429]
    answer = stranger.sign_in("maria")
    assert answer.status == 429
    assert 0 < int(answer.headers["retry-after"]) <= 901
    assert "minutes" in answer.text
    assert stranger.sign_in("root").status == 303  # others are not kept out


def test_guesses_of_strangers_do_not_lock_out_a_known_browser(served: Served) -> None:
    maria, ana, stranger = served.new_browser("maria"), served.new_browser(), served.new_browser()
    while stranger.sign_in("maria", "wrong").status != 429:  # of the same network, and for this account
        pass
    assert ana.sign_in("maria").status == 429  # with a browser that has not been here
    assert maria.sign_in("maria").status == 303
    while stranger.sign_in("root", "wrong").status != 429:
        pass
    assert maria.sign_in("root").status == 429  # her browser is known for her own account
    statuses = [maria.sign_in("maria", "wrong").status for _ in range(sign_in.WRONG_BY_ONE + 1)]
    assert statuses == [403] * sign_in.WRONG_BY_ONE + [429]  # a known browser is limited, too
    assert maria.sign_in("maria").status == 429


def test_wrong_passwords_from_everywhere_do_not_close_a_known_browser(tmp_path: Path) -> None:
    made = sign_in.Authentication(tmp_path, "a", At())
    made.accounts.add("ana", Role.DEPOSITOR, PASSWORD, MADE)

    async def tried(password: str, number: int, cookie: str = "") -> str:
        request = Request("POST", "/-/admin/sign-in", "", {b"cookie": cookie.encode()})
        caller = sign_in.Client(f"198.51.{number}.1", secure=True, local=False)
        _signed, cookies = await made.sign_in(request, caller, "ana", password)
        return cookies[0].partition(";")[0]

    async def main() -> None:
        known = await tried(PASSWORD, 0)
        assert known.startswith("__Host-ibi-")
        for number in range(sign_in.WRONG_FOR_ACCOUNT):
            with pytest.raises(Refusal, match="is wrong"):
                await tried("wrong", number)
        name, _, value = known.partition("=")
        device, _, signature = value.partition(".")
        forged = [
            "",
            f"{name}={device}.{'0' * 64}",
            f"{name}={'0' * 32}.{signature}",
            f"{name}=x",
            f"{name}={value}0",
        ]
        for cookie in forged:
            with pytest.raises(Refusal, match="too many attempts"):
                await tried(PASSWORD, 200, cookie)
        assert await tried(PASSWORD, 200, known) == known
        made.accounts.set_password("ana", "another good password")
        with pytest.raises(Refusal, match="too many attempts"):
            await tried("another good password", 200, known)

    asyncio.run(main())
    made.close()


def test_a_right_password_clears_the_wrong_ones_before(served: Served) -> None:
    stranger = served.new_browser()
    for _ in range(3):
        assert [stranger.sign_in("maria", "wrong").status for _ in range(4)] == [403] * 4
        assert stranger.sign_in("maria").status == 303


def test_one_network_cannot_try_one_password_on_all_accounts(served: Served) -> None:
    stranger = served.new_browser()
    statuses = [
        stranger.sign_in(f"n{number}", "password1").status for number in range(sign_in.WRONG_FROM_NETWORK + 1)
    ]
    assert statuses == [403] * sign_in.WRONG_FROM_NETWORK + [429]


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://far.example"},
        {"origin": "null"},
        {"origin": ""},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site", "origin": ""},
        {"sec_fetch_site": "none", "origin": ""},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://["},
    ],
)
def test_a_form_of_another_site_is_refused_signing_in_too(served: Served, headers: dict[str, str]) -> None:
    refused = served.new_browser().sign_in("maria", **headers)
    assert (refused.status, refused.headers.get("set-cookie")) == (403, None)
    maria = served.new_browser("root")
    maria.look("/-/admin/tokens")
    answer = maria.send("/-/admin/tokens", ("name", "evil"), ("scopes", "admin"), **headers)
    assert answer.status == 403
    assert "evil" not in maria.look("/-/admin/tokens").text


def test_a_form_needs_the_token_of_its_own_session(served: Served) -> None:
    first, second = served.new_browser("root"), served.new_browser("root")
    first.look("/-/admin/tokens")
    second.look("/-/admin/tokens")
    for token in ("", "x", first.token):
        fields = (("form_token", token), ("name", "evil"), ("scopes", "admin"))
        answer = second.post("/-/admin/tokens", *fields)
        assert answer.status == 403, token
        assert "earlier session" in answer.text
    assert second.send("/-/admin/tokens", ("name", "good"), ("scopes", "read")).status == 200


def test_no_file_is_read_before_the_token_of_the_form(served: Served) -> None:
    maria = served.new_browser("maria")
    maria.look("/-/admin/deposit")
    late = (("file", "a.txt", b"a" * 100_000), ("form_token", None, maria.token.encode()))
    assert maria.post_files("/-/admin/deposit", *late).status == 403
    staging = served.archive.data / "staging"
    assert not staging.exists() or [path for path in staging.iterdir() if path.is_file()] == []


def test_pages_are_not_cached_not_framed_and_run_no_script_of_others(served: Served) -> None:
    first, second = (served.new_browser("maria").look("/-/admin/deposit") for _ in range(2))
    policy = first.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    [nonce] = re.findall(r"script-src 'nonce-([\w-]+)'", policy)
    assert re.findall(r"<script[^>]*>", first.text) == [re.findall(r"<script[^>]*>", first.text)[0]]
    assert f'nonce="{nonce}"' in first.text
    assert nonce not in second.text
    assert " style=" not in first.text
    assert first.headers["cache-control"] == "no-store"
    assert first.headers["x-frame-options"] == "DENY"
    assert first.headers["referrer-policy"] == "same-origin"


def test_signing_out_ends_the_session_not_only_the_cookie(served: Served) -> None:
    maria = served.new_browser("maria")
    kept = dict(maria.cookies)
    maria.look("/-/admin")
    assert maria.look("/-/admin/sign-out").status == 404  # a link ends no session
    maria.look("/-/admin")
    answer = maria.send("/-/admin/sign-out")
    assert (answer.status, answer.headers["location"]) == (303, "/-/admin/sign-in?done=signed-out")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert Librarian(served.port, kept).look("/-/admin").status == 303


def test_signing_out_everywhere_ends_the_sessions_of_other_browsers(served: Served) -> None:
    here, there, other = served.new_browser("maria"), served.new_browser("maria"), served.new_browser("root")
    here.look("/-/admin/account")
    assert here.send("/-/admin/sign-out", ("everywhere", "yes")).status == 303
    assert there.look("/-/admin").status == 303
    assert other.look("/-/admin").status == 200


def test_another_password_ends_every_session_and_the_old_one_opens_nothing(served: Served) -> None:
    accounts = Accounts(served.archive.data)
    accounts.add("ana", Role.DEPOSITOR, PASSWORD, MADE)
    ana, elsewhere = served.new_browser("ana"), served.new_browser("ana")
    ana.look("/-/admin/account")
    new = ("new_password", "a longer one still"), ("again_password", "a longer one still")
    assert ana.send("/-/admin/account", ("password", "not mine at all"), *new).status == 403
    short = ("new_password", "short"), ("again_password", "short")
    assert "at least 12 characters" in ana.send("/-/admin/account", ("password", PASSWORD), *short).text
    assert ana.send("/-/admin/account", ("password", PASSWORD), *new).status == 303
    assert elsewhere.look("/-/admin").status == 303
    assert served.new_browser().sign_in("ana").status == 403
    assert served.new_browser().sign_in("ana", "a longer one still").status == 303
    still = served.new_browser()
    still.sign_in("ana", "a longer one still")
    [session] = still.cookies.values()
    sessions = Sessions(served.archive.data / "sessions.sqlite", time.time)
    accounts.set_password("ana", PASSWORD)  # at a terminal
    assert sessions.find(session) is not None
    assert still.look("/-/admin").status == 303
    assert sessions.find(session) is None
    sessions.close()
    again = served.new_browser("ana")
    accounts.remove("ana")
    assert again.look("/-/admin").status == 303


def test_over_plain_http_from_elsewhere_no_password_can_be_typed(served: Served) -> None:
    stranger = served.new_browser()
    other = {"host": "archive:80"}
    assert 'type="password"' not in stranger.ask("GET", "/-/admin/sign-in", None, **other).text
    answer = stranger.sign_in("maria", host="archive:80", origin="http://archive:80")
    assert (answer.status, answer.headers.get("set-cookie")) == (403, None)
    assert "https" in answer.text


def test_behind_a_trusted_proxy_that_speaks_https_the_cookie_is_a_secure_one(tmp_path: Path) -> None:
    with administered_archive(
        tmp_path, trusted_proxies=("127.0.0.1",), aliases=("archive.example",)
    ) as behind:
        https = {"host": "archive.example", "origin": "https://archive.example", "x_forwarded_proto": "https"}
        https |= {"x_forwarded_for": "192.0.2.7"}
        maria = behind.new_browser()
        answer = maria.sign_in("maria", **https)
        assert answer.status == 303, answer.text
        assert answer.headers["set-cookie"].startswith("__Host-ibi-")
        assert answer.headers["set-cookie"].endswith("; Secure")
        assert maria.ask("GET", "/-/admin", None, **https).status == 200
        plain = https | {"x_forwarded_proto": "http", "origin": "http://archive.example"}
        assert behind.new_browser().sign_in("maria", **plain).status == 403


def test_a_stranger_that_claims_to_be_a_proxy_is_not_trusted(served: Served) -> None:
    headers = {"host": "archive", "origin": "https://archive", "x_forwarded_proto": "https"}
    assert served.new_browser().sign_in("maria", **headers).status == 403


@pytest.mark.parametrize("header", ["forwarded", "via", "x_forwarded_for", "x_forwarded_proto", "x_real_ip"])
def test_a_proxy_on_this_machine_that_is_not_configured_takes_no_passwords(
    served: Served, header: str
) -> None:
    stranger = served.new_browser()
    traces = {header: "for=203.0.113.9" if header == "forwarded" else "203.0.113.9"}
    assert 'name="password"' in stranger.ask("GET", "/-/admin/sign-in").text
    page = stranger.ask("GET", "/-/admin/sign-in", None, **traces)
    assert 'name="password"' not in page.text
    assert "https" in page.text
    assert stranger.sign_in("maria", **traces).status == 403


def test_a_form_that_comes_after_its_session_keeps_what_was_typed(served: Served) -> None:
    maria = served.new_browser("maria")
    maria.look("/-/admin/copy")
    token = maria.token
    maria.cookies.clear()
    answer = maria.post("/-/admin/copy", ("form_token", token), ("ibi", 'my <b>"item"</b>'))
    assert answer.status == 403
    assert "your session has ended" in answer.text.lower()
    assert "<b>" not in answer.text
    maria.page = answer
    kept = (("next", maria.hidden("next")), ("kept", maria.hidden("kept")))
    again = maria.post("/-/admin/sign-in", ("name", "maria"), ("password", PASSWORD), *kept)
    assert again.status == 200
    assert 'value="my &lt;b&gt;&#34;item&#34;&lt;/b&gt;"' in again.text
    maria.page = again
    assert maria.token != token


def late(served: Served, *parts: tuple[str, str | None, bytes]) -> Librarian:
    """A user who has sent the form of a deposit after the session had ended, and sees what came of it."""
    maria = served.new_browser("maria")
    maria.look("/-/admin/deposit")
    parts = (
        ("form_token", None, maria.token.encode()),
        ("once", None, maria.hidden("once").encode()),
        *parts,
    )
    maria.cookies.clear()
    maria.page = maria.post_files("/-/admin/deposit", *parts)
    assert maria.page.status == 403
    return maria


def test_a_deposit_that_comes_after_its_session_keeps_what_was_typed_beside_its_files(served: Served) -> None:
    texts = [
        ("dc.title", None, "São José".encode()),
        ("dc.title.lang", None, b"pt"),
        ("rights", None, b"mine"),
    ]
    file = ("file", "a.bin", bytes(range(256)) * 9000)
    maria = late(served, file, *texts, ("password", None, b"typed into a wrong field"))
    assert maria.page is not None
    assert "wrong field" not in maria.page.text
    kept = (("next", maria.hidden("next")), ("kept", maria.hidden("kept")))
    maria.page = maria.post("/-/admin/sign-in", ("name", "maria"), ("password", PASSWORD), *kept)
    for value in ("São José", "mine"):
        assert f'value="{value}"' in maria.page.text
    answer = maria.send_files("/-/admin/deposit", *texts, ("once", None, maria.hidden("once").encode()), file)
    assert "done=deposited" in answer.headers["location"]


def test_who_has_typed_more_than_is_kept_is_told_before_it_is_gone(served: Served) -> None:
    for more in (b"x" * LONGEST_KEPT, b"x" * (LONGEST_FIELDS + 1)):
        page = late(served, ("dc.description", None, more)).page
        assert page is not None
        assert "go back in your browser" in page.text
        assert 'name="kept"' not in page.text


@pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary=" + "b" * 300])
def test_a_late_form_that_is_none_is_a_page_all_the_same(served: Served, kind: str) -> None:
    stranger = served.new_browser()
    body = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
    for wrong in (body, b"\xff" * 1000, b"--\r\n" * 1000):
        answer = stranger.ask("POST", "/-/admin/deposit", wrong, content_type=kind, origin=stranger.origin)
        assert (answer.status, "session has ended" in answer.text) == (403, True)


@pytest.mark.parametrize("kept", ["{", "[1]", '[["a"]]', "[" * 100_000, '{"a": 1}', '"x"'])
def test_what_was_kept_may_be_anything(served: Served, kept: str) -> None:
    fields = (("name", "maria"), ("password", PASSWORD), ("kept", kept), ("next", "/-/admin/copy"))
    assert served.new_browser().post("/-/admin/sign-in", *fields).status in {200, 303}


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "status"),
    [
        ("PUT", "/-/admin", b"", "", 405),
        ("POST", "/-/admin/sign-in", b"name=%ff%fe", "application/x-www-form-urlencoded", 400),
        ("POST", "/-/admin/sign-in", b"\xff", "application/x-www-form-urlencoded", 400),
        ("POST", "/-/admin/sign-in", b"a=b&" * 3000, "application/x-www-form-urlencoded", 400),
        ("POST", "/-/admin/sign-in", b"{}", "application/json", 415),
        ("POST", "/-/admin/sign-in", b"a=" + b"b" * (1 << 20), "application/x-www-form-urlencoded", 413),
        (
            "POST",
            "/-/admin/sign-in",
            b"name=" + b"%00" * 50 + b"&password=x",
            "application/x-www-form-urlencoded",
            403,
        ),
        ("POST", "/-/admin/sign-in", b"", "application/x-www-form-urlencoded", 403),
    ],
)
def test_bad_input_is_refused_with_a_sentence(
    served: Served, method: str, path: str, body: bytes, kind: str, status: int
) -> None:
    stranger = served.new_browser()
    answer = stranger.ask(method, path, body, content_type=kind, origin=stranger.origin)
    assert answer.status == status, answer.text
    assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    "cookie", ["=", ";;;", "ibi-=x", "a" * 5000, "ibi-{label}={x}", "ibi-{label}=" + "y" * 300]
)
def test_an_invented_cookie_opens_nothing(served: Served, cookie: str) -> None:
    [name] = served.new_browser("maria").cookies
    cookie = cookie.replace("ibi-{label}", name).replace("{x}", "A" * 43)
    assert served.new_browser().ask("GET", "/-/admin", cookie=cookie).status == 303


def test_of_two_cookies_in_one_value_none_is_the_session(served: Served) -> None:
    ana, root = served.new_browser("maria"), served.new_browser("root")
    [[name, hers]], [his] = ana.cookies.items(), root.cookies.values()
    answer = served.new_browser().ask("GET", "/-/admin/account", cookie=f"x=y,{name}={hers}; {name}={his}")
    assert "root" in answer.text


def test_a_name_and_a_password_as_long_as_a_form_cost_no_more_than_short_ones(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = [0]

    def spelled(form: Literal["NFKC"], text: str) -> str:
        longest[0] = max(longest[0], len(text))
        return normalize(form, text)

    for module in (sign_in, people):
        monkeypatch.setattr(module, "normalize", spelled)
    accents = "\u0301\u0316" * 40_000
    assert served.new_browser().sign_in(f"a{accents}", f"a{accents}").status == 403
    with pytest.raises(IbiError, match="at most 200"):
        check_password(f"a{accents}", "ana")
    assert 0 < longest[0] <= 300


def wrong_present_passwords(made: sign_in.Authentication, session: str, times: int) -> None:
    for _ in range(times):
        with pytest.raises(Refusal, match="not your current"):
            made.check_password(sign_in.SignedInUser("ana", Role.DEPOSITOR, "", session), "wrong")


def test_a_stolen_session_cannot_guess_the_password(tmp_path: Path) -> None:
    clock = At()
    made = sign_in.Authentication(tmp_path, "a", clock)
    made.accounts.add("ana", Role.DEPOSITOR, PASSWORD, MADE)
    stolen, own = (sign_in.SignedInUser("ana", Role.DEPOSITOR, "", each) for each in ("stolen", "own"))
    wrong_present_passwords(made, "stolen", sign_in.WRONG_IN_SESSION)
    with pytest.raises(Refusal, match="too many attempts") as refused:
        made.check_password(stolen, PASSWORD)
    assert refused.value.status == 429
    made.check_password(own, PASSWORD)  # of the owner, who is not kept out by the thief
    clock.now += sign_in.SHORT_WHILE
    made.check_password(stolen, PASSWORD)
    made.close()


def test_all_sessions_of_an_account_together_cannot_guess_its_password(tmp_path: Path) -> None:
    clock = At()
    made = sign_in.Authentication(tmp_path, "a", clock)
    made.accounts.add("ana", Role.DEPOSITOR, PASSWORD, MADE)
    for number in range(sign_in.WRONG_IN_SESSIONS):
        clock.now += 20
        wrong_present_passwords(made, f"session {number}", 1)
    signed = sign_in.SignedInUser("ana", Role.DEPOSITOR, "", "one more")
    with pytest.raises(Refusal, match="too many attempts"):
        made.check_password(signed, PASSWORD)
    clock.now += sign_in.LONG_WHILE
    made.check_password(signed, PASSWORD)
    made.close()


def test_strangers_who_guess_do_not_keep_an_owner_who_is_signed_in_from_changing_the_password(
    tmp_path: Path,
) -> None:
    """Over HTTP: the attempts of strangers for the account are used up, and the form works all the same."""
    with administered_archive(tmp_path) as served:
        maria = served.new_browser("maria")
        maria.look("/-/admin/account")
        sessions = Sessions(served.archive.data / "sessions.sqlite", time.time)
        for_account = AttemptLimit("account", sign_in.WRONG_FOR_ACCOUNT, sign_in.LONG_WHILE)
        while not sessions.attempt([(for_account, "maria")]).wait:
            pass
        sessions.close()
        assert served.new_browser().sign_in("maria").status == 429
        new = ("new_password", "a longer one still"), ("again_password", "a longer one still")
        assert maria.send("/-/admin/account", ("password", PASSWORD), *new).status == 303


def test_roles_see_and_do_what_they_are_for_and_nothing_else(served: Served) -> None:
    joao, maria, root = (served.new_browser(name) for name in ("joao", "maria", "root"))
    open_to = {
        "deposit": (200, 200, 200),
        "copy": (403, 200, 200),
        "transfer": (403, 200, 200),
        "import": (403, 403, 200),
        "membership": (403, 403, 200),
        "tokens": (403, 403, 200),
        "accounts": (403, 403, 200),
        "account": (200, 200, 200),
    }
    for word, statuses in open_to.items():
        assert tuple(each.look(f"/-/admin/{word}").status for each in (joao, maria, root)) == statuses, word
    joao.look("/-/admin/deposit")
    assert joao.send("/-/admin/tokens", ("name", "mine"), ("scopes", "admin")).status == 403
    assert "/-/admin/tokens" not in joao.look("/-/admin").text


def test_a_session_ends_by_idleness_by_age_and_by_a_clock_that_was_set_back(tmp_path: Path) -> None:
    clock = At()
    made = Sessions(tmp_path / "s.sqlite", clock)
    idle, old = (made.start("maria", "stamp") for _ in range(2))
    clock.now += IDLE - 100
    assert made.find(old) is not None
    clock.now += 100
    assert made.find(idle) is None
    clock.now -= 1
    assert made.find(idle) is None  # what has ended does not come back
    clock.now += 1
    begun = clock.now - IDLE
    while clock.now + 1800 < begun + ABSOLUTE:
        assert made.find(old) is not None
        clock.now += 1800
    clock.now = begun + ABSOLUTE - 1
    assert made.find(old) is not None
    clock.now += 1
    assert made.find(old) is None
    clock.now -= 1
    assert made.find(old) is None
    early = made.start("maria", "stamp")
    clock.now -= 3600
    assert made.find(early) is None
    made.close()


def test_sessions_are_shared_by_the_processes_of_a_service_and_bounded(tmp_path: Path) -> None:
    clock = At()
    one, other = (Sessions(tmp_path / "s.sqlite", clock) for _ in range(2))
    first = one.start("maria", "stamp")
    assert other.find(first) is not None
    last = first
    for _ in range(MOST_SESSIONS):
        clock.now += 1
        last = other.start("maria", "stamp")
    assert one.find(first) is None
    assert one.find(last) is not None
    other.end(last)
    assert one.find(last) is None
    one.close()
    other.close()


def test_attempts_are_counted_together_and_before_they_cost_anything(tmp_path: Path) -> None:
    clock = At()
    one, other = (Sessions(tmp_path / "s.sqlite", clock) for _ in range(2))
    limit = AttemptLimit("x", 3, 100.0)
    assert [each.attempt([(limit, "a")]).wait for each in (one, other, one)] == [0, 0, 0]
    assert other.attempt([(limit, "a")]).wait == 100
    assert other.attempt([(limit, "b")]).wait == 0
    clock.now += 99.5
    assert other.attempt([(limit, "a")]).wait == 1
    clock.now += 1
    assert other.attempt([(limit, "a")]).wait == 0
    one.close()
    other.close()


def test_a_file_of_another_version_only_makes_people_sign_in_again(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE session (a)")
        database.execute("PRAGMA user_version = 7")
    database.close()
    made = Sessions(path, At())
    assert made.find(made.start("maria", "stamp")) is not None
    made.close()


def test_a_file_that_is_no_database_is_a_setup_error(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    path.write_bytes(b"x" * 10_000)
    made = Sessions(path, At())
    with pytest.raises(SetupError, match="cannot be used"):
        made.start("maria", "stamp")
    made.close()


@pytest.mark.parametrize(
    "password", ["", "short", "aaaaaaaaaaaaaaaa", "maria maria maria", "x" * 201, "Maria2026Maria"]
)
def test_a_password_that_would_be_tried_first_is_refused(password: str) -> None:
    with pytest.raises(IbiError):
        check_password(password, "maria")


def test_a_made_password_is_good_and_never_the_same() -> None:
    made = {new_password() for _ in range(100)}
    assert len(made) == 100
    for password in made:
        check_password(password, "maria")


@pytest.mark.parametrize("name", ["a", "K", "7", "an"])
def test_a_made_password_never_holds_the_name_of_its_account(tmp_path: Path, name: str) -> None:
    for _ in range(100):
        check_password(new_password(name), name)
    account, made = AccountManager(Accounts(tmp_path), tuple(Role), lambda: MADE).add(name, "keeper")
    assert account.name == name
    check_password(made, name)


@pytest.mark.parametrize("name", ["", "-x", "a b", "ma/ria", "é", "x" * 65, "a\n"])
def test_a_name_that_is_none_makes_no_account(tmp_path: Path, name: str) -> None:
    with pytest.raises(ParseError):
        Accounts(tmp_path).add(name, Role.KEEPER, PASSWORD, MADE)
    assert Accounts(tmp_path).all() == ()


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"version": 2, "accounts": []}', '{"version": 1, "accounts": [{}]}']
)
def test_with_a_damaged_file_of_accounts_no_one_can_sign_in(tmp_path: Path, content: str) -> None:
    (tmp_path / "accounts.json").write_text(content)
    with pytest.raises(IbiError, match="damaged"):
        Accounts(tmp_path).find("maria")


def test_the_file_of_accounts_is_its_owners_alone(tmp_path: Path) -> None:
    Accounts(tmp_path).add("maria", Role.KEEPER, PASSWORD, MADE)
    assert (tmp_path / "accounts.json").stat().st_mode & 0o077 == 0
    assert PASSWORD not in (tmp_path / "accounts.json").read_text()


def test_two_accounts_never_differ_in_case_only(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    accounts.add("Maria", Role.KEEPER, PASSWORD, MADE)
    with pytest.raises(SetupError, match="already"):
        accounts.add("maria", Role.ADMINISTRATOR, PASSWORD, MADE)
    found = accounts.find("MARIA")
    assert found is not None
    assert found.name == "Maria"


def test_a_page_that_takes_long_to_render_does_not_hold_up_others(tmp_path: Path) -> None:
    seen = threading.Event()

    def render(_frame: Layout, _language: str) -> bytes:
        return b"seen" if seen.wait(10) else b"nobody came"

    async def answered() -> bytes:
        authentication = Authentication(tmp_path, "here", lambda: 1.0)
        made = Administration(
            authentication,
            {},
            render,
            lambda request: client_of(request, None, proxied=False),
            "here",
        )
        page = asyncio.create_task(made.answer(Request("PUT", "/-/admin", "", {}), asyncio.Event().wait))
        await asyncio.sleep(0)  # the page is being written
        seen.set()
        body = (await page).body
        made.close()
        return body

    assert asyncio.run(answered()) == b"seen"


def test_a_form_whose_sender_goes_away_gets_no_page(tmp_path: Path) -> None:
    headers = {
        b"host": b"127.0.0.1",
        b"sec-fetch-site": b"same-origin",
        b"content-type": b"application/x-www-form-urlencoded",
    }

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def answered() -> tuple[int, bytes]:
        authentication = Authentication(tmp_path, "here", lambda: 1.0)
        authentication.accounts.add("maria", Role.KEEPER, PASSWORD, MADE)
        made = Administration(
            authentication,
            {"items": PageHandler(Scope.READ, lambda _, __: "a page")},
            lambda _, __: b"a page",
            lambda request: client_of(request, None, proxied=False),
            "here",
        )
        request = Request("POST", "/-/admin/items", "", headers, peer="127.0.0.1")
        client = client_of(request, None, proxied=False)
        _, (_, cookie) = await authentication.sign_in(request, client, "maria", PASSWORD)
        signed = headers | {b"cookie": cookie.encode()}
        answer = await made.answer(replace(request, headers=signed), gone)
        made.close()
        return answer.status, answer.body

    assert asyncio.run(answered()) == (400, b"")


@pytest.mark.long
def test_over_https_the_cookie_is_a_secure_one_and_plain_http_beside_it_takes_no_password(
    tmp_path: Path,
) -> None:
    tls = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    words = "req -x509 -subj /CN=127.0.0.1 -days 9 -nodes -newkey ec -pkeyopt ec_paramgen_curve:P-256".split()
    subprocess.run(["openssl", *words, "-keyout", tls[1], "-out", tls[0]], check=True, capture_output=True)
    with administered_archive(tmp_path / "tls", tls=tls) as served:
        maria = Librarian(served.port, tls=True)
        answer = maria.sign_in("maria", host="archive", origin="https://archive")
        assert (answer.status, answer.headers.get("set-cookie", "")[:11]) == (303, "__Host-ibi-")
        assert maria.ask("GET", "/-/admin", None, host="archive").status == 200
    with administered_archive(tmp_path / "plain", tls=tls, beside=True) as served:
        answer = served.new_browser().sign_in("maria", host="archive", origin="http://archive")
        assert (answer.status, answer.headers.get("set-cookie")) == (403, None)
