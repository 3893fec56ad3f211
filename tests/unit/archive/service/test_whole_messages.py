"""Messages to an Archive and the replies, whole: acknowledgments of each kind of sender, notices, answers too long."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.model.url_key import AcknowledgmentCount, UrlKeys
from ibi.archive.service.messages import (
    NO_SERVICE,
    AcknowledgmentRecord,
    AdapterSettings,
    MessageService,
    refusal,
)
from ibi.archive.store.data_directory import identity_of
from ibi.errors import ParseError, Unsettled
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.identifier.forms import IBI, IBIForms, Name, parse_name
from ibi.protocol.extensions.changes import ChangesRequest
from ibi.protocol.messages import Acknowledgment, ChangeNotification, ConfirmationRequest, UrlRequest
from ibi.protocol.pair_list import MAX_BODY
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import REP, WHEN, settings_for

TRUSTED, STRANGER = "192.0.2.7", "198.51.100.1"
SETTINGS = AdapterSettings((), (f"{TRUSTED}/32",), (), filter_answers=True, reuse_seconds=60)
NOT_KEPT = (("cache-control", "no-store"), ("x-robots-tag", "noindex, nofollow"))


def response_of(body: str, status: int = 200) -> Response:
    """The whole response with this body."""
    return Response(status, body.encode(), "text/plain", NOT_KEPT)


RECEIVED = response_of("notice {acknowledgment received}")
NO_SUBJECT = response_of("error {this is an Archive, not a resolver}", 400)


@dataclass
class Scene:
    """A service of messages about one item, and what it counts."""

    item: Holding
    settings: AdapterSettings = SETTINGS
    counted: list[AcknowledgmentCount] = field(default_factory=list)
    by_client: list[tuple[AcknowledgmentCount, str | None]] = field(default_factory=list)
    record: AcknowledgmentRecord = field(
        default_factory=lambda: AcknowledgmentRecord(lambda: 1e9, logs=False)
    )
    noticed: list[IBI] = field(default_factory=list)

    def service(self, *, by_client: bool = False, copies: bool = False, **more: Any) -> MessageService:
        def lookup(name: Name) -> Holding | None:
            return self.item if name in self.item.names else None

        def notice(ibi: IBI) -> bool:
            self.noticed.append(ibi)
            return copies

        identity = identity_of(settings_for("archive.example"))
        return MessageService(
            lookup, identity, self.settings, UrlKeys(b"s" * 16, lambda: 1e9), lambda: 1e9, self.counted.append,
            acknowledge_of=(lambda *each: self.by_client.append(each)) if by_client else None, record=self.record,
            noticed=notice, **more,
        )  # fmt: skip


@pytest.fixture
def scene() -> Scene:
    forms = IBIForms.parse(f"rep {REP}")
    return Scene(Holding(forms=forms, number=7, timestamp=WHEN, url="http://far.example/"))


def request(query: str, peer: str = STRANGER, method: str = "GET", **headers: str) -> Request:
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Request(method, "/", query, sent, peer=peer)


def key_of(service: MessageService) -> str:
    message = UrlRequest(("192.0.2.1",), parse_name(REP), "", VerbList.parse(""))
    found = service.answer(request(message.query(), TRUSTED))
    assert found.status == 200, found.body
    key = UrlList.read(found.body).url_key
    assert key
    return key


def acknowledgment(key: str, readers: int = 1) -> str:
    url = "http://far.example/"
    return Acknowledgment(
        ("192.0.2.1",),
        ContentType.DATA,
        ItemState.ORIGINAL,
        url,
        f"http://r.example/{REP}",
        key,
        count=readers,
    ).query()


def test_an_acknowledgment_counts_as_far_as_its_sender_is_trusted(scene: Scene) -> None:
    service = scene.service()
    query = acknowledgment(key_of(service), 3)
    for peer in (TRUSTED, STRANGER):
        assert service.answer(request(query, peer)) == RECEIVED
    given, of_stranger = scene.counted
    assert (given.number, given.readers) == (7, 3)
    assert of_stranger == given.of_stranger
    by_client = scene.service(by_client=True)
    for peer in (TRUSTED, STRANGER):
        by_client.answer(request(query, peer))
    assert (scene.counted[2:], scene.by_client) == ([given], [(given, STRANGER)])


def test_what_leads_no_reader_to_the_item_is_not_counted(scene: Scene) -> None:
    service = scene.service()
    query = acknowledgment(key_of(service))
    for one in (request(query, method="HEAD"), request(query, sec_purpose="prefetch")):
        assert service.answer(one) == RECEIVED
    assert scene.counted == []
    assert dict(scene.record.refused) == {}


def test_an_acknowledgment_that_does_not_count_is_answered_with_its_reason(scene: Scene) -> None:
    service = scene.service()
    key = key_of(service)
    query = acknowledgment(key)
    service.answer(request(query, TRUSTED))
    [valid] = scene.counted
    forged = service.answer(request(acknowledgment("1234567890"), TRUSTED))
    old = UrlKeys(b"s" * 16, lambda: 1e9 - 601).make(7)
    too_old = service.answer(request(acknowledgment(old), TRUSTED))
    scene.record.use_up(valid, STRANGER)
    used_up = service.answer(request(query))
    scene.record.is_busy = True
    busy = service.answer(request(query, TRUSTED))
    reasons = ("unknown-key", "too-old", "used-up", "busy")
    for found, reason in zip((forged, too_old, used_up, busy), reasons, strict=True):
        refused = ("ibi-acknowledgment-refused", reason)
        assert found == replace(RECEIVED, headers=(refused, *NOT_KEPT))
    assert len(scene.counted) == 1
    assert scene.record.refused == dict.fromkeys(reasons, 1)


def test_a_notice_of_change_is_taken_where_copies_come_from_its_archive(scene: Scene) -> None:
    notice = ChangeNotification(parse_name("a.example/w/2020/01.01.00.00"))  # type: ignore[arg-type]  # it is an IBI
    for copies, method in ((True, "GET"), (False, "GET"), (True, "HEAD")):
        found = scene.service(copies=copies).answer(request(notice.query(), method=method))
        taken = copies and method == "GET"
        assert found == (response_of("notice {change received}") if taken else NO_SUBJECT)
    assert len(scene.noticed) == 2


def test_an_answer_that_no_resolver_reads_is_refused(scene: Scene) -> None:
    long = "http://far.example/" + "x" * MAX_BODY
    message = UrlRequest(("192.0.2.1",), parse_name(REP), "", VerbList.parse(""))
    scene.item = replace(scene.item, url=long)
    found = scene.service().answer(request(message.query()))
    assert found == response_of("error {the answer to this would be longer than a resolver reads}", 400)
    scene.item = replace(scene.item, url="http://far.example/", unsettled=WHEN)
    unsettled = scene.service().answer(request(message.query()))
    with pytest.raises(Unsettled) as why:
        scene.item.check_settled()
    assert unsettled == response_of(f"error {{{why.value}}}", 503)


def test_a_request_for_inclusion_is_confirmed_while_the_archive_takes_part(scene: Scene) -> None:
    asking = request(ConfirmationRequest().query())
    assert scene.service().answer(asking) == response_of("confirmation yes")
    assert scene.service(confirms=False).answer(asking) == response_of("")


def test_a_request_for_changes_is_answered_where_there_is_a_log_of_them(scene: Scene) -> None:
    scene.settings = replace(SETTINGS, trusted_proxies=(f"{TRUSTED}/32",))
    message = ChangesRequest("0123456789abcdef")
    heard = list[Any]()

    def reply(*given: object) -> Response:
        heard.append(given)
        return RECEIVED

    log: Any = SimpleNamespace(reply=reply)
    requests = [request(message.query(), peer, x_forwarded_for="203.0.113.9") for peer in (STRANGER, TRUSTED)]
    for each in requests:
        assert scene.service(changes=log).answer(each) == RECEIVED
        assert scene.service().answer(each) == NO_SUBJECT
    assert scene.service(changes=log).answer(request(acknowledgment("1234567890"))).status == 200
    assert heard == [(message, requests[0], STRANGER), (message, requests[1], "203.0.113.9")]


def test_what_is_no_url_request_is_told_from_one(scene: Scene) -> None:
    service = scene.service()
    message = UrlRequest(("192.0.2.1",), parse_name(REP), "", VerbList.parse(""))
    others = (ConfirmationRequest().query(), "servicesubject=whatever", "")
    assert service.url_request(request(message.query())) == message
    assert [service.url_request(request(query)) for query in others] == [None] * 3
    with pytest.raises(ParseError) as wrong:
        service.answer(request("servicesubject=whatever"))
    assert refusal(wrong.value) == response_of(f"error {{{wrong.value.what}: {wrong.value}}}", 400)
    assert response_of("error {there is no Archive service at this path}", 400) == NO_SERVICE


def test_a_service_that_is_given_no_more_counts_refuses_and_confirms(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    identity, keys = identity_of(settings_for("archive.example")), UrlKeys(b"s" * 16, lambda: 1e9)
    service = MessageService(
        lambda _: scene.item, identity, SETTINGS, keys, lambda: 1e9, scene.counted.append
    )
    notice = ChangeNotification(parse_name("a.example/w/2020/01.01.00.00"))  # type: ignore[arg-type]  # it is an IBI
    assert service.answer(request(notice.query())) == NO_SUBJECT
    assert service.answer(request(ConfirmationRequest().query())) == response_of("confirmation yes")
    assert service.answer(request(acknowledgment("1234567890"))).status == 200
    assert service.answer(request(acknowledgment(key_of(service)))) == RECEIVED
    assert len(scene.counted) == 1
    assert caplog.messages == []
