"""Where answers lead from one item to the next: later editions, formats that are items, and where this ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ibi.app.resolver import site_pages
from ibi.resolver.resolve.resolution import MOST_EDITIONS, MOST_ROUNDS
from support.clock import run_with_false_clock
from support.resolver.one_item import M16C, URL, body
from support.resolver.running_resolver import resolver
from support.scripted_archive import Behaviour, ReceivedRequest, ScriptedArchive
from support.web.html_page import Page

if TYPE_CHECKING:
    from pathlib import Path


def edition(number: int) -> str:
    return f"sid.inpe.br/mtc-m18@80/{3000 + number}/01.01.00.00"


class EndlessEditions(ScriptedArchive):
    """Knows each edition of an item, and always a next one."""

    def behaviour_for(self, request: ReceivedRequest) -> Behaviour:
        name, verbs, _ = request.question
        if verbs != ("GetLastEdition",):
            return super().behaviour_for(request)
        number = int(name.split("/")[-2]) - 3000
        following = f"{{rep {edition(number + 1)}}}"
        return Behaviour(
            body(M16C, f"{{rep {edition(number)}}}", state="Original", ibi_nextedition=following)
        )


@pytest.mark.proves("RES-09", "RES-13")
def test_editions_without_end_are_followed_so_far_then_an_alert_names_the_next_one_and_nothing_is_remembered(
    tmp_path: Path,
) -> None:
    archive = EndlessEditions("m16c", "mtc-m16c.sid.inpe.br", M16C)
    followed = [edition(number).lower() for number in range(MOST_EDITIONS + 1)]
    assert len(followed) > 256
    target, following = f"/{edition(0)}!", edition(MOST_EDITIONS + 1)

    async def main() -> None:
        async with resolver(tmp_path, [archive], pages=site_pages()) as running:
            for count in (1, 2):
                answer = await running.ask(target, "Accept: application/json")
                problem = json.loads(answer.body)
                assert (answer.status, problem["kind"], problem["leads_to"]) == (502, "too-far", following)
                assert [name for name, _, _ in archive.questions] == followed * count
            page = await running.ask(target, "Accept: text/html")
            assert page.status == 502
            assert f"The next one would be {following}." in Page(page.body).words

    run_with_false_clock(main())


FURTHER = MOST_ROUNDS - 1  # rounds that may follow the first
STEPS = {"GetLastEdition": "lastedition", "GetMetadata(marc)": "metadata(marc)"}


class Chain(ScriptedArchive):
    """Has a first edition, `editions` later ones, and of the last a format that is found after `formats` items."""

    def __init__(self, editions: int, formats: int) -> None:
        super().__init__("m16c", "mtc-m16c.sid.inpe.br", M16C)
        self.editions, self.formats = editions, formats

    def behaviour_for(self, request: ReceivedRequest) -> Behaviour:
        name, verbs, _ = request.question
        if not verbs:  # an acknowledgment, or another message
            return super().behaviour_for(request)
        number = int(name.split("/")[-2]) - 3000
        wanted = ".".join(STEPS[verb] for verb in verbs)
        following = f"{{rep {edition(number + 1)}}}"
        if number < self.editions:
            pair = {"ibi_nextedition": following}
        elif number < self.editions + self.formats:
            pair = {f"ibi.{wanted}": following}
        else:
            pair = {f"url.{wanted}": URL}
        return Behaviour(body(M16C, f"{{rep {edition(number)}}}", **pair))


@pytest.mark.proves("RES-09", "RES-13")
@pytest.mark.parametrize(
    ("editions", "formats", "leads"),
    [
        *((0, FURTHER - 1, True), (0, FURTHER, True), (0, FURTHER + 1, False)),
        *((MOST_EDITIONS - 1, 0, True), (MOST_EDITIONS, 0, True), (MOST_EDITIONS + 1, 0, False)),
        *((MOST_EDITIONS - 1, FURTHER, True), (MOST_EDITIONS - 1, FURTHER + 1, False)),
    ],
)
def test_a_chain_leads_to_the_item_up_to_each_limit_and_once_it_was_shortened(
    editions: int, formats: int, leads: bool, tmp_path: Path
) -> None:
    archive = Chain(editions, formats)
    target = f"/{edition(0)}{'!' if editions else ''}{':(marc)' if formats else ''}"

    async def main() -> None:
        async with resolver(tmp_path, [archive], pages=site_pages()) as running:
            if not leads:
                answer = await running.ask(target, "Accept: application/json")
                problem = json.loads(answer.body)
                assert (answer.status, problem["kind"]) == (502, "too-far")
                assert problem["leads_to"] == edition(editions + formats)
                page = Page((await running.ask(target, "Accept: text/html")).body)
                assert "Too many steps to the item" in page.words
                if formats:
                    archive.formats -= 1
                else:
                    archive.editions -= 1
            answer = await running.ask(target)
            assert (answer.status, answer.location) == (302, URL)
            last = edition(archive.editions + archive.formats).lower()
            assert archive.questions[-1][0] == last

    run_with_false_clock(main())
