"""Which requests are visits, and figures of visits as they are written."""

from __future__ import annotations

import pytest

from ibi.archive.model.item import StoredFile
from ibi.archive.pages.statistics import by_month, last_months, usage_json, write_csv
from ibi.archive.pages.visits import is_part_of_a_page, is_program
from ibi.archive.store.tables.usage import UsageCounts, UsageRow
from ibi.http.request import Request

CHROME = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
)


@pytest.mark.parametrize(
    ("agent", "program"),
    [
        ("", True), (" ", True), (CHROME, False), (f"{CHROME} Googlebot/2.1", True), ("curl/8.0", True),
        ("GOOGLEBOT", True), (f"{CHROME}{' ' * 400}bot", False), (CHROME.ljust(497) + "bot", True),
        (CHROME.ljust(498) + "bot", False),
    ],
)  # fmt: skip
def test_a_program_is_known_by_the_beginning_of_its_name(agent: str, program: bool) -> None:
    assert is_program(agent) is program


@pytest.mark.parametrize(
    ("headers", "media_type", "part"),
    [
        *[({"sec-fetch-dest": name}, "text/html", True)
          for name in ("image", "style", "script", "font", "track", "manifest", "worker", "sharedworker")],
        ({"sec-fetch-dest": "document"}, "text/css", False),
        ({"sec-fetch-dest": "document", "accept": "image/png"}, "image/png", False),
        ({"accept": "image/avif,image/webp"}, "image/png", True),
        ({"accept": "text/css,*/*"}, "text/plain", True),
        ({"accept": "text/html"}, "text/css", True),
        ({}, "text/javascript", True),
        ({}, "font/woff2", True),
        ({}, "application/font-woff", True),
        ({}, "image/png", False),
        ({}, "application/pdf", False),
    ],
)  # fmt: skip
def test_a_part_of_a_page_is_no_visit(headers: dict[str, str], media_type: str, part: bool) -> None:
    request = Request("GET", "/", "", {name.encode(): value.encode() for name, value in headers.items()})
    assert is_part_of_a_page(request, StoredFile("a", 1, "0" * 64, media_type)) is part


def test_the_last_twelve_months_end_with_the_one_of_a_day() -> None:
    assert last_months("2026-01-31") == (
        "2025-02", "2025-03", "2025-04", "2025-05", "2025-06", "2025-07", "2025-08", "2025-09", "2025-10", "2025-11",
        "2025-12", "2026-01",
    )  # fmt: skip
    assert last_months("2026-12-01")[::11] == ("2026-01", "2026-12")


def test_figures_are_written_and_added_up() -> None:
    lines = [
        UsageRow("a/b", "2026-10", "BR", UsageCounts(4, 3, 2, 1)),
        UsageRow("a/b", "2026-10", "", UsageCounts(40, 30, 20, 10)),
        UsageRow("", "2026-11", "", UsageCounts(1, 1, 0, 0)),
    ]
    assert write_csv(lines).decode() == (
        "month,country,investigations,unique_investigations,requests,unique_requests\r\n"
        "2026-10,BR,4,3,2,1\r\n2026-10,,40,30,20,10\r\n2026-11,,1,1,0,0\r\n"
    )
    assert by_month(lines) == {"2026-10": UsageCounts(44, 33, 22, 11), "2026-11": UsageCounts(1, 1, 0, 0)}
    figures = {"investigations": 4, "unique_investigations": 3, "requests": 2, "unique_requests": 1}
    assert usage_json(lines[0]) == {"ibi": "a/b", "month": "2026-10", "country": "BR"} | figures
    assert next(iter(usage_json(lines[2]))) == "month"
