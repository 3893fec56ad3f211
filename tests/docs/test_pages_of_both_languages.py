"""The pages of users are there in Portuguese and in English, with the same sections, and the site lists all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import site_pages
from support.style.layers import ROOT

PORTUGUESE, ENGLISH = (ROOT / "docs" / language for language in site_pages.LANGUAGES)


def _pages(tree: Path) -> set[str]:
    return {path.relative_to(tree).as_posix() for path in tree.rglob("*.md")}


def _sections(text: str) -> list[tuple[str, ...]]:
    """For each section: the level of its heading, the languages of its blocks, how many rows its tables have.

    And the options of commands on lines of their own, which are the same in all languages.
    """
    without = re.sub(r"^( *)```.*?^ *```$", _opening, text, flags=re.MULTILINE | re.DOTALL)
    sections = []
    for section in re.split(r"^(?=#+ )", without, flags=re.MULTILINE):
        level = section.partition(" ")[0]
        blocks = re.findall(r"^ *```(\w*)$", section, re.MULTILINE)
        blocks += re.findall(r"(?<=\s)--[a-z-]+", "".join(re.findall(r"^ {4,}.*\n", section, re.MULTILINE)))
        rows = len(re.findall(r"^\|", section, re.MULTILINE))
        sections.append((level if level.startswith("#") else "", *blocks, f"{rows} rows"))
    return sections


def _opening(block: re.Match[str]) -> str:
    """The first line of a block, and the options in it: other lines may begin with #, and are no headings."""
    options = re.findall(r"(?<=\s)--[a-z-]+", block[0])
    return block[0].partition("\n")[0] + f"\n    {' '.join(options)}\n"


def test_each_page_is_there_in_both_languages() -> None:
    assert _pages(ENGLISH) == _pages(PORTUGUESE)
    for tree in (PORTUGUESE, ENGLISH):
        assert {path.name for path in tree.iterdir()} <= {"index.md", *site_pages.TREES}


TWINS = [(PORTUGUESE / page, ENGLISH / page) for page in sorted(_pages(PORTUGUESE))]


@pytest.mark.parametrize(
    "twins", [*TWINS, (ROOT / "README.pt-BR.md", ROOT / "README.md")], ids=lambda twins: twins[1].stem
)
def test_a_page_has_the_same_sections_in_both_languages(twins: tuple[Path, Path]) -> None:
    portuguese, english = (_sections(page.read_text(encoding="utf-8")) for page in twins)
    assert portuguese == english


def test_the_glossary_gives_one_word_for_one_thing_in_both_languages() -> None:
    """Rows of both pages have the same words and names of the code; only their meanings are written twice."""
    portuguese, english = (
        [
            line.split(" | ")[:3]
            for line in (tree / "explanation/glossary.md").read_text("utf-8").splitlines()
            if line.startswith("| ") and "`" in line
        ]
        for tree in (PORTUGUESE, ENGLISH)
    )
    assert len(portuguese) > 60
    assert portuguese == english


def test_sections_are_seen_to_differ() -> None:
    page = "# A\n\n```sh\n# no heading\n```\n\n## B\n\n| a |\n|---|\n"
    assert _sections(page) == [("", "0 rows"), ("#", "sh", "0 rows"), ("##", "2 rows")]
    assert _sections(page.replace("## B", "### B")) != _sections(page)
    assert _sections(page.replace("```sh", "```text")) != _sections(page)


@pytest.mark.parametrize("language", site_pages.LANGUAGES)
def test_the_first_page_lists_every_page(language: str) -> None:
    tree = ROOT / "docs" / language
    lines = (tree / "index.md").read_text(encoding="utf-8").splitlines()
    listed = list(site_pages.links("\n".join(line for line in lines if line.startswith("- "))))
    assert len(listed) == len(set(listed))
    assert set(listed) >= _pages(tree) - {"index.md"}
    shared = {f"../reference/{path.name}" for path in (ROOT / "docs/reference").glob("*.md")}
    assert set(listed) >= shared


@pytest.mark.parametrize(
    ("page", "link", "arranged"),
    [
        (
            "docs/en/how-to/keep-an-archive.md",
            "[a](../../reference/http.md#b)",
            "[a](../reference/http.md#b)",
        ),
        (
            "docs/en/how-to/keep-an-archive.md",
            "[a](../explanation/glossary.md)",
            "[a](../explanation/glossary.md)",
        ),
        ("docs/reference/http.md", "[a](../en/index.md#b)", "[a](../index.md)"),
        ("docs/reference/http.md", "![a](../images/item.png)", "![a](../images/item.png)"),
        ("docs/reference/http.md", "[a](../../ARCHITECTURE.md#b)", "[a](../source/ARCHITECTURE.md#b)"),
        (
            "docs/reference/http.md",
            "[`a`](../../src/ibi/http/cors.py)",
            "[`a`](../source/src/ibi/http/cors.py)",
        ),
        ("docs/reference/http.md", "[`a`](../../tests/conftest.py)", "`a`"),
        (
            "docs/reference/http.md",
            "[a](../../packaging/systemd)",
            "[a](../source/packaging/systemd/index.md)",
        ),
        ("docs/reference/http.md", "[a](../monitoring)", "[a](../monitoring/index.md)"),
        ("docs/reference/http.md", "[a](https://a.example/b) [c](#d)", "[a](https://a.example/b) [c](#d)"),
        ("ARCHITECTURE.md", "[a](docs/reference/http.md)", "[a](../reference/http.md)"),
        ("docs/reference/http.md", "```\n[a](../en/index.md)\n```", "```\n[a](../en/index.md)\n```"),
    ],
)
def test_a_link_of_a_checkout_leads_to_the_same_page_of_the_site(page: str, link: str, arranged: str) -> None:
    assert site_pages.rearranged(page, link, "pt-BR") == arranged
