"""The traces res-01 to res-16 on the wire: a real resolver, real sockets, scripted Archives at the printed names.

Compared are the bytes of every request, the acknowledgment, the redirect and the kind of alert. Then again with
neighbours that hang, reset, drip, lie or are not there: they may delay, but they may change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from ibi.protocol.pair_list import write_pairs
from support.clock import run_with_false_clock
from support.conformance.plays import POLICIES, User
from support.conformance.stage import Seen, Stage
from support.oracles.vectors import Vector, runs
from support.scripted_archive import Behaviour, ReceivedRequest, ScriptedArchive

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.proves(
    "MSG-02",
    "MSG-03",
    "MSG-25",
    "MSG-27",
    "RES-01",
    "RES-02",
    "RES-03",
    "RES-04",
    "RES-05",
    "RES-06",
    "RES-07",
    "RES-08",
    "RES-09",
    "RES-10",
    "RES-11",
    "RES-12",
    "RES-13",
    "RES-14",
    "SVC-26",
    "SVC-27",
    "AMB-46",
    "AMB-50",
    "AMB-51",
    "AMB-52",
    "AMB-53",
)

BAD_NEIGHBOURS = {
    "hangs": Behaviour(lie="silence"),
    "resets": Behaviour(lie="reset"),
    "drips": Behaviour(b"archiveaddress z.example", drip=0.05),
    "endless": Behaviour(lie="endless-body"),
    "compressed": Behaviour(b"archiveaddress z.example", lie="compressed"),
    "html": Behaviour(b"archiveaddress z.example", lie="html"),
    "cut-off": Behaviour(b"archiveaddress z.example", lie="cut-off"),
    "absent": Behaviour(),
}


def archives_of(vector: Vector) -> list[ScriptedArchive]:
    """The Archives of a trace; each answers a moment after the one before, for "first" is time of arrival."""
    made = []
    for number, known in enumerate(vector.input["archives"]):
        base = urlsplit(known["base"])
        archive = ScriptedArchive(f"a{number}", base.netloc, base.path.removeprefix("/"))
        archive.manner = Behaviour(after=0.01 * number)
        for known_answer in known["answers"]:
            pairs = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in known_answer["response"].items()
            }
            question = (known_answer["ibi"].lower(), tuple(known_answer["verblist"]), "")
            archive.script[question] = Behaviour(write_pairs(pairs), after=0.01 * number)
        made.append(archive)
    return made


def play(vector: Vector, policy: str, archives: Sequence[ScriptedArchive], absent: frozenset[str]) -> Seen:
    given = vector.input
    url = urlsplit(given["url"])
    target = url.path + (f"?{url.query}" if url.query else "")
    authority = urlsplit(given.get("url_persistent", given["url"])).netloc
    user = User(target, given["languagepreference"], tuple(given["ipaddress"].split()))

    async def main() -> Seen:
        async with Stage(tuple(archives), authority, policy, absent) as stage:
            return await stage.ask(user)

    return run_with_false_clock(main())


def as_url(request: ReceivedRequest) -> str:
    return f"http://{request.headers['host']}{request.target}"


def of_base(urls: Sequence[str], archive: ScriptedArchive) -> list[str]:
    base = f"http://{archive.address}/{archive.service}?"
    return [url for url in urls if url.startswith(base)]


def check_acknowledgment(expected: Any, archives: Sequence[ScriptedArchive], base: str | None) -> None:
    acknowledged = [
        (archive, request) for archive in archives for request in archive.requests("acknowledgment")
    ]
    if expected is None:
        assert acknowledged == []
    else:
        ((archive, request),) = acknowledged
        assert request.pairs == expected
        assert as_url(request).startswith(f"{base}?")
        assert f"http://{archive.address}/{archive.service}" == base


@pytest.mark.parametrize("policy", POLICIES)
@runs("resolve")
def test_the_trace_passes_on_the_wire(vector: Vector, policy: str) -> None:
    archives = archives_of(vector)
    seen = play(vector, policy, archives, frozenset())
    expected = vector.expected
    for archive in archives:
        urls = [as_url(each) for each in archive.requests("urlRequest")]
        assert urls == of_base(expected["requests"], archive)
    assert seen.headers.get("location") == expected["redirect"]
    assert (seen.status == 302) == (expected["redirect"] is not None)
    assert seen.problem.get("kind") == expected["alert"]
    check_acknowledgment(expected["ack"], archives, expected.get("ack_base"))


@pytest.mark.long
@pytest.mark.parametrize("neighbour", sorted(BAD_NEIGHBOURS))
@runs("resolve")
def test_a_bad_neighbour_changes_no_redirect_and_no_truth(vector: Vector, neighbour: str) -> None:
    archives = archives_of(vector)
    bad = ScriptedArchive("z", "z.example", "example/z/2020/01.01.00.00", manner=BAD_NEIGHBOURS[neighbour])
    absent = frozenset({"z"} if neighbour == "absent" else ())
    seen = play(vector, "hardened", [bad, *archives], absent)
    expected = vector.expected
    assert seen.headers.get("location") == expected["redirect"]
    if (
        expected["alert"] is not None
    ):  # someone was silent, so nothing is certain but that two have claimed (note 6)
        certain = expected["alert"] == "suspect-originals"
        assert seen.problem["kind"] == (expected["alert"] if certain else "incomplete")
        assert seen.status == (409 if certain else 503)
    check_acknowledgment(expected["ack"], archives, expected.get("ack_base"))
    assert bad.acknowledgments == []
