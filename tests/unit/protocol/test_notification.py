"""What an Archive says when something has changed there, and what it is told."""

from __future__ import annotations

import pytest

from ibi.errors import ParseError
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.messages import MOST_CHANGED, ChangeNotification, read_request
from ibi.protocol.replies import ChangeReceived

SERVICE = parse_ibi("sid.inpe.br/mtc-m21/2012/06.05.15.34.39")
START = "servicesubject=changeNotification&ibi.archiveservice=sid.inpe.br/mtc-m21/2012/06.05.15.34.39"


def test_a_notification_is_read_as_it_is_written() -> None:
    names = ("8jmkd3mgp8w/35mmll8", "dpi.inpe.br/banon/1998/08.02.08.56", "6qtX3pFwXQZGivnJSY/M7t24")
    notification = ChangeNotification(SERVICE, tuple(map(parse_name, names)))
    assert notification.query() == (
        "changed=8JMKD3MGP8W/35MMLL8%20dpi.inpe.br/banon/1998/08.02.08.56%206qtX3pFwXQZGivnJSY/M7t24"
        "&ibi.archiveservice=sid.inpe.br/mtc-m21/2012/06.05.15.34.39&servicesubject=changeNotification"
    )
    assert read_request(notification.query()) == notification


def test_the_canonical_names_that_are_told_mean_the_same_names() -> None:
    for text in (
        "8JMKD3MGP8W/35MMLL8",
        "Sid.Inpe.br/MTC-m21/2012/06.05.15.34.39",
        "6qtX3pFwXQZGivnJSY/M7t24",
    ):
        name = parse_name(text)
        assert parse_name(name.canonical).canonical == name.canonical


def test_a_plus_sign_separates_as_a_blank_does_and_no_names_mean_anything() -> None:
    read = read_request(f"{START}&changed=8jmkd3mgp8w/35mmll8+LK47B6W/362SFKH")
    assert isinstance(read, ChangeNotification)
    assert [name.canonical for name in read.changed] == ["8JMKD3MGP8W/35MMLL8", "LK47B6W/362SFKH"]
    assert read_request(START) == ChangeNotification(SERVICE)


@pytest.mark.parametrize(
    "query",
    [
        "servicesubject=changeNotification",
        "servicesubject=changeNotification&ibi.archiveservice=",
        "servicesubject=changeNotification&ibi.archiveservice=nothing",
        f"{START}&changed=",
        f"{START}&changed=+",
        f"{START}&changed=nothing",
        f"{START}&changed=LK47B6W/362SFKH&changed=LK47B6W/362SFKH",
        f"{START}&changed={'+'.join(['LK47B6W/362SFKH'] * (MOST_CHANGED + 1))}",
    ],
)
def test_an_odd_notification_is_refused(query: str) -> None:
    with pytest.raises(ParseError):
        read_request(query)


def test_the_reply_is_exact() -> None:
    assert ChangeReceived().body() == b"notice {change received}"
    assert ChangeReceived.read(b"notice {change received}\r\n") == ChangeReceived()
    for other in (b"", b"notice {acknowledgment received}", b"error {no such service}", b"notice change"):
        with pytest.raises(ParseError):
            ChangeReceived.read(other)


def test_what_was_removed_is_among_what_has_changed() -> None:
    one, two = map(parse_name, ("a.example/b/2010/01.01.00.00", "a.example/b/2011/01.01.00.00"))
    notification = ChangeNotification(SERVICE, (one, two), (two,))
    assert read_request(notification.query()) == notification
    with pytest.raises(ParseError, match="among what has changed"):
        read_request(ChangeNotification(SERVICE, (one,), (two,)).query())
