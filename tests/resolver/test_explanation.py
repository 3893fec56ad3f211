"""What an explanation keeps: what Archives said in full only where somebody will look at it."""

from __future__ import annotations

import gc
import weakref

import pytest

from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.resolver.alerts import in_english
from ibi.resolver.explanation import Explanation

REQUEST = UrlRequest(("192.0.2.1",), parse_ibi("example.org/a/2020/01.02.00.00"), verbs=VerbList(()))


@pytest.mark.parametrize("in_full", [False, True], ids=["for a redirect", "for the page"])
def test_the_answers_are_kept_only_for_who_will_look_at_them(*, in_full: bool) -> None:
    story = Explanation("http://urlib.net/x", "hardened", original_required=False, in_full=in_full)
    story.ask(REQUEST, "everybody")
    answer = UrlList({"url": "http://a.example/x", "urlkey": "1234567890-1234567890"})
    story.hear("example/a", "a.example", answer, 4)
    kept = weakref.ref(answer)
    del answer
    gc.collect()
    assert (kept() is not None) == in_full
    (statement,) = story.as_dict(in_english)["rounds"][0]["statements"]
    assert statement["said"] == "url list"
    assert statement["pairs"] == ({"url": "http://a.example/x"} if in_full else {})
