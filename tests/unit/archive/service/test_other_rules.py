"""When a process logs its settings again, because answers are made by others than the logged ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ibi.archive.membership.resolver_addresses import ResolverAddresses
from ibi.archive.service import changes
from ibi.archive.service.changes import AnsweredChanges
from ibi.archive.store.data_directory import identity_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.archive.archive_fixture import NewArchive


class Logging(AnsweredChanges):
    """Notes when it logs its settings."""

    moments: list[float]
    clock: list[float]

    def log_rules(self) -> None:
        self.moments.append(self.clock[0])


@pytest.fixture
def answered(archive: NewArchive, monkeypatch: pytest.MonkeyPatch) -> Logging:
    """The log of changes of an Archive, with a clock that stands still; what goes on in threads is done at once."""

    def thread(target: Callable[[], None], *, daemon: bool) -> SimpleNamespace:
        assert daemon
        return SimpleNamespace(start=target)

    made = Logging(archive.catalogue, identity_of(archive.settings), archive.settings, ResolverAddresses())
    made.clock, made.moments = [1000.0], []
    monkeypatch.setattr(changes, "time", SimpleNamespace(monotonic=lambda: made.clock[0]))
    monkeypatch.setattr(changes, "threading", SimpleNamespace(Thread=thread))
    return made


def logged(answered: Logging, moments: list[float]) -> list[float]:
    """When settings are logged, while answers are made by other ones at these moments."""
    answered.moments.clear()
    for answered.clock[0] in moments:
        answered.note_other_rules()
    return list(answered.moments)


def test_other_settings_are_logged_again_once_they_last_for_more_than_two_seconds(answered: Logging) -> None:
    assert logged(answered, [1000, 1001, 1002, 1002.1, 1003]) == [1002.1]


def test_they_are_logged_once_a_minute_while_they_last(answered: Logging) -> None:
    moments = [1000 + each / 2 for each in range(400)]
    assert logged(answered, moments) == [1002.5, 1065.0, 1127.5, 1190.0]


def test_settings_that_another_process_reads_a_moment_later_are_not_logged(answered: Logging) -> None:
    moments: list[float] = [start + each for start in (1000, 1100, 1162, 1224) for each in (0, 1, 2)]
    assert logged(answered, moments) == []
    assert logged(answered, [1300, 1359.9]) == [1359.9]
    assert logged(answered, [1500, 1560]) == []


def test_a_machine_that_has_just_started_waits_as_well(answered: Logging) -> None:
    assert logged(answered, [0.5, 1.5, 2.4]) == []


def test_settings_are_logged_where_they_differ_from_the_logged_ones(
    archive: NewArchive, caplog: pytest.LogCaptureFixture
) -> None:
    def position() -> str:
        with archive.catalogue.snapshot() as snapshot:
            return f"{snapshot.position} {snapshot.rules}"

    made = AnsweredChanges(
        archive.catalogue, identity_of(archive.settings), archive.settings, ResolverAddresses()
    )
    before = position()
    made.log_rules()
    after = position()
    assert after.split()[1] == str(made.rules) != before.split()[1]
    made.log_rules()
    assert position() == after
    assert caplog.messages == []
