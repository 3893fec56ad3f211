"""The links that help a reader to go on from an alert: all of them, and where each leads."""

from __future__ import annotations

import pytest

from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.pages.alert_details import WAYS, ResponsibleArchives, with_suggestions

ITEM = "/a.example/b/2020/01.02.00.00"
LIST = "ibiurl.verblist=GetFileList"
ORIGINAL = "ibiurl.requireditemstatus=Original"


@pytest.mark.parametrize(
    ("kind", "known", "url", "ways"),
    [
        (AlertKind.NOT_FOUND, False, ITEM, {}),
        (AlertKind.NOT_FOUND, True, ITEM, {}),
        (AlertKind.NOT_FOUND, False, f"{ITEM}!:(bibtex)", {}),
        (AlertKind.NOT_FOUND, True, f"{ITEM}!", {"item": ITEM}),
        (AlertKind.NOT_FOUND, True, f"{ITEM}!:(bibtex)", {"format": f"{ITEM}!:", "item": ITEM}),
        (AlertKind.NOT_FOUND, False, f"{ITEM}/a.pdf", {}),
        (
            AlertKind.NOT_FOUND,
            True,
            f"{ITEM}/a.pdf",
            {"whole": ITEM, "files": f"{ITEM}?{LIST}"},
        ),
        (
            AlertKind.NOT_FOUND,
            True,
            f"{ITEM}!/a.pdf",
            {"whole": f"{ITEM}!", "files": f"{ITEM}!?{LIST}", "item": ITEM},
        ),
        (AlertKind.NOT_FOUND, True, f"{ITEM}/a?{LIST}", {"whole": ITEM, "files": f"{ITEM}?{LIST}"}),
        (AlertKind.NOT_FOUND, True, f"{ITEM}!?{LIST}", {"item": ITEM}),
        (AlertKind.INCOMPLETE, False, ITEM, {"again": ITEM}),
        (AlertKind.NO_ORIGINAL, False, ITEM, {}),
        (AlertKind.NO_ORIGINAL, False, f"{ITEM}?{ORIGINAL}", {"copy": ITEM}),
        (AlertKind.SUSPECT_ORIGINALS, False, f"{ITEM}?{ORIGINAL}", {"copy": ITEM}),
        (AlertKind.NOT_FOUND, False, f"{ITEM}?{ORIGINAL}", {}),
    ],
)
def test_an_alert_offers_what_may_lead_on_and_nothing_else(
    kind: AlertKind, known: bool, url: str, ways: dict[str, str]
) -> None:
    alert = with_suggestions(
        Alert(kind, f"http://urlib.net{url}", known=known), ResponsibleArchives(), {}, 0.0
    )
    assert alert.suggestions is not None
    found = [(each.words, each.url) for each in alert.suggestions.ways]
    assert found == [
        *((WAYS[name], way) for name, way in ways.items()),
        (WAYS["explain"], f"/-/explain{url}"),
    ]
