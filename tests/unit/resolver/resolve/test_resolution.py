"""The machine that resolves one persistent URL. The traces of the standard are in tests/conformance."""

import json

import pytest

from ibi.errors import PeerSilent
from ibi.protocol.extensions.tombstone import Tombstone
from ibi.protocol.messages import UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.resolver.model.alert import Alert, AlertKind, in_english
from ibi.resolver.model.archive import Archive, ArchiveResponse
from ibi.resolver.resolve.resolution import MOST_EDITIONS, Redirect
from support.resolver.resolution import ITEM, LATE, NOTHING, A, B, C, fail, hear, offers, resolve, says


@pytest.mark.proves("RES-05", "AMB-52")
def test_in_normal_mode_the_first_answer_that_satisfies_decides_at_once() -> None:
    resolution = resolve(ITEM)
    assert hear(resolution, A, NOTHING) is None
    assert hear(resolution, B, says(B, state="Deleted")) is None
    decided = hear(resolution, C, offers(C, "Copy"))
    assert decided is not None
    assert decided.archive is C


@pytest.mark.proves("RES-11", "MSG-27", "AMB-49")
def test_an_acknowledgment_carries_what_the_answer_said_and_the_persistent_url() -> None:
    decided = hear(resolve(f"{ITEM}?x=1"), A, offers(A))
    assert decided is not None
    assert decided.url == "http://example.org.a/x?x=1"
    assert decided.acknowledgment is not None
    assert decided.acknowledgment.url == "http://example.org.a/x"
    assert decided.acknowledgment.url_persistent == f"http://resolver.example/{ITEM}?x=1"
    assert decided.acknowledgment.url_key == "1234567890"


def test_without_a_key_there_is_no_acknowledgment() -> None:
    pairs = {name: value for name, value in offers(A).pairs.items() if name != "urlkey"}
    decided = hear(resolve(ITEM), A, UrlList(pairs))
    assert decided is not None
    assert decided.acknowledgment is None


@pytest.mark.proves("RES-08", "ARC-13", "ARC-14")
def test_original_required_waits_for_every_archive() -> None:
    resolution = resolve(f"{ITEM}?ibiurl.requireditemstatus=Original")
    assert hear(resolution, A, offers(A)) is None
    assert hear(resolution, B, offers(B, "Copy")) is None
    decided = resolution.close_round()
    assert isinstance(decided, Redirect)
    assert (decided.archive, decided.complete) == (A, True)


@pytest.mark.proves("RES-10", "AMB-51")
def test_two_claims_are_an_alert_that_names_both_even_when_someone_was_silent() -> None:
    resolution = resolve(f"{ITEM}?ibiurl.requireditemstatus=Original")
    hear(resolution, A, offers(A))
    hear(resolution, B, offers(B))
    fail(resolution, C, LATE)
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.SUSPECT_ORIGINALS
    assert alert.archives == (str(A.service_ibi), str(B.service_ibi))


@pytest.mark.proves("AMB-51")
def test_without_claims_there_is_no_contradiction() -> None:
    resolution = resolve(f"{ITEM}?ibiurl.requireditemstatus=Original")
    hear(resolution, A, offers(A, "Copy"))
    hear(resolution, B, NOTHING)
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.NO_ORIGINAL


def test_one_claim_among_silent_archives_is_followed_and_marked_incomplete() -> None:
    resolution = resolve(f"{ITEM}?ibiurl.requireditemstatus=Original")
    hear(resolution, A, offers(A))
    fail(resolution, B, LATE)
    decided = resolution.close_round()
    assert isinstance(decided, Redirect)
    assert not decided.complete


@pytest.mark.proves("RES-13")
@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([(A, NOTHING), (B, NOTHING)], AlertKind.NOT_FOUND),
        ([(A, says(A, state="Deleted", timestamp="2021-01-01T00:00:00Z")), (B, NOTHING)], AlertKind.DELETED),
        ([(A, None), (B, NOTHING)], AlertKind.INCOMPLETE),
        ([(A, None), (B, says(B, state="Deleted"))], AlertKind.INCOMPLETE),
        ([], AlertKind.INCOMPLETE),
        ([(A, says(A, url="javascript:alert(1)", state="Original"))], AlertKind.UNSAFE_URL),
    ],
)
def test_absence_is_only_claimed_when_everyone_has_answered(
    answers: list[tuple[Archive, UrlList | None]], kind: AlertKind
) -> None:
    resolution = resolve(ITEM)
    for holder, answer in answers:
        if answer is None:
            fail(resolution, holder, LATE)
        else:
            assert hear(resolution, holder, answer) is None
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is kind
    assert alert.coverage is not None
    assert alert.coverage.total == len(answers)


@pytest.mark.proves("WILD-03")
def test_a_known_item_without_what_was_asked_of_it_is_not_called_unknown() -> None:
    resolution = resolve(f"{ITEM}:(BibINPE)")
    hear(resolution, A, says(A, **{"url.metadata": "http://a.example/m"}))
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert (alert.kind, alert.known) == (AlertKind.NOT_FOUND, True)
    assert alert.proposals == (f"http://resolver.example/{ITEM}:",)
    unknown = resolve(ITEM)
    hear(unknown, A, NOTHING)
    alert = unknown.close_round()
    assert isinstance(alert, Alert)
    assert (alert.known, alert.proposals) == (False, ())


def test_the_moment_of_removal_is_told() -> None:
    resolution = resolve(ITEM)
    hear(resolution, A, says(A, state="Deleted", timestamp="2021-01-01T00:00:00Z"))
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.timestamp == "2021-01-01T00:00:00Z"


def test_only_an_alert_of_a_removal_tells_what_stays_known_of_the_item() -> None:
    tombstone = Tombstone(title="Springs", reason="At the request of the authors.")
    removal = UrlList({**says(A, state="Deleted").pairs, **tombstone.pairs})
    removed, silent = resolve(ITEM), resolve(ITEM)
    for resolution in (removed, silent):
        hear(resolution, A, removal)
    fail(silent, B, LATE)
    alert, other = removed.close_round(), silent.close_round()
    assert isinstance(alert, Alert)
    assert isinstance(other, Alert)
    assert (alert.kind, alert.tombstone) == (AlertKind.DELETED, tombstone)
    assert (other.kind, other.tombstone) == (AlertKind.INCOMPLETE, None)


@pytest.mark.proves("RES-13", "URL-12")
def test_a_missing_translation_of_a_known_item_has_its_own_alert() -> None:
    resolution = resolve(f"{ITEM}+(fr)/a.pdf")
    hear(
        resolution,
        A,
        says(
            A, **{"url.translation(pt)": "http://a.example/pt", "url.translation(en)": "http://a.example/en"}
        ),
    )
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.NO_TRANSLATION
    root = f"http://resolver.example/{ITEM}"
    assert alert.alternates == (("en", f"{root}+(en)/a.pdf"), ("pt", f"{root}+(pt)/a.pdf"))


@pytest.mark.proves("RES-09", "RES-14", "URL-18")
def test_next_editions_are_followed_round_by_round_with_the_same_verbs() -> None:
    resolution = resolve(f"{ITEM}!:")
    hear(resolution, A, says(A, ibi_nextedition="example.org/x/2021/01.01.00.00"))
    assert isinstance(resolution.close_round(), UrlRequest)
    assert str(resolution.query.ibi) == "example.org/x/2021/01.01.00.00"
    assert str(resolution.query.verbs) == "GetLastEdition GetMetadata"
    answer = says(
        B,
        "example.org/x/2021/01.01.00.00",
        url_lastedition_metadata="http://b.example/m",
        state_lastedition_metadata="Original",
    )
    decided = hear(resolution, B, answer)
    assert decided is not None
    assert decided.url == "http://b.example/m"
    assert decided.acknowledgment is not None
    assert decided.acknowledgment.content_type == "Metadata"


@pytest.mark.proves("RES-04", "AMB-53")
def test_circles_of_editions_end_also_when_they_change_the_form_of_the_name() -> None:
    resolution = resolve(f"{ITEM}!")
    both = UrlList(
        {
            **says(A).pairs,
            "ibi": ("rep", ITEM, "ibip", "LK47B6W/2"),
            "ibi.nextedition": ("rep", "example.org/x/2021/01.01.00.00"),
        }
    )
    hear(resolution, A, both)
    assert isinstance(resolution.close_round(), UrlRequest)
    back = UrlList(
        {**says(A, "example.org/x/2021/01.01.00.00").pairs, "ibi.nextedition": ("ibip", "LK47B6W/2")}
    )
    hear(resolution, A, back)
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.NOT_FOUND


def edition(number: int) -> str:
    return f"example.org/x/{3000 + number}/01.01.00.00"


@pytest.mark.parametrize("length", [MOST_EDITIONS, MOST_EDITIONS + 1])
def test_editions_are_followed_so_far_and_then_an_alert_names_the_next_one(length: int) -> None:
    resolution = resolve(f"{ITEM}!")
    decision: Redirect | UrlRequest | Alert | None = None
    for number in range(length):
        hear(resolution, A, says(A, str(resolution.query.ibi), ibi_nextedition=edition(number)))
        decision = resolution.close_round()
    if length == MOST_EDITIONS:
        assert isinstance(decision, UrlRequest)
        last = says(A, edition(length - 1), url_lastedition="http://a.example/x")
        assert isinstance(hear(resolution, A, last), Redirect)
        return
    assert isinstance(decision, Alert)
    assert (decision.kind, decision.status) == (AlertKind.TOO_FAR, 502)
    assert decision.leads_to == edition(length - 1)
    assert decision.text(in_english).count(b"The next one would be example.org/x/32") == 1


@pytest.mark.parametrize(("length", "kind"), [(32, AlertKind.TOO_FAR), (31, AlertKind.INCOMPLETE)])
def test_time_that_runs_out_while_many_editions_are_followed_is_told_of_no_archive(
    length: int, kind: AlertKind
) -> None:
    resolution = resolve(f"{ITEM}!")
    for number in range(length):
        hear(resolution, A, says(A, str(resolution.query.ibi), ibi_nextedition=edition(number)))
        assert isinstance(resolution.close_round(), UrlRequest)
    fail(resolution, A, PeerSilent("no whole answer within 0.014 s"))
    alert = resolution.close_round(in_time=False)
    assert isinstance(alert, Alert)
    assert alert.kind is kind
    assert (b"0.014" in alert.text(in_english)) == (kind is AlertKind.INCOMPLETE)
    if kind is AlertKind.TOO_FAR:
        assert alert.leads_to == edition(length - 1)
        assert b"The next one would be" in alert.text(in_english)


def test_the_farthest_edition_that_an_archive_knows_of_is_asked_for_before_the_next_one() -> None:
    resolution = resolve(f"{ITEM}!")
    answer = says(A, ibi_nextedition=edition(1))
    hear(resolution, A, UrlList({**answer.pairs, "edition.farthest": ("rep", edition(9))}))
    query = resolution.close_round()
    assert isinstance(query, UrlRequest)
    assert str(query.ibi) == edition(9)


def test_an_edition_that_no_archive_knows_is_named() -> None:
    resolution = resolve(f"{ITEM}!")
    hear(resolution, A, says(A, ibi_nextedition=edition(1)))
    hear(resolution, B, NOTHING)
    assert isinstance(resolution.close_round(), UrlRequest)
    hear(resolution, A, NOTHING)
    hear(resolution, B, NOTHING)
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert (alert.kind, alert.leads_to, alert.known) == (AlertKind.NOT_FOUND, edition(1), True)
    assert json.loads(alert.problem_json(in_english))["leads_to"] == edition(1)


def test_a_silence_in_an_earlier_round_is_not_forgotten() -> None:
    resolution = resolve(f"{ITEM}!")
    hear(resolution, A, says(A, ibi_nextedition="example.org/x/2021/01.01.00.00"))
    fail(resolution, B, LATE)
    assert isinstance(resolution.close_round(), UrlRequest)
    hear(resolution, A, NOTHING)
    hear(resolution, B, NOTHING)
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.INCOMPLETE
    assert alert.coverage is not None
    assert (alert.coverage.total, alert.coverage.answered) == (2, 1)


def test_an_answer_that_is_not_believed_counts_as_silence() -> None:
    liar = says(B, url="http://b.example/x", state="Original")
    hardened, strict = resolve(ITEM), resolve(ITEM, strict=True)
    assert hear(hardened, A, liar) is None
    alert = hardened.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.INCOMPLETE
    assert hear(strict, A, liar) is not None


@pytest.mark.proves("RES-03")
def test_what_is_asked_is_the_same_whatever_the_reader_prefers_or_requires() -> None:
    plain = resolve(f"{ITEM}+").query.query()
    picky = resolve(f"{ITEM}+?ibiurl.requireditemstatus=Original", language="tlh").query.query()
    assert plain == picky


@pytest.mark.proves("URL-11", "AMB-46")
def test_a_translation_that_leads_nowhere_gives_the_item_in_its_own_language() -> None:
    resolution = resolve(f"{ITEM}+", language="pt")
    named = says(A, **{"ibi.translation(en)": ITEM, "url.translation(en)": "http://a.example/en"})
    named = UrlList(
        {**named.pairs, "ibi.translation(pt)": ("ibip", "LK47B6W/3"), "state.translation(en)": "Original"}
    )
    assert hear(resolution, A, named) is None
    assert isinstance(resolution.close_round(), UrlRequest)
    assert str(resolution.query.ibi) == "LK47B6W/3"
    hear(resolution, A, NOTHING)
    assert isinstance(resolution.close_round(), UrlRequest)
    assert (str(resolution.query.ibi), str(resolution.query.verbs)) == (ITEM, "")
    decided = hear(resolution, A, offers(A))
    assert decided is not None


@pytest.mark.proves("RES-08", "RES-10")
def test_a_claim_counts_even_if_its_url_is_not_used() -> None:
    unsafe = says(A, url="http://user@a.example/x", state="Original")
    two, one = (resolve(f"{ITEM}?ibiurl.requireditemstatus=Original") for _ in range(2))
    hear(two, A, unsafe)
    hear(two, B, offers(B))
    alert = two.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.SUSPECT_ORIGINALS
    hear(one, A, unsafe)
    hear(one, B, offers(B, "Copy"))
    alert = one.close_round()
    assert isinstance(alert, Alert)
    assert (alert.kind, alert.archives) == (AlertKind.UNSAFE_URL, (str(A.service_ibi),))


@pytest.mark.proves("RES-10", "ARC-03")
def test_originals_of_different_items_are_no_contradiction() -> None:
    resolution = resolve(f"{ITEM}+?ibiurl.requireditemstatus=Original", language="pt")
    english = says(A, **{"ibi.translation(en)": ITEM, "url.translation(en)": "http://a.example/en"})
    hear(resolution, A, UrlList({**english.pairs, "state.translation(en)": "Original"}))
    other = "example.org/x/2020/02.02.00.00"
    portuguese = says(B, **{"ibi.translation(pt)": other, "url.translation(pt)": "http://b.example/pt"})
    hear(resolution, B, UrlList({**portuguese.pairs, "state.translation(pt)": "Original"}))
    decided = resolution.close_round()
    assert isinstance(decided, Redirect)
    assert decided.url == "http://b.example/pt"


def test_an_item_that_an_earlier_round_knew_stays_known() -> None:
    resolution = resolve(f"{ITEM}!")
    hear(resolution, A, says(A, ibi_nextedition="example.org/x/2021/01.01.00.00"))
    assert isinstance(resolution.close_round(), UrlRequest)
    hear(resolution, A, NOTHING)
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert (alert.kind, alert.known) == (AlertKind.NOT_FOUND, True)


@pytest.mark.proves("AMB-50")
def test_an_answer_without_a_state_is_used_and_the_acknowledgment_leaves_it_out() -> None:
    decided = hear(resolve(ITEM), A, says(A, url="http://a.example/x"))
    assert decided is not None
    assert decided.acknowledgment is not None
    assert decided.acknowledgment.state is None


@pytest.mark.proves("RES-10", "ARC-03")
def test_metadata_of_another_edition_are_no_claim_of_the_item_itself() -> None:
    resolution = resolve(f"{ITEM}!:?ibiurl.requireditemstatus=Original")
    hear(resolution, A, says(A, state="Original"))
    last = says(
        B, **{"state.lastedition.metadata": "Original", "url.lastedition.metadata": "http://b.example/m"}
    )
    hear(resolution, B, last)
    decided = resolution.close_round()
    assert isinstance(decided, Redirect)
    assert decided.archive is B


@pytest.mark.proves("RES-10", "ARC-03")
def test_metadata_without_a_name_are_those_of_what_leads_to_them() -> None:
    resolution = resolve(f"{ITEM}!:?ibiurl.requireditemstatus=Original")
    hear(resolution, A, says(A, state="Original"))
    mine = says(B, ibi_lastedition=ITEM, **{"state.lastedition.metadata": "Original"})
    hear(resolution, B, UrlList({**mine.pairs, "url.lastedition.metadata": "http://b.example/m"}))
    alert = resolution.close_round()
    assert isinstance(alert, Alert)
    assert alert.kind is AlertKind.SUSPECT_ORIGINALS


def test_who_is_excluded_and_known_to_hold_the_item_counts_as_silent() -> None:
    resolution = resolve(f"{ITEM}?ibiurl.requireditemstatus=Original")
    resolution.count_absent(ArchiveResponse(C, None, LATE), 7)
    hear(resolution, A, offers(A))
    decided = resolution.close_round()
    assert isinstance(decided, Redirect)
    assert decided.coverage is not None
    assert (decided.complete, decided.coverage.total, len(decided.coverage.silent)) == (False, 2, 1)
    nothing = resolve(ITEM)
    nothing.count_absent(ArchiveResponse(C, None, LATE), 7)
    hear(nothing, A, NOTHING)
    alert = nothing.close_round()
    assert isinstance(alert, Alert)
    assert (alert.kind, alert.retry_after, alert.archives) == (AlertKind.INCOMPLETE, 7, (str(C.service_ibi),))
