"""What each change of the registry writes of an Archive, and that it writes nothing else."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from ibi.errors import NotHeld, ParseError, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import NO_TITLES, ArchiveTitles, InclusionRequest
from ibi.protocol.vocabulary import NEVER
from ibi.resolver.model.archive import Archive, Move, RegisteredArchive
from ibi.resolver.registry.mirror import GONE_SECONDS, MirrorChanges
from ibi.resolver.registry.published_list import ListedArchive
from ibi.resolver.registry.registry import MIGRATIONS, REPORT_SECONDS, Registry
from ibi.runtime.database import migrate, open_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SERVICE, OTHER = (
    parse_ibi("Sid.inpe.br/mtc-m21/2012/06.05.15.34.39"),
    parse_ibi("dpi.inpe.br/b/1999/01.09.22.14"),
)
KEY = "1234567890"
TITLES = ArchiveTitles("Library", "Biblioteca")
REQUEST = InclusionRequest("a.example", SERVICE, "192.0.2.7", "2014:11.09.02.16.15", "admin@a.example", KEY)
BEGIN = 1_767_312_000  # 2026-01-02T00:00:00Z
INCLUDED = Archive(
    SERVICE,
    "a.example",
    "192.0.2.7",
    "HTTP",
    "2014:11.09.02.16.15",
    "admin@a.example",
    included_at=BEGIN + 60.0,
)


@dataclass
class Scene:
    """A registry with one Archive; each minute something is done, and `changed` says what differs afterwards."""

    registry: Registry
    minute: int = 0

    def now(self) -> float:
        return BEGIN + 60.0 * self.minute

    def entry(self) -> RegisteredArchive:
        found = self.registry.entry(SERVICE)
        assert found is not None
        return found

    def __post_init__(self) -> None:
        self.before: RegisteredArchive | None = None

    def changed(self) -> dict[str, Any]:
        """What differs in the entry since the last call."""
        after, before = self.entry(), self.before
        self.before = after
        names = [field.name for field in fields(after)]
        return {
            name: getattr(after, name)
            for name in names
            if getattr(after, name) != getattr(before, name, None)
        }

    def change(self) -> int:
        self.minute += 1
        return self.registry.open_change(SERVICE)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    engine = open_engine(tmp_path / "registry.sqlite")
    migrate(engine, MIGRATIONS)
    made: list[Scene] = []

    def now() -> float:
        return made[0].now()

    with closing(Registry(engine, now)) as registry:
        made.append(Scene(registry))
        registry.register(SERVICE, KEY, ["B.example", "a.example"], "maria@b.example", "Maria")
        made[0].changed()
        yield made[0]


def test_a_registration_writes_what_was_given(scene: Scene) -> None:
    scene.before = None
    found = scene.changed()
    assert found.pop("key_hash").startswith("$argon2id$")
    assert {name: value for name, value in found.items() if value} == {
        "service_ibi": SERVICE,
        "titles": NO_TITLES,
        "url_hosts": ("a.example", "b.example"),
        "registered_at": "2026-01-02T00:00:00Z",
        "contact": "maria@b.example",
        "contact_name": "Maria",
    }
    assert (scene.registry.archives(), scene.registry.away()) == ((), {})
    scene.before = scene.entry()
    scene.minute = 5
    assert scene.registry.register(SERVICE, KEY, titles=TITLES) == KEY
    assert scene.changed() == {"url_hosts": (), "titles": TITLES}
    with pytest.raises(SetupError) as refused:
        scene.registry.register(SERVICE)
    assert (
        str(refused.value) == f"{SERVICE} is registered already; unregister it first to give it another key"
    )


def test_an_inclusion_writes_all_of_the_request_and_a_repetition_the_moment_alone(scene: Scene) -> None:
    registry, hosts = scene.registry, ("a.example", "b.example")
    assert registry.include(REQUEST, scene.change(), confirmed=False, source="192.0.2.8", titles=TITLES)
    first = replace(INCLUDED, confirmed=False, url_hosts=hosts, titles=TITLES)
    moment = {"changed_at": "2026-01-02T00:01:00Z", "heard_at": "2026-01-02T00:01:00Z"}
    assert scene.changed() == {
        "included": first, "titles": TITLES, "address": "a.example", "admin_mail": "admin@a.example",
        "source": "192.0.2.8", "change": 1, **moment,
    }  # fmt: skip
    assert registry.archives() == (first,)
    assert registry.include(REQUEST, scene.change(), confirmed=True, source="192.0.2.9")
    moment = {"changed_at": "2026-01-02T00:02:00Z", "heard_at": "2026-01-02T00:02:00Z"}
    assert scene.changed() == {
        "included": replace(first, confirmed=True), "confirmed_address": "a.example", "source": "192.0.2.9",
        "change": 2, **moment,
    }  # fmt: skip
    # One at another address restarts; that its administrator let it move is used up.
    registry.allow_move(SERVICE)
    assert scene.changed() == {"move_allowed": True}
    assert registry.include(REQUEST, scene.change(), confirmed=False)
    moment = {"changed_at": "2026-01-02T00:03:00Z", "heard_at": "2026-01-02T00:03:00Z"}
    assert scene.changed() == {"included": first, "source": "", "change": 3, **moment}
    assert registry.include(replace(REQUEST, address="c.example"), scene.change(), confirmed=False)
    moment = {"changed_at": "2026-01-02T00:04:00Z", "heard_at": "2026-01-02T00:04:00Z"}
    moved = replace(first, address="c.example", included_at=BEGIN + 240.0)
    assert scene.changed() == {
        "included": moved, "address": "c.example", "move_allowed": False, "change": 4, **moment,
    }  # fmt: skip


def test_an_exclusion_keeps_its_first_moment_and_one_for_good_is_for_good(scene: Scene) -> None:
    registry = scene.registry
    registry.include(REQUEST, scene.change(), confirmed=True)
    away = registry.archives()[0]
    scene.changed()
    assert registry.exclude(SERVICE, scene.change(), "192.0.2.9", "2026-01-03T00:00:00Z")
    first = {"changed_at": "2026-01-02T00:02:00Z", "heard_at": "2026-01-02T00:02:00Z"}
    assert scene.changed() == {
        "included": None, "source": "192.0.2.9", "back_at": BEGIN + 86_400.0, "change": 2, **first
    }  # fmt: skip
    assert registry.archives() == ()
    kept = registry.away()[SERVICE.canonical]
    assert (kept.archive, kept.excluded_at, kept.back_at) == (
        replace(away, confirmed=False),
        BEGIN + 120.0,
        BEGIN + 86_400.0,
    )
    assert registry.exclude(SERVICE, scene.change())
    assert scene.changed() == {"heard_at": "2026-01-02T00:03:00Z", "source": "", "back_at": None, "change": 3}
    assert list(registry.away(61.0)) == [SERVICE.canonical]
    assert registry.away(60.0) == {}
    assert registry.exclude(SERVICE, scene.change(), end=NEVER)
    assert scene.changed() == {"heard_at": "2026-01-02T00:04:00Z", "change": 4}
    assert registry.archives() == ()
    assert registry.away() == {}
    assert registry.exclude(SERVICE, scene.change())  # that does not take it back
    assert registry.archives() == ()
    assert registry.away() == {}
    registry.include(REQUEST, scene.change(), confirmed=True)
    registry.exclude(SERVICE, scene.change(), end="2026-01-03T00:00:00Z")
    assert registry.archives() == ()
    assert list(registry.away()) == [SERVICE.canonical]
    registry.include(REQUEST, scene.change(), confirmed=True)
    assert scene.entry().back_at is None


def test_what_is_overtaken_unknown_or_under_another_key_writes_nothing(scene: Scene) -> None:
    registry, key_hash = scene.registry, scene.entry().key_hash
    late = scene.change()
    scene.change()
    scene.changed()
    recorded: list[str] = []
    assert not registry.include(REQUEST, late, confirmed=True, record=lambda: recorded.append("included"))
    assert not registry.exclude(SERVICE, late, record=lambda: recorded.append("excluded"))
    opened = [registry.open_change(SERVICE, after) for after in (1, 2, 2)]
    assert opened == [0, 3, 0]
    assert [registry.open_change(SERVICE, key_hash=each) for each in ("other", key_hash)] == [0, 4]
    assert (registry.open_change(OTHER), recorded) == (0, [])
    assert scene.changed() == {"change": 4}
    assert [registry.confirm(each) for each in (INCLUDED, replace(INCLUDED, service_ibi=OTHER))] == [
        False,
        False,
    ]
    for act in (registry.unregister, registry.allow_move):
        with pytest.raises(NotHeld) as missing:
            act(OTHER)
        assert str(missing.value) == f"{OTHER} is not registered here"
    for decide in (registry.approve, registry.refuse):
        for ibi in (OTHER, SERVICE):
            with pytest.raises(SetupError) as refused:
                decide(ibi)
            assert str(refused.value) == f"{ibi} has not applied for registration"
    assert scene.changed() == {}


def test_one_that_confirms_after_all_is_so_where_it_is(scene: Scene) -> None:
    registry = scene.registry
    registry.include(REQUEST, scene.change(), confirmed=False)
    (archive,) = registry.archives()
    scene.changed()
    assert not registry.confirm(replace(archive, address="other.example"))
    assert scene.changed() == {}
    assert registry.confirm(archive)
    assert scene.changed() == {"included": replace(archive, confirmed=True), "confirmed_address": "a.example"}
    registry.heard({SERVICE.canonical: BEGIN + 3_600.9, OTHER.canonical: 1.0})
    assert scene.changed() == {"heard_at": "2026-01-02T01:00:00Z"}
    registry.heard({})


@pytest.mark.parametrize("how", ["include", "confirm", "again"])
def test_a_held_move_restarts_when_the_archive_confirms_and_is_forgotten_after_an_hour(
    scene: Scene, how: str
) -> None:
    registry = scene.registry
    registry.register(OTHER, KEY)
    registry.include(REQUEST, scene.change(), confirmed=True)
    (archive,) = registry.archives()
    kept = Move("c.example", "192.0.2.3", BEGIN, BEGIN + 5.0, 2)

    def confirm() -> None:
        if how == "include":
            registry.include(REQUEST, registry.open_change(SERVICE), confirmed=True)
        elif how == "confirm":
            registry.confirm(archive)
        else:
            registry.confirm_again(SERVICE)

    def moves() -> list[Move | None]:
        return [each.move for each in registry.registered()]

    for ibi in (OTHER, SERVICE):
        registry.hold_move(ibi, replace(kept, checks=7))
        registry.hold_move(ibi, kept)
    both = dict(zip([each.service_ibi for each in registry.registered()], moves(), strict=True))
    assert both == {SERVICE: kept, OTHER: kept}
    for minute in (59, 60):
        scene.minute = minute
        confirm()
        left = replace(kept, silent_since=None, checks=0) if minute * 60 < REPORT_SECONDS else None
        both = dict(zip([each.service_ibi for each in registry.registered()], moves(), strict=True))
        assert both == {SERVICE: left, OTHER: kept}


def test_a_move_that_is_carried_out_or_whose_archive_goes_is_held_no_more(scene: Scene) -> None:
    registry = scene.registry
    move = Move("c.example", "192.0.2.3", BEGIN)
    registry.hold_move(SERVICE, move)
    registry.include(REQUEST, scene.change(), confirmed=False)
    assert scene.entry().move == move
    registry.include(replace(REQUEST, address="c.example"), scene.change(), confirmed=False)
    assert scene.entry().move is None
    registry.hold_move(SERVICE, move)
    recorded = []
    registry.unregister(SERVICE, lambda: recorded.append(registry.entry(SERVICE)))
    registry.register(SERVICE, KEY)
    assert (scene.entry().move, len(recorded)) == (None, 1)


def test_an_application_waits_with_all_that_it_says_and_is_registered_by_its_approval(scene: Scene) -> None:
    registry = scene.registry
    registry.unregister(SERVICE)
    scene.before, scene.minute = None, 1
    key = registry.apply(SERVICE, "a.example", "maria@b.example", "Maria", ["A.example"], titles=TITLES)
    assert key is not None
    given = {name: value for name, value in scene.changed().items() if value and name != "key_hash"}
    assert given == {
        "service_ibi": SERVICE, "url_hosts": ("a.example",), "registered_at": "2026-01-02T00:01:00Z",
        "applied": True, "contact": "maria@b.example", "contact_name": "Maria", "address": "a.example",
        "confirmed_address": "a.example", "titles": TITLES,
    }  # fmt: skip
    assert not registry.check_key(SERVICE, key)
    assert registry.apply(SERVICE, "c.example", "x@b.example") is None
    with pytest.raises(ParseError) as refused:
        registry.apply(OTHER, "c.example", "x@b.example", url_hosts=["no host"])
    assert str(refused.value) == "this is not the name or the address of a host"
    assert scene.changed() == {}
    scene.minute = 2
    registry.approve(SERVICE)
    assert scene.changed() == {"applied": False, "registered_at": "2026-01-02T00:02:00Z"}
    assert registry.check_key(SERVICE, key)
    assert not registry.check_key(SERVICE, f"{key[:-1]}{(int(key[-1]) + 1) % 10}")
    rotated = registry.rotate(SERVICE)
    assert scene.changed().keys() == {"key_hash", "change"}
    assert [registry.check_key(SERVICE, each) for each in (key, rotated)] == [False, True]
    registry.unregister(SERVICE)
    registry.apply(SERVICE, "a.example", "maria@b.example")
    registry.refuse(SERVICE)
    assert registry.registered() == []


def test_a_new_key_is_given_for_the_secret_of_the_present_one_alone(scene: Scene) -> None:
    registry = scene.registry
    secret = registry.challenge_secret(SERVICE)
    assert len({secret, registry.challenge_secret(OTHER)}) == 2
    for ibi, given in ((SERVICE, "another"), (OTHER, None), (OTHER, registry.challenge_secret(OTHER))):
        with pytest.raises(SetupError) as refused:
            registry.rotate(ibi, given)
        assert str(refused.value) == f"{ibi} is not registered here"
    assert scene.changed() == {}
    key = registry.rotate(SERVICE, secret)
    assert registry.check_key(SERVICE, key)
    with pytest.raises(SetupError):
        registry.rotate(SERVICE, secret)


def listed(
    address: str = "a.example", *, confirmed: bool = True, hosts: tuple[str, ...] = ()
) -> ListedArchive:
    return ListedArchive(OTHER, address, hosts, confirmed, "2026-01-01T00:00:00Z")


def test_a_list_writes_of_an_archive_what_it_says_and_nothing_that_it_knows_itself(scene: Scene) -> None:
    registry, issued = scene.registry, "2026-01-02T00:00:00Z"
    registry.include(REQUEST, scene.change(), confirmed=True)
    kept = registry.registered()
    assert registry.mirror("key", [listed(hosts=("x.example",), confirmed=False)], issued) == MirrorChanges(
        added=1
    )
    archive = Archive(
        OTHER,
        "a.example",
        protocol="HTTP",
        confirmed=False,
        url_hosts=("x.example",),
        included_at=BEGIN + 60.0,
    )
    entry = RegisteredArchive(
        OTHER, ("x.example",), issued, "2026-01-01T00:00:00Z", archive, address="a.example", key_hash="!",
        mirrored_from="key",
    )  # fmt: skip
    assert registry.entry(OTHER) == entry
    assert registry.registered() == [entry, *kept]
    assert (registry.mirrored_at("key"), registry.mirrored_at("other")) == (issued, "")
    # It confirms here, and stays so where it is; elsewhere it restarts.
    assert registry.confirm(archive)
    scene.minute, later = 5, "2026-01-02T00:04:00Z"
    assert registry.mirror("key", [listed(confirmed=False)], later) == MirrorChanges(changed=1)
    here = replace(archive, confirmed=True, url_hosts=())
    assert registry.archives() == (here, kept[0].included)
    assert registry.mirror("key", [listed(confirmed=False)], later) == MirrorChanges()
    for issued in ("2026-01-02T00:04:01Z", later):  # each list counts, although it changes nothing
        assert registry.mirror("key", [listed(confirmed=False)], issued) == MirrorChanges()
        assert registry.mirrored_at("key") == issued
    assert registry.mirror("key", [listed("c.example", confirmed=False)], later) == MirrorChanges(changed=1)
    assert registry.archives()[0] == replace(
        archive, address="c.example", url_hosts=(), included_at=BEGIN + 300.0
    )
    assert registry.mirror("other", [listed()], later) == MirrorChanges(elsewhere=1)
    assert registry.mirror("key", [], later) == MirrorChanges(gone=1)
    found = registry.entry(OTHER)
    assert found is not None
    assert (found.included, found.changed_at) == (None, "2026-01-02T00:05:00Z")
    assert registry.archives() == (kept[0].included,)
    assert [each.excluded_at for each in registry.away().values()] == [BEGIN + 300.0]
    assert [each for each in registry.registered() if not each.mirrored_from] == kept


def test_one_that_left_a_list_is_known_for_a_month_and_one_that_is_forgotten_not_at_all(scene: Scene) -> None:
    registry, issued = scene.registry, "2026-01-02T00:00:00Z"
    registry.mirror("key", [listed()], issued)
    registry.mirror("key", [], issued)
    for minute, known in ((GONE_SECONDS // 60, True), (GONE_SECONDS // 60 + 1, False)):
        scene.minute = minute
        assert registry.mirror("key", [], issued) == MirrorChanges()
        assert (registry.entry(OTHER) is not None) == known
    registry.mirror("key", [listed()], issued)
    registry.forget_mirrored("other")
    assert registry.entry(OTHER) is not None
    registry.forget_mirrored("key")
    assert [each.service_ibi for each in registry.registered()] == [SERVICE]


def test_others_may_mirror_what_is_included_and_registered_here_in_the_order_of_names(scene: Scene) -> None:
    registry = scene.registry
    registry.mirror("key", [listed()], "2026-01-02T00:00:00Z")
    assert registry.listed() == []
    first = parse_ibi("a.example/first/2020/01.01.00.00")
    registry.register(first, KEY)
    for ibi in (SERVICE, first):
        scene.minute += 1
        request = replace(REQUEST, service_ibi=ibi)
        registry.include(request, registry.open_change(ibi), confirmed=ibi is SERVICE)
    assert registry.listed() == [
        ListedArchive(first, "a.example", (), confirmed=False, since="2026-01-02T00:02:00Z"),
        ListedArchive(SERVICE, "a.example", ("a.example", "b.example"), True, "2026-01-02T00:01:00Z"),
    ]
    registry.exclude(first, registry.open_change(first))
    assert [each.service_ibi for each in registry.listed()] == [SERVICE]


def test_what_cannot_be_recorded_is_not_done(scene: Scene) -> None:
    registry, applicant = scene.registry, parse_ibi("a.example/applicant/2020/01.01.00.00")
    registry.include(REQUEST, scene.change(), confirmed=True)
    registry.apply(OTHER, "b.example", "x@b.example")
    registry.hold_move(SERVICE, Move("c.example", "192.0.2.3", BEGIN))
    change = scene.change()
    moved = replace(REQUEST, address="c.example")
    acts: dict[str, Callable[[Callable[[], None]], object]] = {
        "include": lambda record: registry.include(moved, change, confirmed=True, record=record),
        "exclude": lambda record: registry.exclude(SERVICE, change, record=record),
        "allow a move": lambda record: registry.allow_move(SERVICE, record),
        "rotate": lambda record: registry.rotate(SERVICE, record=record),
        "unregister": lambda record: registry.unregister(SERVICE, record),
        "register": lambda record: registry.register(applicant, record=record),
        "apply": lambda record: registry.apply(applicant, "d.example", "x@b.example", record=record),
        "approve": lambda record: registry.approve(OTHER, record),
        "refuse": lambda record: registry.refuse(OTHER, record),
    }
    before, included, done = registry.registered(), registry.archives(), list[str]()

    def fails() -> None:
        raise LookupError

    for name, act in acts.items():
        with pytest.raises(LookupError):
            act(fails)
        assert (name, registry.registered(), registry.archives()) == (name, before, included)
    for name in ("include", "allow a move", "exclude", "register", "approve", "unregister"):
        acts[name](partial(done.append, name))
    assert done == ["include", "allow a move", "exclude", "register", "approve", "unregister"]
    assert {each.service_ibi for each in registry.registered()} == {OTHER, applicant}
