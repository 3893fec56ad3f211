"""Where answers lead from one item to the next: later editions without end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ibi.app.resolver import site_pages
from ibi.resolver.resolve.resolution import MOST_EDITIONS
from support.clock import run_with_false_clock
from support.resolver.one_item import M16C, body
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
            assert f"The next one to be asked for would be {following}." in Page(page.body).words

    run_with_false_clock(main())
