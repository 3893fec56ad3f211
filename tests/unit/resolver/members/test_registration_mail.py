"""Registration mails as administrators send them, and malformed ones."""

from __future__ import annotations

from base64 import b64encode
from email.message import EmailMessage
from email.parser import BytesParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.archive.membership.founding import mail_text
from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.resolver.members.registration_mail import LONGEST_MAIL, RegistrationMail, read_registration

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = """IBI do serviço de Arquivo:
archiveserviceibi = dpi.inpe.br/banon/1999/01.09.22.14

Chave de cadastro:
registrationkey = 1234567890
"""


def whole(text: str = EXAMPLE, charset: str = "utf-8", cte: str = "quoted-printable") -> EmailMessage:
    message = EmailMessage()
    message["From"] = "João Café <joao@dpi.example>"
    message["To"] = "cadastro@urlib.example"
    message["Subject"] = "Solicitação de cadastro de um novo Arquivo"
    message.set_content(text, charset=charset, cte=cte)
    return message


@pytest.mark.proves("REG-01", "MSG-30")
@pytest.mark.parametrize(
    "raw",
    [
        EXAMPLE.encode(),
        EXAMPLE.encode("latin-1"),
        EXAMPLE.replace("\n", "\r\n").encode(),
        "".join(f"> {line}\n" for line in EXAMPLE.splitlines()).encode(),
        bytes(whole()),
        bytes(whole(charset="iso-8859-1", cte="base64")),
        b"Content-Type: text/plain; charset=utf-16\nContent-Transfer-Encoding: base64\n\n"
        + b64encode(EXAMPLE.encode("utf-16")),
        b"From joao@dpi.example Sun Nov 22 2026\n" + bytes(whole()),
    ],
    ids=["utf-8", "latin-1", "crlf", "quoted", "message", "base64", "utf-16", "mbox"],
)
def test_example_7_1_is_read_alone_and_in_a_message(raw: bytes) -> None:
    read = read_registration(raw)
    assert (str(read.service_ibi), read.key) == ("dpi.inpe.br/banon/1999/01.09.22.14", "1234567890")
    assert "1234567890" not in repr(read)


def test_what_an_archive_of_ours_prints_is_read() -> None:
    service = IBIForms.parse("rep dpi.inpe.br/banon/1999/01.09.22.14")
    read = read_registration(mail_text(service, "12345678901234567890").encode())
    assert (str(read.service_ibi), read.key) == (str(service.main), "12345678901234567890")


def test_a_message_tells_who_says_to_have_sent_it() -> None:
    message = whole()
    message.add_alternative("<p>archiveserviceibi = a.b/c/2000/01.01.01.01</p>", subtype="html")
    read = read_registration(bytes(message))
    assert (read.sender, read.name) == ("joao@dpi.example", "João Café")
    assert read.subject == "Solicitação de cadastro de um novo Arquivo"


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ('From: "\nSubject: x', {"subject": "x"}),  # the mail library raises IndexError
        ("To: a@b.example", {}),
        ("From: A <a b>\nSubject: x", {"name": "A", "subject": "x"}),
        ("From: A <a@b.example>", {"sender": "a@b.example", "name": "A"}),
        (f"Subject: {'x' * 101}", {"subject": "x" * 100}),
    ],
)
def test_headers_that_are_missing_or_broken_hide_no_request(headers: str, known: dict[str, str]) -> None:
    expected = RegistrationMail(parse_ibi("dpi.inpe.br/banon/1999/01.09.22.14"), "1234567890", **known)
    read = read_registration(f"{headers}\n\n{EXAMPLE}".encode("latin-1"))
    assert read == expected


def test_headers_that_the_mail_library_cannot_read_count_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    get = EmailMessage.get

    def get_others(message: EmailMessage, name: str, default: object = None) -> object:
        if name.lower() in {"from", "subject"}:
            raise IndexError
        return get(message, name, default)

    monkeypatch.setattr(EmailMessage, "get", get_others)
    expected = RegistrationMail(parse_ibi("dpi.inpe.br/banon/1999/01.09.22.14"), "1234567890")
    assert read_registration(bytes(whole())) == expected


def test_a_message_that_the_mail_library_cannot_parse_is_not_read_as_a_text_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_parser: BytesParser, _raw: bytes) -> None:
        raise IndexError  # as some versions of the library do on "Content-Type: text/plain;.0*"

    monkeypatch.setattr(BytesParser, "parsebytes", fail)
    with pytest.raises(ParseError, match="the mail cannot be read"):
        read_registration(bytes(whole()))
    assert read_registration(EXAMPLE.encode()).sender == ""


def test_headers_cannot_write_on_the_terminal() -> None:
    raw = (
        b"From: =?utf-8?q?=1B=5B31m=0Aevil?= <a@b.example>\nSubject: =?utf-8?q?=07bell=0D=0Ax?=\n\n"
        + EXAMPLE.encode()
    )
    read = read_registration(raw)
    assert read.subject.isprintable()
    assert read.name.isprintable()


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("1234567890", "123"),
        lambda text: text.replace("registrationkey", "key"),
        lambda text: text.replace("archiveserviceibi", "ibi"),
        lambda text: text.replace("dpi.inpe.br/banon/1999/01.09.22.14", "nothing"),
        lambda text: text + "registrationkey = 9999999999\n",
        lambda text: text + "ARCHIVESERVICEIBI = dpi.inpe.br/banon/2000/01.09.22.14\n",
        lambda text: text.replace("= 1234567890", "="),
        lambda _: "",
        lambda text: text + "x" * LONGEST_MAIL,
    ],
)
def test_what_is_no_such_mail_is_one_sentence_without_the_key(change: Callable[[str], str]) -> None:
    for raw in (change(EXAMPLE).encode(), bytes(whole(change(EXAMPLE)))):
        with pytest.raises(ParseError) as caught:
            read_registration(raw)
        assert "1234567890" not in str(caught.value) + caught.value.text


def test_a_message_of_html_alone_is_not_guessed_at() -> None:
    message = EmailMessage()
    message["From"] = "a@b.example"
    message.set_content(f"<p>{EXAMPLE}</p>", subtype="html")
    with pytest.raises(ParseError, match="no plain text"):
        read_registration(bytes(message))


@given(st.binary(max_size=400), st.integers(0, 400), st.integers(0, 40))
def test_no_bytes_are_more_than_a_clear_sentence(noise: bytes, at: int, cut: int) -> None:
    mail = bytes(whole())
    for raw in (noise, b"From: " + noise, mail[:at] + noise + mail[at + cut :]):
        try:
            read_registration(raw)
        except ParseError as error:
            assert "\n" not in str(error)  # noqa: PT017 - both ends are right here
