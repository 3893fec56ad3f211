"""Several subsystems in one directory, and which of them names which item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ibi.errors import IbiError, MintingNotAllowed, SetupError
from ibi.identifier.dates import TICKS
from ibi.minting import Subsystem
from ibi.minting.clock import ClockLimits
from ibi.minting.subsystem import Candidate, SpatialDistributor, open_subsystems
from support.machine import FalseMachine

THREE = """
[theses]
host = "theses.example.org"
ip = "150.163.34.243"
ip_port = 801
granularity = "1"
collections = ["theses", "dissertations"]

[one]
host = "one.example.org"
ip = "150.163.34.243"
granularity = "1"

[two]
host = "one.example.org"
port = 8080
granularity = "1"
"""


def places(data: Path, text: str, machine: FalseMachine | None = None) -> list[Candidate[Subsystem]]:
    (data / "subsystems.toml").write_text(text, encoding="utf-8")
    return open_subsystems(data, (machine or FalseMachine()).machine, ClockLimits())


@pytest.mark.proves("GEN-04")
def test_a_collection_is_named_by_its_subsystem_and_by_no_other(tmp_path: Path) -> None:
    distributor = SpatialDistributor(places(tmp_path, THREE))
    chosen = Counter(distributor.choose("theses").generator.host for _ in range(5))
    assert chosen == {"theses.example.org": 5}
    chosen = Counter(distributor.choose(name).generator.prefixes[0] for name in ("maps", None) * 10)
    assert chosen == {"example.org/one": 10, "example.org/one.8080": 10}


@pytest.mark.proves("GEN-46")
def test_two_in_turn_give_twice_the_labels_of_one(tmp_path: Path) -> None:
    machine = FalseMachine()
    distributor = SpatialDistributor(places(tmp_path, THREE, machine))
    labels = []
    for _ in range(6):
        first, second = distributor.choose(), distributor.choose()
        with first, second:
            batches = [first.waiting_room.reserve(TICKS, 1), second.waiting_room.reserve(TICKS, 1)]
            for subsystem, batch in zip((first, second), batches, strict=True):
                subsystem.waiting_room.wait_until(batch.last)
                labels += [rep for rep, _ in subsystem.generator.spell(batch)]
    assert len(set(labels)) == 12
    assert machine.slept < 6.5


def test_who_has_fewer_waiting_comes_first() -> None:
    waiting = {"a": 5, "b": 0, "c": 5}
    distributor = SpatialDistributor([Candidate(name) for name in waiting])
    assert {distributor.choose(None, waiting.__getitem__) for _ in range(4)} == {"b"}


def test_only_those_who_are_able_are_chosen_from_each_in_turn() -> None:
    distributor = SpatialDistributor(
        [Candidate("a"), Candidate("b"), Candidate("c"), Candidate("d", frozenset({"maps"}))]
    )
    seen: list[list[str]] = []

    def able(namers: Sequence[str]) -> list[str]:
        seen.append(sorted(namers))
        return [namer for namer in namers if namer != "b"]

    assert [distributor.choose(None, able=able) for _ in range(4)] == ["a", "c", "a", "c"]
    assert seen == [["a", "b", "c"]] * 4
    assert [distributor.choose() for _ in range(3)] == ["b", "a", "c"]


def test_where_all_are_for_certain_collections_others_are_refused() -> None:
    distributor = SpatialDistributor([Candidate("a", frozenset({"maps"}))])
    assert distributor.choose("maps") == "a"
    with pytest.raises(MintingNotAllowed, match="certain collections"):
        distributor.choose()
    with pytest.raises(MintingNotAllowed, match="the collection theses"):
        distributor.choose("theses")


def test_a_subsystem_may_be_for_trying(tmp_path: Path) -> None:
    (trying,) = places(tmp_path, '[a]\nhost="x.localhost"\nfor_trying=true\n')
    assert trying.namer.generator.why_not_unique is not None


@pytest.mark.proves("GEN-02", "AMB-10")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[a]\nhost="x.example.org"\n[b]\nhost="X.example.org"\n', "example.org/x"),
        (
            '[a]\nhost="x.example.org"\nip="1.1.1.1"\n[b]\nhost="y.example.org"\nip="1.1.1.1"\n',
            "two subsystems",
        ),
        ('[a]\nhost="x.localhost"\n', "has no owner"),
        ('[a]\nhost="x"\n', "full domain name"),
        ('["../a"]\nhost="x.example.org"\n', r"small letters, digits and hyphens, unlike \.\./a"),
        ('[minting]\nhost="x.example.org"\n', "small letters, digits and hyphens, unlike minting"),
        ('[col]\nhost="x.example.org"\n', "small letters, digits and hyphens, unlike col"),
        ('[a]\nhots="x.example.org"\n', "no setting hots"),
        ('[a]\nhost="x.example.org"\ngranularity="2"\n', "granularity"),
        ('host="x.example.org"\n', "a table for each"),
        ("", "a table for each"),
        ("[a", "cannot be read"),
    ],
)
def test_what_cannot_be_right_is_said_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(IbiError, match=problem) as caught:
        places(tmp_path, text)
    assert "\n" not in str(caught.value).rstrip("\n") or isinstance(caught.value, SetupError)
