"""Messages to an Archive and the replies, whole: acknowledgments of each kind of sender, notices, answers too long."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.model.url_key import AcknowledgmentCount, UrlKeys
from ibi.archive.service.messages import AcknowledgmentRecord, AdapterSettings, MessageService
from ibi.archive.store.data_directory import identity_of
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.identifier.forms import IBI, IBIForms, Name, parse_name
from ibi.protocol.messages import Acknowledgment, ChangeNotification, UrlRequest
from ibi.protocol.pair_list import MAX_BODY
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import REP, WHEN, settings_for

PLAIN = (200, b"notice {acknowledgment received}", "")
TRUSTED, STRANGER = "192.0.2.7", "198.51.100.1"
SETTINGS = AdapterSettings((), (f"{TRUSTED}/32",), (), filter_answers=True, reuse_seconds=60)
NO_SUBJECT = (400, b"error {this is an Archive, not a resolver}", "")


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

    def service(self, *, by_client: bool = False, copies: bool = False) -> MessageService:
        def lookup(name: Name) -> Holding | None:
            return self.item if name in self.item.names else None

        def notice(ibi: IBI) -> bool:
            self.noticed.append(ibi)
            return copies

        identity = identity_of(settings_for("archive.example"))
        return MessageService(
            lookup, identity, self.settings, UrlKeys(b"s" * 16, lambda: 1e9), lambda: 1e9, self.counted.append,
            acknowledge_of=(lambda *each: self.by_client.append(each)) if by_client else None, record=self.record,
            noticed=notice,
        )  # fmt: skip


@pytest.fixture
def scene() -> Scene:
    forms = IBIForms.parse(f"rep {REP}")
    return Scene(Holding(forms=forms, number=7, timestamp=WHEN, url="http://far.example/"))


def request(query: str, peer: str = STRANGER, method: str = "GET", **headers: str) -> Request:
    sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Request(method, "/", query, sent, peer=peer)


def whole(response: Response) -> tuple[int, bytes, str]:
    return response.status, response.body, dict(response.headers).get("ibi-acknowledgment", "")


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
        assert service.answer(request(query, peer)).body == PLAIN[1]
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
        assert service.answer(one).body == PLAIN[1]
    assert scene.counted == []
    assert dict(scene.record.refused) == {}


def test_an_acknowledgment_that_does_not_count_is_answered_with_its_reason(scene: Scene) -> None:
    service = scene.service()
    key = key_of(service)
    query = acknowledgment(key)
    service.answer(request(query, TRUSTED))
    [valid] = scene.counted
    forged = service.answer(request(acknowledgment("1234567890"), TRUSTED))
    scene.record.use_up(valid, STRANGER)
    used_up = service.answer(request(query))
    scene.record.is_busy = True
    busy = service.answer(request(query, TRUSTED))
    assert [each.status for each in (forged, used_up, busy)] == [200] * 3
    assert {each.body for each in (forged, used_up, busy)} == {PLAIN[1]}
    assert len(scene.counted) == 1
    assert sum(scene.record.refused.values()) == 3
    assert {"busy", "used-up"} < set(scene.record.refused)
    reasons = [[value for _, value in each.headers] for each in (used_up, busy)]
    assert ["used-up" in reasons[0], "busy" in reasons[1]] == [True, True]


def test_a_notice_of_change_is_taken_where_copies_come_from_its_archive(scene: Scene) -> None:
    notice = ChangeNotification(parse_name("a.example/w/2020/01.01.00.00"))  # type: ignore[arg-type]  # it is an IBI
    for copies, method in ((True, "GET"), (False, "GET"), (True, "HEAD")):
        found = scene.service(copies=copies).answer(request(notice.query(), method=method))
        taken = copies and method == "GET"
        assert (found.status, found.body == NO_SUBJECT[1]) == (200 if taken else 400, not taken)
    assert len(scene.noticed) == 2


def test_an_answer_that_no_resolver_reads_is_refused(scene: Scene) -> None:
    long = "http://far.example/" + "x" * MAX_BODY
    message = UrlRequest(("192.0.2.1",), parse_name(REP), "", VerbList.parse(""))
    scene.item = replace(scene.item, url=long)
    found = scene.service().answer(request(message.query()))
    assert (found.status, found.body) == (
        400,
        b"error {the answer to this would be longer than a resolver reads}",
    )
    scene.item = replace(scene.item, url="http://far.example/", unsettled=WHEN)
    unsettled = scene.service().answer(request(message.query()))
    assert (unsettled.status, "retry-after" in dict(unsettled.headers)) == (503, False)
    assert unsettled.body.startswith(f"error {{{REP} came back from a backup of {WHEN}".encode())
