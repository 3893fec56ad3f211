"""What an explanation keeps and tells: whole responses only where a reader will look at them; when rounds began."""

from __future__ import annotations

import gc
import weakref

import pytest

from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.resolver.model.alert import Alert, AlertKind, in_english
from ibi.resolver.model.archive import ArchiveResponse
from ibi.resolver.pages.explanation import Explanation
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolver import RoundTrace, Trace
from support.resolver.resolution import archive_of

REQUEST = UrlRequest(("192.0.2.1",), parse_ibi("example.org/a/2020/01.02.00.00"), verbs=VerbList(()))


@pytest.mark.parametrize("in_full", [False, True], ids=["for a redirect", "for the page"])
def test_the_answers_are_kept_only_for_who_will_look_at_them(*, in_full: bool) -> None:
    answer = UrlList({"url": "http://a.example/x", "urlkey": "1234567890-1234567890"})
    round_trace = RoundTrace(REQUEST, "everybody", 0.0)
    round_trace.responses.append(ArchiveResponse(archive_of("example/a/2020/01.01.00.00"), answer, at=0.004))
    trace = Trace("http://urlib.net/x", Policy(), original_required=False, in_full=in_full)
    trace.rounds.append(round_trace)
    if not in_full:
        round_trace.forget_answers()
    kept = weakref.ref(answer)
    del answer
    gc.collect()
    assert (kept() is not None) == in_full
    (statement,) = Explanation(Alert(AlertKind.NOT_FOUND), trace).as_dict(in_english)["rounds"][0][
        "statements"
    ]
    assert statement["said"] == "url list"
    assert statement["pairs"] == ({"url": "http://a.example/x"} if in_full else {})


def test_each_round_tells_after_how_many_milliseconds_it_began() -> None:
    trace = Trace("http://urlib.net/x", Policy(), original_required=False)
    trace.rounds += [RoundTrace(REQUEST, "everybody", began) for began in (40.0, 40.1374, 42.5)]
    explained = Explanation(Alert(AlertKind.NOT_FOUND), trace)
    assert [each["began"] for each in explained.as_dict(in_english)["rounds"]] == [0, 137, 2500]
    lines = explained.text(in_english).decode().splitlines()
    assert [line for line in lines if "It began" in line] == [
        "  It began after 137 ms.",
        "  It began after 2500 ms.",
    ]
