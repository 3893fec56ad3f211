"""Each letter whole, and each step of its sending, with a mail server that is a function."""

from __future__ import annotations

import smtplib
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ibi.identifier.forms import parse_ibi
from ibi.resolver.members import mail as module
from ibi.resolver.members.mail import MailSender
from ibi.resolver.model.archive import Move, RegisteredArchive
from ibi.runtime.settings.institution import Institution

IBI = parse_ibi("c.example/w/2020/01.01.00.00")
KNOWN = RegisteredArchive(
    IBI, (), "2026-11-01T10:00:00Z", None, None, contact="ada@c.example", confirmed_address="old.example"
)
MOVE = Move("new.example", "192.0.2.1", 0.0)


class Server:
    """Takes letters; `steps`: what was done with it, in order; `fails`: what the next letters fail with."""

    def __init__(self) -> None:
        self.steps: list[Any] = []
        self.letters: list[Any] = []
        self.fails: list[Exception] = []
        self.quit_fails = False

    def connect(self, kind: str) -> Callable[..., Server]:
        def connected(host: str, port: int, timeout: float, context: Any = None) -> Server:
            self.steps.append((kind, host, port, timeout, isinstance(context, ssl.SSLContext)))
            return self

        return connected

    def starttls(self, context: ssl.SSLContext) -> None:
        self.steps.append(("starttls", context.verify_mode, context.check_hostname))

    def login(self, user: str, password: str) -> None:
        self.steps.append(("login", user, password))

    def send_message(self, message: Any) -> None:
        if self.fails:
            raise self.fails.pop(0)
        self.letters.append(message)

    def quit(self) -> None:
        self.steps.append("quit")
        if self.quit_fails:
            raise smtplib.SMTPServerDisconnected("gone")

    def close(self) -> None:
        self.steps.append("close")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server()
    monkeypatch.setattr(smtplib, "SMTP", made.connect("SMTP"))
    monkeypatch.setattr(smtplib, "SMTP_SSL", made.connect("SMTP_SSL"))
    return made


def until(happened: Callable[[], bool]) -> None:
    """Wait for the thread that sends."""
    end = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.001)


STOLEN = "If you did not move it, somebody else has its key: ask for a new one."
YOU = "If you did, switch it off at the old address, or ask the administrator of the resolver to allow the move."
ANOTHER = f"At the resolver urlib.net:80, a request with the key of the Archive {IBI} names a new address: new.example."
MOVED = f"The resolver urlib.net:80 asks the Archive {IBI} at new.example from now on; before, it was at old.example."
WANTS = "Somebody wants to move your Archive"


@pytest.mark.parametrize(
    ("write", "to", "subject", "sentences"),
    [
        (lambda mail: mail.registered(IBI, "ada@c.example"), "ada@c.example", "Your Archive is registered",
         [f"The Archive {IBI} is registered at the resolver urlib.net:80.",
          "It is included as soon as it is switched on."]),
        (lambda mail: mail.applied(IBI, "c.example", "root@urlib.net"), "root@urlib.net",
         "An Archive has applied for registration",
         [f"The Archive {IBI} at c.example has applied for registration at the resolver urlib.net:80.",
          "To decide: ibi resolver applications, then ibi resolver approve or refuse."]),
        (lambda mail: mail.refused(IBI, "ada@c.example", "Not ours."), "ada@c.example", "Your application was refused",
         [f"The application of the Archive {IBI} was refused at the resolver urlib.net:80.",
          "The reason: Not ours."]),
        (lambda mail: mail.moved(KNOWN, "new.example"), "ada@c.example", "Your Archive answers at a new address",
         [MOVED, STOLEN]),
        (lambda mail: mail.held(KNOWN, MOVE, answers=True), "ada@c.example", WANTS,
         [ANOTHER, "It still answers at old.example, so nothing was changed.", STOLEN, YOU]),
        (lambda mail: mail.held(KNOWN, MOVE, answers=False), "ada@c.example", WANTS,
         [ANOTHER, "It is not responding at old.example; if this continues, its address is changed.", STOLEN, YOU]),
        (lambda mail: mail.rotated(KNOWN), "ada@c.example", "Your Archive has a new key",
         [f"The Archive {IBI} was given a new registration key at the resolver urlib.net:80; the old one is void.",
          "If you did not ask for it, write to the administrator of the resolver."]),
    ],
    ids=["registered", "applied", "refused", "moved", "held while it answers", "held while it is silent", "rotated"],
)  # fmt: skip
def test_each_letter_says_what_happened_in_both_languages(
    server: Server, write: Callable[[MailSender], None], to: str, subject: str, sentences: list[str]
) -> None:
    mail = MailSender("mail.example:25", "resolver@urlib.net", "urlib.net:80")
    write(mail)
    mail.close()
    [letter] = server.letters
    english, portuguese = letter.get_content().removesuffix("\n").split("\n\n")
    assert english.split("\n") == sentences
    assert len(portuguese.split("\n")) == len(sentences)
    assert portuguese != english
    headers = dict(letter.items())
    assert headers["Subject"].split(" / ")[0] == subject
    assert len(headers["Subject"].split(" / ")) == 2
    assert {name: str(headers[name]) for name in ("From", "To", "Auto-Submitted")} == {
        "From": "resolver@urlib.net", "To": to, "Auto-Submitted": "auto-generated",
    }  # fmt: skip
    assert headers["Message-ID"].endswith("@urlib.net>")
    assert headers["Date"].datetime.tzinfo is not None
    assert set(headers) == {
        "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "Content-Transfer-Encoding",
        "MIME-Version",
    }  # fmt: skip


def test_a_letter_bears_the_name_of_the_institution(server: Server) -> None:
    named = Institution(name="Institute", name_pt="Instituto")
    mail = MailSender("mail.example:25", "resolver@urlib.net", "urlib.net", institution=lambda: named)
    mail.registered(IBI, "ada@c.example")
    mail.close()
    [letter] = server.letters
    assert str(letter["From"]) == "Institute <resolver@urlib.net>"
    assert "at the resolver Institute (urlib.net)." in letter.get_content()
    assert "Instituto (urlib.net)" in letter.get_content()


LOGIN = ("login", "ada", "pass w")


@pytest.mark.parametrize(
    ("smtp", "steps"),
    [
        ("mail.example:25", [("SMTP", "mail.example", 25, 10.0, False)]),
        ("smtp+starttls://mail.example",
         [("SMTP", "mail.example", 587, 10.0, False), ("starttls", ssl.CERT_REQUIRED, True)]),
        ("smtp+starttls://ada@mail.example:26",
         [("SMTP", "mail.example", 26, 10.0, False), ("starttls", ssl.CERT_REQUIRED, True), LOGIN]),
        ("smtps://ada@mail.example",
         [("SMTP_SSL", "mail.example", 465, 10.0, True), LOGIN]),
    ],
)  # fmt: skip
def test_a_letter_is_sent_by_the_way_that_was_set(
    server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, smtp: str, steps: list[Any]
) -> None:
    (tmp_path / "password").write_text("pass w\r\n", encoding="utf-8")
    mail = MailSender(smtp, "resolver@urlib.net", "urlib.net", str(tmp_path / "password"))
    server.quit_fails = True  # it was accepted, so it is not sent again
    mail.rotated(KNOWN)
    mail.close()
    assert server.steps == [*steps, "quit", "close"]
    assert (len(server.letters), caplog.messages) == (1, [])


def refused(code: int) -> smtplib.SMTPRecipientsRefused:
    return smtplib.SMTPRecipientsRefused({"a@b": (code, b"no"), "c@d": (450, b"later")})


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (smtplib.SMTPDataError(400, "x"), True),
        (smtplib.SMTPDataError(499, "x"), True),
        (smtplib.SMTPDataError(500, "x"), False),
        (smtplib.SMTPDataError(399, "x"), False),
        (refused(421), True),
        (refused(550), False),
        (smtplib.SMTPServerDisconnected("x"), True),
        (smtplib.SMTPNotSupportedError("x"), False),
        (ssl.SSLCertVerificationError("x"), False),
        (ssl.SSLError("x"), True),
        (FileNotFoundError("x"), False),
        (PermissionError("x"), False),
        (ConnectionRefusedError("x"), True),
        (TimeoutError("x"), True),
        (ValueError("x"), False),
    ],
)
def test_a_failure_that_may_pass_is_tried_again(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    *,
    may_pass: bool,
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.01, 0.02))
    server.fails = [error] * 2
    mail = MailSender("mail.example:25", "resolver@urlib.net", "urlib.net")
    mail.rotated(KNOWN)
    until(lambda: len(server.letters) == may_pass and len(caplog.messages) == 1 + may_pass)
    mail.close()
    name = type(error).__name__
    again = [f"a mail is sent again in 0 s: {name}"] * 2
    assert caplog.messages == (again if may_pass else [f"a mail was not sent: {name}"])
    assert len(server.letters) == may_pass


def test_after_three_tries_more_a_letter_is_given_up(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert module.RETRY_SECONDS == (60.0, 300.0, 1800.0)
    monkeypatch.setattr(module, "RETRY_SECONDS", (0.001, 0.002, 0.003))
    server.fails = [TimeoutError("x")] * 4
    mail = MailSender("mail.example:25", "resolver@urlib.net", "urlib.net")
    mail.rotated(KNOWN)
    until(lambda: len(caplog.messages) == 4)
    mail.close()
    assert caplog.messages[3] == "a mail was not sent: TimeoutError"
    assert (server.fails, server.letters) == ([], [])


def test_so_many_letters_wait(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    server.fails = [TimeoutError("x")] * 2
    mail = MailSender("mail.example:25", "resolver@urlib.net", "urlib.net")
    for number in (1, 2):
        mail.rotated(KNOWN)
        until(lambda number=number: len(caplog.messages) == number)  # type: ignore[misc]  # a default binds it
    caplog.clear()
    mail.rotated(KNOWN)
    assert caplog.messages == ["a mail was not sent: too many wait"]
    mail.close(60.0)
    assert len(server.letters) == 2


@pytest.mark.parametrize(("smtp", "sender"), [("", "resolver@urlib.net"), ("mail.example:25", "")])
def test_without_a_server_or_a_sender_nothing_is_sent(server: Server, smtp: str, sender: str) -> None:
    mail = MailSender(smtp, sender, "urlib.net")
    assert not mail.sends
    mail.rotated(KNOWN)
    mail.close()
    assert server.steps == []


def test_what_cannot_be_written_is_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    mail = MailSender("mail.example:25", "resolver@urlib.net", "urlib.net")
    assert mail.sends
    mail.registered(IBI, "")
    mail.registered(IBI, "no address")
    mail.close()
    assert caplog.messages == ["a mail cannot be sent to this address: not a plain mail address"]
    assert server.steps == []
