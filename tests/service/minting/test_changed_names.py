"""Labels under other names than before may have been given elsewhere until now: the first one is later than those."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from ibi.archive.api.labels import DepositLabels
from ibi.archive.store.data_directory import DataDirectory
from ibi.identifier.generator import LabelGenerator
from ibi.minting import Subsystem
from ibi.minting.clock import ClockLimits
from ibi.minting.machine import this_machine
from ibi.minting.subsystem import open_subsystems
from ibi.minting.waiting_room import AHEAD
from support.archive.archive_fixture import settings_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.identifier.forms import IBIForms


def of_a_subsystem(data: Path, host: str) -> IBIForms:
    with Subsystem.open(data, host=host, granularity="0.001", for_trying=True) as subsystem:
        return subsystem.mint()


def of_several_subsystems(data: Path, host: str) -> IBIForms:
    lines = ["[one]", f'host = "{host}"', 'granularity = "0.001"', "for_trying = true"]
    (data / "subsystems.toml").write_text("\n".join(lines))
    (subsystem,) = [each.namer for each in open_subsystems(data, this_machine(), ClockLimits())]
    with subsystem:
        return subsystem.mint()


def of_a_command_of_an_archive(data: Path, host: str) -> IBIForms:
    generator = LabelGenerator(host, for_trying=True)
    (forms,) = DataDirectory(data, this_machine()).mint_labels(generator, "0.001", 1)
    return forms


def of_a_served_archive(data: Path, host: str) -> IBIForms:
    settings = settings_for("archive.example", mint_host=host, granularity="0.001", for_trying=True)
    (forms,) = asyncio.run(DepositLabels(DataDirectory(data, this_machine()), settings).draw(1))
    return forms


@pytest.mark.proves("GEN-06")
@pytest.mark.parametrize(
    "mint", [of_a_subsystem, of_several_subsystems, of_a_command_of_an_archive, of_a_served_archive]
)
def test_a_label_under_another_name_is_later_than_all_that_may_have_been_reserved(
    tmp_path: Path, mint: Callable[[Path, str], IBIForms]
) -> None:
    mint(tmp_path, "one.example")
    began = time.time_ns()
    forms = mint(tmp_path, "two.example")
    assert (forms.main.date.ticks or 0) - began > AHEAD
