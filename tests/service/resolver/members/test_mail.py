"""Letters, sent to a real mail server on loopback."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from email.headerregistry import Address
from threading import Event, Thread, active_count
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from ibi.accounts.tokens import Scope
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.resolver.members.mail import MailSender
from ibi.resolver.model.archive import Move, RegisteredArchive
from ibi.runtime.settings import ResolverSettings, mail_server
from ibi.runtime.settings.institution import Institution
from ibi.runtime.settings.rules import is_mail_address
from support.concurrency.threads import together
from support.resolver.administration_fixture import administered_resolver
from support.resolver.membership_fixture import KEY, STRANGER, archive, member
from support.resolver.postbox import Postbox, answering
from support.resolver.shared_files import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IBI = parse_ibi("sid.inpe.br/mtc-m21/2012/06.05.15.34.39")
KNOWN = RegisteredArchive(
    IBI, (), "2026-01-01T00:00:00Z", None, None, contact="admin@archive.example",
    confirmed_address="old.example",
)  # fmt: skip


@pytest.fixture
def postbox() -> Iterator[tuple[Postbox, MailSender]]:
    with answering(box := Postbox()):
        yield box, MailSender(f"127.0.0.1:{box.port}", "resolver@urlib.example", "urlib.example:8080")


def test_letters_bear_the_name_of_the_institution_in_each_language() -> None:
    institution = Institution(name="Network of Ação, Ltd <x>", name_pt="Rede de Acervos")
    with answering(box := Postbox()):
        mail = MailSender(
            f"127.0.0.1:{box.port}",
            "resolver@urlib.example",
            "urlib.example",
            institution=lambda: institution,
        )
        mail.registered(IBI, "admin@archive.example")
        mail.close()
    (letter,) = box.letters
    assert letter["From"].addresses == (Address("Network of Ação, Ltd <x>", "resolver", "urlib.example"),)
    text = letter.get_content()
    assert "registered at the resolver Network of Ação, Ltd <x> (urlib.example)." in text
    assert "Rede de Acervos (urlib.example)." in text


@pytest.mark.proves("REG-01")
def test_every_letter_arrives_in_both_languages_and_with_proper_headers(
    postbox: tuple[Postbox, MailSender],
) -> None:
    box, mail = postbox
    mail.registered(IBI, "admin@archive.example")
    mail.applied(IBI, "archive.example", "root@urlib.example")
    mail.moved(KNOWN, "new.example")
    mail.held(KNOWN, Move("new.example", "192.0.2.1", 0.0), answers=True)
    mail.held(KNOWN, Move("new.example", "192.0.2.1", 0.0), answers=False)
    mail.rotated(KNOWN)
    mail.close()
    assert [letter["To"] for letter in box.letters] == [
        "admin@archive.example",
        "root@urlib.example",
        *["admin@archive.example"] * 4,
    ]
    for envelope, letter in zip(box.envelopes, box.letters, strict=True):
        assert envelope.mail_from == "resolver@urlib.example"
        assert envelope.rcpt_tos == [letter["To"]]
        assert letter["From"] == "resolver@urlib.example"
        assert letter["Auto-Submitted"] == "auto-generated"
        assert letter["Message-ID"].endswith("@urlib.example>")
        text = letter.get_content()
        assert str(IBI) in text
        assert "{" not in text
    moved = box.letters[2].get_content()
    assert "new.example" in moved
    assert "old.example" in moved


@pytest.mark.parametrize(
    "address",
    [
        "",
        "nobody",
        "a@b\r\nBcc: c@d.example",
        "a@b\nSubject: x",
        "a@b.example,c@d.example",
        "<a@b.example>",
        "a b@c.example",
        "a%c.example@b.example",
        "@b.example",
        "é@b.example",
        f"{'a' * 65}@b.example",
    ],
)
def test_what_is_no_plain_address_is_known(address: str) -> None:
    assert not is_mail_address(address)


def test_nothing_is_sent_to_what_is_no_plain_address(
    postbox: tuple[Postbox, MailSender], caplog: pytest.LogCaptureFixture
) -> None:
    box, mail = postbox
    for address in ("a@b\r\nBcc: c@d.example", "a@b.example,c@d.example", "", "admin@archive.example"):
        mail.registered(IBI, address)
    mail.close()
    assert [envelope.rcpt_tos for envelope in box.envelopes] == [["admin@archive.example"]]
    assert "c@d.example" not in caplog.text


def test_without_a_server_or_a_sender_no_letter_is_written(
    postbox: tuple[Postbox, MailSender], caplog: pytest.LogCaptureFixture
) -> None:
    box, _ = postbox
    threads = active_count()
    for mail in (
        MailSender("", "a@b.example", "urlib.example"),
        MailSender(f"127.0.0.1:{box.port}", "", "urlib.example"),
    ):
        assert not mail.sends
        mail.registered(IBI, "admin@archive.example")
        assert active_count() == threads  # nothing waits to be sent
        mail.close()
    assert (box.envelopes, caplog.messages) == ([], [])


def test_of_a_server_that_is_not_there_the_log_tells_and_the_end_does_not_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mail, begun = MailSender("127.0.0.1:1", "a@b.example", "urlib.example"), time.monotonic()
    mail.registered(IBI, "admin@archive.example")
    until(lambda: bool(caplog.messages))
    mail.close()
    assert time.monotonic() - begun < 8
    assert caplog.messages == [
        "a mail is sent again in 60 s: ConnectionRefusedError", "a mail was not sent: ConnectionRefusedError",
    ]  # fmt: skip
    assert {record.levelname for record in caplog.records} == {"WARNING"}


@dataclass
class Moody(Postbox):
    """A mail server that gives these answers to the first recipients, and these to the first mails."""

    port: int = 0
    envelopes: list[Any] = field(default_factory=list)
    to_recipients: list[str] = field(default_factory=list)
    to_mails: list[str] = field(default_factory=list)

    async def handle_RCPT(  # noqa: N802 - the server's own name
        self, _server: object, _session: object, envelope: Any, address: str, _options: object
    ) -> str:
        if self.to_recipients:
            return self.to_recipients.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:  # noqa: N802 - as above
        if self.to_mails:
            return self.to_mails.pop(0)
        return await super().handle_DATA(server, session, envelope)


@pytest.fixture
def moody(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Moody, MailSender]]:
    """Such a server, and a sender whose pauses are short."""
    monkeypatch.setattr("ibi.resolver.members.mail.RETRY_SECONDS", (0.01, 0.02, 0.03))
    with answering(box := Moody()):
        yield box, MailSender(f"127.0.0.1:{box.port}", "resolver@urlib.example", "urlib.example:8080")


def test_a_mail_that_the_server_refuses_for_now_is_sent_again(
    moody: tuple[Moody, MailSender], caplog: pytest.LogCaptureFixture
) -> None:
    box, mail = moody
    box.to_recipients, box.to_mails = ["450 greylisted", "451 again"], ["452 the disk is full"]
    mail.held(KNOWN, Move("new.example", "192.0.2.1", 0.0), answers=True)
    until(lambda: bool(box.envelopes))
    mail.close()
    assert [letter["To"] for letter in box.letters] == ["admin@archive.example"]
    assert caplog.messages == [
        "a mail is sent again in 0 s: SMTPRecipientsRefused",
        "a mail is sent again in 0 s: SMTPRecipientsRefused",
        "a mail is sent again in 0 s: SMTPDataError",
    ]


@pytest.mark.parametrize(
    ("answers", "tries"), [(["550 no such user"] * 9, 1), (["450 greylisted"] * 9, 4)], ids=["550", "450"]
)
def test_a_mail_that_is_refused_for_good_or_too_often_is_given_up(
    moody: tuple[Moody, MailSender], answers: list[str], tries: int, caplog: pytest.LogCaptureFixture
) -> None:
    box, mail = moody
    box.to_recipients = list(answers)
    mail.rotated(KNOWN)
    until(lambda: "a mail was not sent: SMTPRecipientsRefused" in caplog.messages)
    assert (len(answers) - len(box.to_recipients), len(caplog.messages)) == (tries, tries)
    box.to_recipients.clear()
    mail.registered(IBI, "other@archive.example")
    mail.close()
    assert [letter["To"] for letter in box.letters] == ["other@archive.example"]


def test_a_mail_that_waits_for_its_next_try_is_sent_once_more_at_the_end(
    moody: tuple[Moody, MailSender], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ibi.resolver.members.mail.RETRY_SECONDS", (60.0,))
    box, mail = moody
    box.to_recipients = ["450 greylisted"]
    mail.rotated(KNOWN)
    until(lambda: bool(caplog.messages))
    mail.close()
    assert [letter["To"] for letter in box.letters] == ["admin@archive.example"]


def test_mails_that_wait_for_their_next_try_count_among_those_that_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ibi.resolver.members.mail.MOST_WAITING", 2)
    mail = MailSender("127.0.0.1:1", "a@b.example", "urlib.example")
    for number in range(1, 3):
        mail.rotated(KNOWN)
        until(lambda number=number: len(caplog.messages) == number)  # type: ignore[misc]  # mypy: a lambda with a default
    mail.rotated(KNOWN)
    mail.close()
    assert caplog.messages[2] == "a mail was not sent: too many wait"


def test_of_a_move_the_administrator_gets_mail_and_not_the_sender_of_the_request(
    postbox: tuple[Postbox, MailSender], tmp_path: Path
) -> None:
    box, mail = postbox

    async def main() -> None:
        async with member(
            tmp_path, [archive("old", "127.0.0.2"), archive("new", "127.0.0.3")], mail=mail
        ) as at:
            await at.include("old.example")
            thief = InclusionRequest("new.example", IBI, "192.0.2.1", "1", "thief@evil.example", KEY)
            for _ in range(3):
                assert (await at.membership.answer(thief, STRANGER)).status == 403
                at.clock.now += 60.0
            at.registry.allow_move(IBI)
            assert (await at.membership.answer(thief, STRANGER)).status == 200

    asyncio.run(main())
    mail.close()
    assert [letter["To"] for letter in box.letters] == ["admin@archive.example"] * 2
    held, moved = (letter.get_content() for letter in box.letters)
    assert "nothing was changed" in held
    assert "from now on" in moved


class SlowThread(Thread):
    """A thread that others overtake while it is made and while it starts."""

    made: ClassVar[list[SlowThread]] = []

    def __init__(self, **facts: Any) -> None:
        time.sleep(0.1)
        super().__init__(**facts)
        self.made.append(self)
        self.starting = Event()

    def start(self) -> None:
        self.starting.set()
        time.sleep(0.1)
        super().start()


@pytest.fixture
def slow_threads(monkeypatch: pytest.MonkeyPatch) -> list[SlowThread]:
    monkeypatch.setattr(SlowThread, "made", [])
    monkeypatch.setattr("ibi.resolver.members.mail.Thread", SlowThread)
    return SlowThread.made


def test_letters_of_several_threads_are_sent_by_one(
    postbox: tuple[Postbox, MailSender], slow_threads: list[SlowThread]
) -> None:
    box, mail = postbox
    together(4, lambda number: mail.registered(IBI, f"admin{number}@archive.example"))
    mail.close()
    assert len(slow_threads) == 1
    assert sorted(letter["To"] for letter in box.letters) == [
        f"admin{each}@archive.example" for each in range(4)
    ]


def test_a_letter_whose_thread_is_only_starting_is_sent_before_the_end(
    postbox: tuple[Postbox, MailSender], slow_threads: list[SlowThread]
) -> None:
    box, mail = postbox
    with ThreadPoolExecutor(1) as threads:
        posted = threads.submit(mail.registered, IBI, "admin@archive.example")
        until(lambda: bool(slow_threads))
        assert slow_threads[0].starting.wait(20)
        mail.close()
        posted.result(20)
    assert [letter["To"] for letter in box.letters] == ["admin@archive.example"]


# Over TLS, and with a password

USER, PASSWORD = "me@mail.example", "correct horse"


@dataclass
class Guarded(Postbox):
    """A mail server that lets one user in, over TLS."""

    port: int = 0
    passwords: list[tuple[bytes, bytes]] = field(default_factory=list)
    envelopes: list[Any] = field(default_factory=list)

    def let_in(
        self, _server: object, _session: object, _envelope: object, _way: str, data: Any
    ) -> AuthResult:
        self.passwords.append((data.login, data.password))
        return AuthResult(success=data == LoginPassword(USER.encode(), PASSWORD.encode()), handled=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The certificate of a mail server on this machine, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    words = "req -x509 -subj /CN=mail -addext subjectAltName=IP:127.0.0.1 -days 9 -nodes -newkey ec"
    more = "-pkeyopt ec_paramgen_curve:P-256 -keyout".split()
    subprocess.run(["openssl", *words.split(), *more, key, "-out", cert], check=True, capture_output=True)
    return cert, key


@pytest.fixture(params=["smtps", "smtp+starttls"])
def guarded(request: pytest.FixtureRequest, certificate: tuple[Path, Path]) -> Iterator[tuple[str, Guarded]]:
    way, box, loop = str(request.param), Guarded(), asyncio.new_event_loop()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    whole = way == "smtps"

    def speak() -> SMTP:
        return SMTP(
            box, loop=loop, authenticator=box.let_in, auth_required=True, auth_require_tls=not whole,
            tls_context=None if whole else tls, require_starttls=not whole,
        )  # fmt: skip

    server = loop.run_until_complete(loop.create_server(speak, "127.0.0.1", 0, ssl=tls if whole else None))
    box.port = server.sockets[0].getsockname()[1]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # aiosmtpd says that passwords without TLS are bad: it does not see ours
        thread = Thread(target=loop.run_forever)
        thread.start()
        try:
            yield way, box
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            loop.run_until_complete(server.wait_closed())
            loop.close()


def send(way: str, box: Guarded, password_file: Path | str) -> None:
    mail = MailSender(
        f"{way}://{USER}@127.0.0.1:{box.port}", "a@b.example", "urlib.example", str(password_file)
    )
    mail.registered(IBI, "admin@archive.example")
    mail.close()


def test_a_letter_goes_over_tls_with_the_password_of_a_file(
    guarded: tuple[str, Guarded],
    certificate: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    way, box = guarded
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    send(way, box, tmp_path / "password")
    assert box.passwords == [(USER.encode(), PASSWORD.encode())]
    assert [letter["To"] for letter in box.letters] == ["admin@archive.example"]


def test_a_password_that_is_wrong_or_missing_sends_nothing_and_stands_in_no_log(
    guarded: tuple[str, Guarded],
    certificate: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    way, box = guarded
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    (tmp_path / "password").write_text("very wrong")
    with caplog.at_level("DEBUG", "ibi"):
        send(way, box, tmp_path / "password")
        send(way, box, tmp_path / "nowhere")
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("ibi")]
    assert ours == [
        "a mail was not sent: SMTPAuthenticationError", "a mail was not sent: FileNotFoundError",
    ]  # fmt: skip
    assert box.envelopes == []
    assert set(box.passwords) == {(USER.encode(), b"very wrong")}


def test_a_server_with_an_untrusted_certificate_gets_nothing(
    guarded: tuple[str, Guarded], tmp_path: Path
) -> None:
    way, box = guarded
    (tmp_path / "password").write_text(PASSWORD)
    send(way, box, tmp_path / "password")
    assert (box.passwords, box.envelopes) == ([], [])


def test_where_tls_was_asked_for_a_server_without_it_gets_no_letter(
    postbox: tuple[Postbox, MailSender], caplog: pytest.LogCaptureFixture
) -> None:
    box, _ = postbox
    mail = MailSender(f"smtp+starttls://127.0.0.1:{box.port}", "a@b.example", "urlib.example")
    mail.registered(IBI, "admin@archive.example")
    mail.close()
    assert box.envelopes == []
    assert "SMTPNotSupportedError" in caplog.text


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("mail.example", ("smtp", "mail.example", 25, "")),
        ("[::1]:2525", ("smtp", "::1", 2525, "")),
        ("smtp://mail.example:26/", ("smtp", "mail.example", 26, "")),
        ("smtps://mail.example", ("smtps", "mail.example", 465, "")),
        ("smtps://me@mail.example", ("smtps", "mail.example", 465, "me")),
        ("smtp+starttls://me@x.org@mail.example:588", ("smtp+starttls", "mail.example", 588, "me@x.org")),
        ("smtp+starttls://me%40x.org@mail.example", ("smtp+starttls", "mail.example", 587, "me@x.org")),
    ],
)
def test_a_mail_server_is_read_as_operators_write_it(text: str, server: tuple[object, ...]) -> None:
    assert mail_server(text) == server


@pytest.mark.parametrize(
    "text",
    [
        "http://mail.example", "smtps://", "smtps://@mail.example", "smtps://me:secret@mail.example",
        "smtp://me@mail.example", "me@mail.example", "mail.example:0", "mail.example:secret", "smtps://a b@",
        "smtps://%ff@mail.example",
    ],
)  # fmt: skip
def test_what_is_no_mail_server_is_refused_and_no_password_shown(text: str) -> None:
    with pytest.raises(SetupError) as raised:
        mail_server(text)
    assert "secret" not in str(raised.value)


def test_a_user_without_the_file_of_a_password_is_refused_when_settings_are_read(tmp_path: Path) -> None:
    settings = {
        "address": "urlib.example",
        "service": IBIForms.parse(f"rep {IBI}"),
        "smtp": "smtps://me@mail.example",
    }
    for file in ("", "password"):
        with pytest.raises(SetupError, match="absolute path"):
            ResolverSettings(**settings, smtp_password_file=file)  # type: ignore[arg-type]  # texts, and forms
    ResolverSettings(**settings, smtp_password_file=str(tmp_path / "password"))  # type: ignore[arg-type]  # as above


def test_letters_about_what_administrators_decide_go_out_as_the_settings_are_now(
    postbox: tuple[Postbox, MailSender], tmp_path: Path
) -> None:
    box, _ = postbox
    with administered_resolver(tmp_path) as running:  # it begins without a mail server
        running.registry.apply(IBI, "archive.example", "admin@archive.example")
        root = running.browser("root")
        settings = ResolverSettings.read(running.data)
        smtp = {"smtp": f"127.0.0.1:{box.port}", "mail_from": "resolver@urlib.example"}
        replace(settings, registration="form", **smtp).write(running.data)  # type: ignore[arg-type]  # texts all
        until(lambda: root.look("/-/register").status == 200)
        root.look("/-/admin/applications")
        sent = root.send("/-/admin/applications", ("ibi", str(IBI)), ("what", "approve"))
        assert sent.status == 303
        assert running.ask("POST", f"/registrations/{IBI}/rotate", None, Scope.ADMIN).status == 200
        until(lambda: len(box.letters) == 2)
        replace(settings, registration="closed").write(running.data)  # and goes on without one
        until(lambda: root.look("/-/register").status == 404)
        assert running.ask("POST", f"/registrations/{IBI}/rotate", None, Scope.ADMIN).status == 200
    assert [letter["To"] for letter in box.letters] == ["admin@archive.example"] * 2
    assert ["registered" in box.letters[0]["Subject"], "key" in box.letters[1]["Subject"]] == [True, True]


@pytest.mark.parametrize("sender", ["@", "a@", "nobody", "a b@c.example"])
def test_a_sender_that_cannot_be_holds_nothing_up(sender: str, caplog: pytest.LogCaptureFixture) -> None:
    mail = MailSender("127.0.0.1:1", sender, "urlib.example")
    mail.rotated(KNOWN)  # the Archive that asked for the key must still get it
    mail.close()
    assert "cannot be sent" in caplog.text
