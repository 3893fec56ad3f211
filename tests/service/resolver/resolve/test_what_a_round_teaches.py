"""What `Knowledge` learns from rounds, alerts and notices: the hints and the evidence before and after each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ibi.errors import PeerSilent, WrongArchive
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.messages import UrlRequest
from ibi.protocol.relation import ITEM
from ibi.protocol.url_list import UrlList, WantedEntry
from ibi.protocol.verb_list import VerbList
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.hints import HintCache, HolderHint
from ibi.resolver.cache.lease_table import name_slot
from ibi.resolver.cache.rows import name_digest
from ibi.resolver.evidence.log import EVIDENCE_FILE, Evidence
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.model.archive import ArchiveResponse, AwayArchive, Members
from ibi.resolver.resolve.learning import NO_HINT, Knowledge
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Redirect
from support.resolver.resolution import archive_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ibi.errors import IbiError
    from ibi.resolver.model.archive import Archive, ResponseSource


REP, IBIP = "sid.inpe.br/mtc-m18@80/2009/07.21.14.{:02}", "8JMKD3MGP8W/35MML{}8"
LETTERS = "23456789ABCDEFGHJKLMNPQRSTUW"
HOME = archive_of("sid.inpe.br/mtc-m18@80/2008/03.17.15.17", "home.example")
IBIP_HOME = archive_of("8JMKD3MGP8W/34PGRBS", "second.example")
FAR, THIRD = archive_of("far.example/a/2020/01.01.00.00"), archive_of("third.example/a/2020/01.01.00.00")
NOW = 1_800_000_000.0
LATE = PeerSilent("no answer in time")


class ScriptedResponse(NamedTuple):
    """What an Archive says of an item: that it is in this `state`, "" for nothing known; None if it is silent."""

    by: Archive
    state: str | None = "Original"
    error: IbiError | None = None
    source: ResponseSource = "network"
    service: Archive | None = None
    """In whose name it answers, if not in its own."""

    def response(self, item: int) -> ArchiveResponse:
        if self.state is None:
            return ArchiveResponse(self.by, None, LATE)
        rep, ibip = names_of(item)
        facts = {"state": self.state, "url": f"http://{self.by.address}/x"}
        service = (self.service or self.by).name
        words = {"ibi": ("rep", rep, "ibip", ibip), "ibi.archiveservice": ("rep", service)}
        answer = UrlList({**words, **facts} if self.state else {})
        return ArchiveResponse(self.by, answer, self.error, source=self.source)


def names_of(item: int) -> tuple[str, str]:
    """Both canonical names of an item that is made for a test."""
    return REP.format(item), IBIP.format(LETTERS[item])


def query(item: int) -> UrlRequest:
    return UrlRequest(("192.0.2.1",), parse_ibi(names_of(item)[1]))


def redirect(to: ArchiveResponse) -> Redirect:
    assert to.answer is not None
    found, stale = WantedEntry(ITEM, to.answer.entry()), to.source == "stale"
    return Redirect("http://a.example/x", to.archive, found, None, to.answer, stale=stale)


def among(*archives: Archive, away: Sequence[Archive] = ()) -> Members:
    gone = {each.service: AwayArchive(each, NOW - 60, None) for each in away}
    return Members.of(archives, probation=True, away=gone)


@contextmanager
def knowing(folder: Path, *, recorded: bool = True) -> Iterator[Knowledge]:
    """What is known in a new folder; without `recorded`, the evidence takes nothing."""
    evidence = Evidence(folder / EVIDENCE_FILE, lambda: NOW)
    if not recorded:
        evidence.close()
    knowledge = Knowledge(
        HintCache(folder / "hints"), AnswerCache(folder / "memory", lambda: NOW), evidence, lambda: NOW
    )
    try:
        yield knowledge
    finally:
        knowledge.close()


def entries(knowledge: Knowledge) -> list[tuple[str, dict[str, str | int]]]:
    """The evidence, which takes nothing from now on."""
    knowledge.evidence.close()
    return [(each.what, dict(each.facts)) for each in knowledge.evidence.entries()]


class Lesson(NamedTuple):
    """A round, and what is known of both names of its item before and after it."""

    scripted: Sequence[ScriptedResponse]
    after: HolderHint
    evidence: Sequence[tuple[str, dict[str, str]]] = ()
    before: HolderHint = NO_HINT
    members: Members = among(HOME, FAR, THIRD)
    chosen: int | None = 0
    """Which response the reader is led by; None: an alert, `kind`."""
    kind: AlertKind = AlertKind.NO_TRANSLATION


def likely(archive: Archive, original: Archive | None = None, *, early: bool = False) -> HolderHint:
    return HolderHint(archive.service, None if original is None else original.service, early)


def first_seen(at: Archive) -> tuple[str, dict[str, str]]:
    return "original", {"archive": at.service}


def moved(origin: Archive, to: Archive) -> tuple[str, dict[str, str]]:
    return "migrated", {"from": origin.service, "to": to.service}


LESSONS = {
    "a copy": Lesson([ScriptedResponse(FAR, "Copy"), ScriptedResponse(HOME, "")], likely(FAR)),
    "an original": Lesson(
        [ScriptedResponse(FAR), ScriptedResponse(HOME, "")], likely(FAR, FAR), [first_seen(FAR)]
    ),
    "an original at home": Lesson([ScriptedResponse(HOME)], likely(HOME, HOME), [first_seen(HOME)]),
    "before the home was heard": Lesson([ScriptedResponse(FAR)], likely(FAR, early=True)),
    "before the home answered": Lesson(
        [ScriptedResponse(HOME, None), ScriptedResponse(FAR)], likely(FAR, early=True), chosen=1
    ),
    "before the home was believed": Lesson(
        [ScriptedResponse(HOME, error=WrongArchive("another")), ScriptedResponse(FAR)],
        likely(FAR, early=True),
        chosen=1,
    ),
    "before the second home was heard": Lesson(
        [ScriptedResponse(HOME, ""), ScriptedResponse(FAR)],
        likely(FAR, early=True),
        members=among(HOME, IBIP_HOME, FAR),
        chosen=1,
    ),
    "a second Archive of the prefix": Lesson(
        [ScriptedResponse(IBIP_HOME), ScriptedResponse(HOME, "")],
        likely(IBIP_HOME, IBIP_HOME),
        [first_seen(IBIP_HOME)],
        members=among(HOME, IBIP_HOME, FAR),
    ),
    "while the home is away": Lesson(
        [ScriptedResponse(FAR)], likely(FAR, early=True), members=among(FAR, away=[HOME])
    ),
    "while the home of the other name is away": Lesson(
        [ScriptedResponse(FAR)], likely(FAR, early=True), members=among(FAR, away=[IBIP_HOME])
    ),
    "while another is away": Lesson(
        [ScriptedResponse(FAR)], likely(FAR, FAR), [first_seen(FAR)], members=among(FAR, away=[THIRD])
    ),
    "at home, while another home is away": Lesson(
        [ScriptedResponse(HOME)], likely(HOME, early=True), members=among(HOME, away=[IBIP_HOME])
    ),
    "after an early answer": Lesson(
        [ScriptedResponse(HOME, ""), ScriptedResponse(FAR)],
        likely(FAR, FAR),
        [first_seen(FAR)],
        likely(FAR, early=True),
        chosen=1,
    ),
    "a copy after an early answer": Lesson(
        [ScriptedResponse(HOME, ""), ScriptedResponse(FAR, "Copy")],
        likely(FAR),
        before=likely(FAR, early=True),
        chosen=1,
    ),
    "a copy beside a known holder": Lesson(
        [ScriptedResponse(FAR, "Copy")], likely(FAR, HOME), before=likely(HOME, HOME)
    ),
    "a claim, and the known holder is silent": Lesson(
        [ScriptedResponse(HOME, None), ScriptedResponse(FAR)],
        likely(FAR, HOME),
        before=likely(HOME, HOME),
        chosen=1,
    ),
    "a claim, and the known holder knows nothing": Lesson(
        [ScriptedResponse(HOME, ""), ScriptedResponse(FAR)],
        likely(FAR, HOME),
        before=likely(HOME, HOME),
        chosen=1,
    ),
    "a claim, and the known holder says copy": Lesson(
        [ScriptedResponse(HOME, "Copy"), ScriptedResponse(FAR)],
        likely(FAR, FAR),
        [moved(HOME, FAR)],
        likely(HOME, HOME),
        chosen=1,
    ),
    "a claim, and the known holder says deleted": Lesson(
        [ScriptedResponse(HOME, "Deleted"), ScriptedResponse(FAR)],
        likely(FAR, FAR),
        [moved(HOME, FAR)],
        likely(FAR, HOME),
        chosen=1,
    ),
    "a claim, and the known holder said copy long ago": Lesson(
        [ScriptedResponse(HOME, "Copy", source="stale"), ScriptedResponse(FAR)],
        likely(FAR, HOME),
        before=likely(HOME, HOME),
        chosen=1,
    ),
    "a claim, and the known holder is not believed": Lesson(
        [ScriptedResponse(HOME, "Copy", error=WrongArchive("another")), ScriptedResponse(FAR)],
        likely(FAR, HOME),
        before=likely(HOME, HOME),
        chosen=1,
    ),
    "a claim, and the known holder is away": Lesson(
        [ScriptedResponse(FAR)], likely(FAR, HOME), before=likely(HOME, HOME), members=among(FAR, away=[HOME])
    ),
    "a claim, and the known holder is gone": Lesson(
        [ScriptedResponse(FAR)], likely(FAR, FAR), [moved(HOME, FAR)], likely(HOME, HOME), members=among(FAR)
    ),
    "an expired answer": Lesson([ScriptedResponse(FAR, source="stale")], NO_HINT),
    "an alert": Lesson(
        [ScriptedResponse(HOME, ""), ScriptedResponse(FAR), ScriptedResponse(THIRD)],
        likely(FAR, FAR),
        [first_seen(FAR)],
        chosen=None,
    ),
    "an alert, and the first says that it is removed": Lesson(
        [ScriptedResponse(HOME, ""), ScriptedResponse(FAR, "Deleted"), ScriptedResponse(THIRD, "Copy")],
        likely(THIRD),
        chosen=None,
    ),
    "an alert, and the first is not believed": Lesson(
        [ScriptedResponse(FAR, service=HOME), ScriptedResponse(THIRD)], NO_HINT, chosen=None
    ),
    "an alert of two originals": Lesson(
        [ScriptedResponse(FAR), ScriptedResponse(HOME)],
        NO_HINT,
        chosen=None,
        kind=AlertKind.SUSPECT_ORIGINALS,
    ),
}


def test_a_round_teaches_who_holds_an_item(tmp_path: Path) -> None:
    known, expected, recorded = {}, {}, []
    with knowing(tmp_path) as knowledge:
        for item, (name, lesson) in enumerate(LESSONS.items()):
            before, names = lesson.before, names_of(item)
            knowledge.hints.remember(
                names, likely=before.likely, original=before.original, early=before.early
            )
            responses = [each.response(item) for each in lesson.scripted]
            decision = Alert(lesson.kind) if lesson.chosen is None else redirect(responses[lesson.chosen])
            knowledge.learn(query(item), before, responses, decision, Policy(), lesson.members)
            known[name] = [knowledge.hints.of(each) for each in names]
            expected[name] = [lesson.after, lesson.after]
            ibi = f"rep {names[0]} ibip {names[1]}"
            recorded += [(what, {"ibi": ibi, **facts}) for what, facts in lesson.evidence]
        assert known == expected
        assert entries(knowledge) == recorded


def test_in_the_strict_policy_nothing_is_learned(tmp_path: Path) -> None:
    with knowing(tmp_path) as knowledge:
        responses = [ScriptedResponse(HOME).response(0)]
        decision, policy = redirect(responses[0]), Policy(strict=True)
        knowledge.learn(query(0), NO_HINT, responses, decision, policy, among(HOME))
        assert [knowledge.hints.of(each) for each in names_of(0)] == [NO_HINT, NO_HINT]
        assert entries(knowledge) == []


def test_what_the_evidence_does_not_take_is_not_learned(tmp_path: Path) -> None:
    with knowing(tmp_path, recorded=False) as knowledge:
        hints = knowledge.hints
        hints.remember(names_of(1), likely=HOME.service, original=HOME.service)
        for item, (before, after) in enumerate(
            [(NO_HINT, likely(FAR)), (likely(HOME, HOME), likely(FAR, HOME))]
        ):
            responses = [ScriptedResponse(FAR).response(item)]
            knowledge.learn(query(item), before, responses, redirect(responses[0]), Policy(), among(FAR))
            assert [hints.of(each) for each in names_of(item)] == [after, after]


def test_an_original_moves_under_the_names_of_its_own_item_and_readers_are_led_anew(tmp_path: Path) -> None:
    (first, second), before = names_of(0), likely(HOME, HOME)
    with knowing(tmp_path) as knowledge:
        versions = knowledge.cache.leases.name_versions
        slots = [name_slot(name_digest(each)) for each in (first, second)]
        knowledge.hints.remember([second], likely=HOME.service, original=HOME.service)
        knowledge.hints.remember([first], likely=THIRD.service, original=THIRD.service)
        earlier = [versions[each] for each in slots]
        responses = [ScriptedResponse(HOME, "Copy").response(0), ScriptedResponse(FAR).response(0)]
        knowledge.learn(
            query(0), before, responses, redirect(responses[1]), Policy(), among(HOME, FAR, THIRD)
        )
        assert [knowledge.hints.of(each) for each in (first, second)] == [
            likely(FAR, THIRD),
            likely(FAR, FAR),
        ]
        assert [versions[each] != was for each, was in zip(slots, earlier, strict=True)] == [False, True]


def test_that_no_archive_has_it_is_kept_for_the_item_and_where_nothing_can_come_of_it(tmp_path: Path) -> None:
    """A later edition or a translation may be made at any moment; metadata may not, and a removed item is no miss."""
    item = parse_ibi(names_of(0)[1])
    missing, known = Alert(AlertKind.NOT_FOUND), Alert(AlertKind.NOT_FOUND, known=True)
    cases = {
        "": (missing, 60, True),
        "known": (known, 60, False),
        "incomplete": (Alert(AlertKind.INCOMPLETE), 60, False),
        "no time": (missing, 0, False),
        "GetMetadata": (missing, 60, True),
        "GetLastEdition": (missing, 60, False),
        "GetTranslation": (missing, 60, False),
    }
    with knowing(tmp_path) as knowledge:
        for number, (verb, (alert, seconds, kept)) in enumerate(cases.items()):
            sent = UrlRequest(("192.0.2.1",), item, verbs=VerbList((verb,) if verb.startswith("Get") else ()))
            archives = f"these{number}"
            knowledge.put_not_known(alert, sent, archives, seconds, knowledge.cache.snapshot())
            assert (verb, knowledge.is_not_known(sent, archives)) == (verb, kept)
            assert not knowledge.is_not_known(sent, "others")


def test_two_claims_of_an_original_leave_it_without_a_holder_under_the_names_of_both(tmp_path: Path) -> None:
    (first, second), alert = names_of(0), Alert(AlertKind.SUSPECT_ORIGINALS, archives=(FAR.name, HOME.name))
    alone = UrlList({"ibi": ("ibip", second), "state": "Original"})
    cases = {
        "both": ([ScriptedResponse(FAR).response(0), ScriptedResponse(HOME).response(0)], {first, second}),
        "one name": ([ScriptedResponse(FAR).response(0), ArchiveResponse(HOME, alone)], {second}),
        "no names": (
            [ArchiveResponse(FAR, UrlList({"state": "Original"})), ScriptedResponse(HOME).response(0)],
            {second},
        ),
        "one claim": ([ScriptedResponse(FAR).response(0), ScriptedResponse(HOME, "Copy").response(0)], set()),
        "one believed": (
            [ScriptedResponse(FAR).response(0), ScriptedResponse(HOME, error=LATE).response(0)],
            set(),
        ),
        "one silent": ([ScriptedResponse(FAR).response(0), ScriptedResponse(HOME, None).response(0)], set()),
    }
    for number, (name, (responses, disputed)) in enumerate(cases.items()):
        with knowing(tmp_path / str(number)) as knowledge:
            knowledge.hints.remember(names_of(0), original=FAR.service)
            knowledge.record(alert, query(0).ibi, query(0), responses, Policy())
            found = {each for each in names_of(0) if knowledge.hints.of(each).is_disputed}
            facts = {"kind": "suspect-originals", "ibi": second, "disputed": " ".join(sorted(disputed))}
            about = " ".join(sorted(alert.archives))
            assert (name, found, knowledge.disputes) == (name, disputed, 1)
            assert entries(knowledge) == [("alert", {**facts, "archives": about})]


def test_the_strict_policy_records_an_alert_and_keeps_no_dispute(tmp_path: Path) -> None:
    responses = [ScriptedResponse(FAR).response(0), ScriptedResponse(HOME).response(0)]
    with knowing(tmp_path) as knowledge:
        for kind in (AlertKind.SUSPECT_ORIGINALS, AlertKind.NOT_FOUND, AlertKind.DELETED):
            alert = Alert(kind, archives=(FAR.name,))
            knowledge.record(alert, query(0).ibi, query(0), responses, Policy(strict=True))
        assert [knowledge.hints.of(each) for each in names_of(0)] == [NO_HINT, NO_HINT]
        assert [what for what, _ in entries(knowledge)] == ["alert", "deleted"]


def test_a_removal_counts_for_the_archive_that_tells_it_and_first_for_the_known_holder(
    tmp_path: Path,
) -> None:
    name, removed = query(0).ibi, AlertKind.DELETED
    with knowing(tmp_path) as knowledge:
        hints = knowledge.hints
        knowledge.record(Alert(removed), name, query(0), (), Policy())  # no Archive is named
        knowledge.record(
            Alert(removed, archives=(FAR.name,)), parse_name("6RPa7umaZ/UaJFT"), query(0), (), Policy()
        )
        knowledge.record(Alert(removed, archives=(FAR.name, THIRD.name)), name, query(0), (), Policy())
        ibip = name.canonical
        removers = [hints.says_removed(ibip, each.service) for each in (FAR, THIRD, HOME)]
        assert (hints.of(ibip), removers) == (NO_HINT, [True, False, False])
        hints.remember([ibip], original=HOME.service)
        knowledge.record(Alert(removed, archives=(FAR.name, HOME.name)), name, query(0), (), Policy())
        assert hints.of(ibip) == HolderHint(None, HOME.service, removed=True)
        assert hints.says_removed(ibip, HOME.service)
        facts = [{"ibi": f"ibip {ibip}", "archive": each.name} for each in (FAR, HOME)]
        assert entries(knowledge) == [("deleted", each) for each in facts]


def test_a_removal_that_the_evidence_does_not_take_is_believed_of_the_holder_alone(tmp_path: Path) -> None:
    names, item = names_of(0), [parse_name(names_of(0)[1])]
    with knowing(tmp_path, recorded=False) as knowledge:
        knowledge.hints.remember(names, original=HOME.service)
        for each in (FAR, HOME):
            knowledge.note_removed([parse_name("6RPa7umaZ/UaJFT"), *item], each.name)
            assert not knowledge.hints.says_removed(names[1], each.service)
        assert knowledge.hints.of(names[1]) == HolderHint(None, HOME.service, removed=True)


def test_an_archive_that_says_what_it_has_changed_is_asked_first_where_it_is_new(tmp_path: Path) -> None:
    """The hint before, who has changed the item, and the hint after it."""
    cases = [
        (NO_HINT, FAR, likely(FAR, early=True)),
        (likely(THIRD, THIRD), FAR, likely(FAR, THIRD)),
        (likely(FAR, THIRD), FAR, likely(FAR, THIRD)),
        (likely(THIRD, FAR), FAR, likely(THIRD, FAR)),
        (likely(THIRD, early=True), FAR, likely(FAR, early=True)),
        (likely(THIRD, early=True), HOME, likely(THIRD, early=True)),
        (likely(THIRD), HOME, likely(HOME, early=True)),
    ]
    with knowing(tmp_path) as knowledge:
        hints = knowledge.hints
        for item, (before, archive, after) in enumerate(cases):
            name = names_of(item)[0]
            if before != NO_HINT:
                hints.remember([name], likely=before.likely, original=before.original, early=before.early)
            knowledge.note_changed([name], archive.service)
            assert (item, hints.of(name)) == (item, after)
