"""Letters, sent to a real mail server on loopback."""

from __future__ import annotations

import asyncio
from email import message_from_bytes, policy
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from aiosmtpd.smtp import SMTP

from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.resolver.mail import Mail, is_recipient
from ibi.resolver.registry import Move, RegisteredArchive
from resolver.member import KEY, STRANGER, archive, member, use_cheap_keys

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage
    from pathlib import Path

IBI = parse_ibi("sid.inpe.br/mtc-m21/2012/06.05.15.34.39")
KNOWN = RegisteredArchive(
    IBI, (), "2026-01-01T00:00:00Z", None, None, contact="admin@archive.example",
    confirmed_address="old.example",
)  # fmt: skip


class Postbox:
    """What a mail server has taken in."""

    def __init__(self) -> None:
        self.envelopes: list[Any] = []

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802 - the server's own name
        self.envelopes.append(envelope)
        return "250 OK"

    @property
    def letters(self) -> list[EmailMessage]:
        return [message_from_bytes(each.content, policy=policy.default) for each in self.envelopes]


@pytest.fixture
def postbox() -> Iterator[tuple[Postbox, Mail]]:
    box, loop = Postbox(), asyncio.new_event_loop()
    server = loop.run_until_complete(loop.create_server(lambda: SMTP(box, loop=loop), "127.0.0.1", 0))
    thread = Thread(target=loop.run_forever)
    thread.start()
    port = server.sockets[0].getsockname()[1]
    try:
        yield box, Mail(f"127.0.0.1:{port}", "resolver@urlib.example", "urlib.example:8080")
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        server.close()
        loop.run_until_complete(server.wait_closed())
        loop.close()


@pytest.mark.proves("REG-01")
def test_every_letter_arrives_in_both_languages_and_with_proper_headers(
    postbox: tuple[Postbox, Mail],
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
    assert not is_recipient(address)


def test_nothing_is_sent_to_what_is_no_plain_address(
    postbox: tuple[Postbox, Mail], caplog: pytest.LogCaptureFixture
) -> None:
    box, mail = postbox
    for address in ("a@b\r\nBcc: c@d.example", "a@b.example,c@d.example", "", "admin@archive.example"):
        mail.registered(IBI, address)
    mail.close()
    assert [envelope.rcpt_tos for envelope in box.envelopes] == [["admin@archive.example"]]
    assert "c@d.example" not in caplog.text


def test_without_a_server_no_letter_is_written() -> None:
    for mail in (Mail("", "a@b.example", "urlib.example"), Mail("127.0.0.1:25", "", "urlib.example")):
        assert not mail.sends
        mail.registered(IBI, "admin@archive.example")
        assert mail._waiting.empty()
        mail.close()


def test_a_server_that_is_not_there_costs_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    mail = Mail("127.0.0.1:1", "a@b.example", "urlib.example")
    mail.registered(IBI, "admin@archive.example")
    mail.close()
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "admin@archive.example" not in caplog.text


def test_of_a_move_the_administrator_is_told_and_not_who_asks_for_it(
    postbox: tuple[Postbox, Mail], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_cheap_keys(monkeypatch)
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
