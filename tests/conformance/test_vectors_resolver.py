"""The vectors of the resolution itself (R15 chapters 8 and 10), run against the machine that decides without doing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest

from ibi.identifier.forms import parse_ibi
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import read_query
from ibi.protocol.url_list import UrlList
from ibi.resolver.model.alert import Alert
from ibi.resolver.model.archive import Archive
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Redirect, Resolution
from support.oracles.vectors import Vector, runs
from support.resolver.resolution import hear

SENT = {
    "servicesubject",
    "clientinformation.ipaddress",
    "parsedibiurl.ibi",
    "parsedibiurl.filepath",
    "parsedibiurl.verblist",
}
"""All that an Archive is ever told (MSG-25)."""


@dataclass(frozen=True)
class ScriptedArchive:
    """An Archive of a vector: its address, and its answers by the IBI and the verbs asked for."""

    base: str
    answers: list[dict[str, Any]]

    @cached_property
    def known(self) -> Archive:
        return Archive(parse_ibi(self.base.split("/", 3)[3]), self.base)

    def answer(self, resolution: Resolution) -> UrlList:
        request = resolution.query
        for answer in self.answers:
            if (answer["ibi"], answer["verblist"]) == (str(request.ibi), list(request.verbs.verbs)):
                return UrlList(as_read(answer["response"]))
        return UrlList({})


def as_read(pairs: dict[str, Any]) -> dict[str, str | tuple[str, ...]]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in pairs.items()}


def play(
    given: dict[str, Any], archives: list[ScriptedArchive], policy: Policy
) -> tuple[list[str], Redirect | Alert]:
    """Drive a resolution to its end: the requests sent, and what it came to."""
    resolution = Resolution(
        PersistentURL.from_text(given["url"]),
        given.get("url_persistent", given["url"]),
        tuple(given["ipaddress"].split()),
        LanguagePreference.parse(given["languagepreference"]),
        policy,
    )
    sent: list[str] = []
    while True:
        sent += [f"{archive.base}?{resolution.query.query()}" for archive in archives]
        for archive in archives:
            redirect = hear(resolution, archive.known, archive.answer(resolution))
            if redirect is not None:
                return sent, redirect
        end = resolution.close_round()
        if not isinstance(end, UrlRequest):
            return sent, end


@pytest.mark.proves(
    "RES-01", "RES-02", "RES-03", "RES-05", "RES-06", "RES-07", "RES-08", "RES-09", "RES-10", "RES-11", "RES-12",
    "RES-13", "RES-14", "SVC-26", "SVC-27", "MSG-25", "MSG-27", "AMB-46", "AMB-51", "AMB-52", "AMB-53",
)  # fmt: skip
@runs("resolve")
def test_resolve(vector: Vector) -> None:
    for policy in (Policy(), Policy(strict=True)):
        check(vector, policy)


def check(vector: Vector, policy: Policy) -> None:
    given, expected = vector.input, vector.expected
    archives = [ScriptedArchive(archive["base"], archive["answers"]) for archive in given["archives"]]
    sent, end = play(given, archives, policy)
    assert sent == expected["requests"]
    for request in sent:  # neither the language preference nor the required state is told to anyone
        assert {name for name, _ in read_query(request.partition("?")[2])} <= SENT
    if isinstance(end, Alert):
        assert str(end.kind) == expected["alert"]
        assert expected["redirect"] is None
        assert expected["ack"] is None
    else:
        assert expected["alert"] is None
        assert end.url == expected["redirect"]
        assert end.archive.address == expected["ack_base"]
        assert end.acknowledgment is not None
        assert dict(read_query(end.acknowledgment.query())) == expected["ack"]
