"""Pages that are made of operations, as people read them."""

from __future__ import annotations

import re

from ibi.api.fields import described
from ibi.archive.operations import settings
from support.archive.three_ways import BY_NAME, Ways

PORTUGUESE = "pt-BR"


def test_the_many_settings_stand_under_headings(ways: Ways) -> None:
    page = ways.root.look("/-/admin/do/set").text
    form = page.partition('<form class="entry"')[2].partition("</form>")[0]
    headings = re.findall(r"<h2>([^<]*)</h2>", form)
    assert headings == [group.heading for group in settings.SET.groups]
    shown = re.findall(r'<(?:input|select|textarea) id="(\w+)"', form)
    assert shown == [name for group in settings.SET.groups for name in group.names]
    assert sorted(shown) == sorted(each.name for each in described(settings.SettingsFields) if not each.local)


def test_states_and_names_of_jobs_are_words_in_the_language_of_the_reader(ways: Ways) -> None:
    assert ways.by_json(BY_NAME["check"], {}).refusal == ""
    job = ways.by_json(BY_NAME["jobs"], {}).result["jobs"][0]
    assert (job["state"], job["operation"]) == ("done", "check")  # of programs
    for path in ("/-/admin/do/jobs", f"/-/admin/do/job?id={job['id']}"):
        page = ways.root.look(path, PORTUGUESE).text
        assert "concluída" in page
        assert ">done<" not in page
        assert "ver se o Arquivo está íntegro" in page
