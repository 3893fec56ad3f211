"""Build the site of the documents, in Portuguese and in English: `make site`.

    python tools/site_pages.py            into build/site; a warning of Sphinx is an error
    python tools/site_pages.py FOLDER     into another folder

Pages are plain Markdown with links that work in a checkout. For each language, `arrange` copies them into a folder
of sources: docs/pt-BR (or docs/en) becomes its top, the other folders of docs stay beside, and a page of the source
(a README, ARCHITECTURE) that one of them links to lies below `source`. A link to what is not on the site becomes text.
The tables of contents are made of the links in docs/*/index.md. Sphinx then makes HTML, by docs/conf.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).resolve().parent.parent
BUILD: Final = ROOT / "build"
LANGUAGES: Final = {"pt-BR": "pt_BR", "en": "en"}
"""Folder of a language -> its name for Sphinx."""
TREES: Final = ("tutorial", "how-to", "explanation")
"""The parts that each language has for itself; the reference is in English."""
SHARED: Final = ("reference", "standard", "decisions")
NOT_SHOWN: Final = ("tests/", "..")
"""What links on the site do not lead to: the coverage table names each test."""
LISTS: Final = ("index.md", "decisions/README.md")
"""Pages of the site whose links are its table of contents."""

OPTIONS: Final = ("-q", "-W", "--keep-going", "-n", "-E", "-j", "2", "-b", "html")

_FENCE: Final = re.compile(r"^(```.*?^```[^\n]*$)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_LISTED: Final = re.compile(r"- |\| \d")
"""A line of a list of pages, or of the table of decisions."""
_CHOICE: Final = """<!DOCTYPE html>
<html lang="pt-BR">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>ibi</title>
<p><a href="pt-BR/index.html">Documentação em português</a></p>
<p lang="en"><a href="en/index.html">Documentation in English</a></p>
</html>
"""


def place(path: str) -> str:
    """Return where a file of the checkout lies among the sources of a language; "" for what is not on the site.

    A folder is a page there, which lists its files.
    """
    if (ROOT / path).is_dir():
        path = f"{path}/index.md"
    inside = path.removeprefix("docs/")
    if inside == path:
        return "" if path.startswith(NOT_SHOWN) else f"source/{path}"
    for tree in LANGUAGES:
        if inside.startswith(f"{tree}/"):
            return inside.removeprefix(f"{tree}/")
    return inside


def _goal(page: str, target: str, language: str) -> str:
    """The path in the checkout of what a page links to; of a page of the other language, the one of this language."""
    path = os.path.normpath(f"{Path(page).parent.as_posix()}/{target}")
    for tree in LANGUAGES:
        twin = path.replace(f"docs/{tree}/", f"docs/{language}/", 1)
        if path.startswith(f"docs/{tree}/") and (ROOT / twin).exists():
            return twin
    return path


def links(text: str) -> Iterator[str]:
    """Yield the targets of the links on a page that are no addresses of the web, with their anchors."""
    for part in _FENCE.split(text)[::2]:
        yield from (target for _, _, target in _LINK.findall(part) if not re.match(r"[a-z]+:", target))


def rearranged(page: str, text: str, language: str) -> str:
    """Return a page of the checkout as it stands among the sources of a language: with links that lead there."""
    here = Path(place(page)).parent.as_posix()

    def link(found: re.Match[str]) -> str:
        sign, words, target = found.groups()
        path, hash_, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return found[0]
        goal = _goal(page, path, language)
        lies = place(goal)
        if not lies or not (ROOT / goal).exists():
            return words
        if goal != os.path.normpath(f"{Path(page).parent.as_posix()}/{path}"):
            hash_ = anchor = ""  # headings of the other language have other anchors
        return f"{sign}[{words}]({os.path.relpath(lies, here)}{hash_}{anchor})"

    parts = _FENCE.split(text)
    return "".join(part if n % 2 else _LINK.sub(link, part) for n, part in enumerate(parts))


def _contents(text: str) -> str:
    """The tables of contents of a page of the site, one for each of its headings: the pages that its list names."""
    tables = []
    for section in re.split(r"^##? ", text, flags=re.MULTILINE)[1:]:
        listed = "\n".join(line for line in section.splitlines() if _LISTED.match(line))
        entries = [f"{words} <{target.removesuffix('.md')}>" for _, words, target in _LINK.findall(listed)]
        if entries:
            caption = section.splitlines()[0]
            tables.append(
                "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```"])
            )
    return "\n\n".join(tables)


def _files(folder: str) -> list[str]:
    """The files of a folder of the checkout, as paths there; [] for what is no folder."""
    path = ROOT / folder
    return (
        [f"{folder}/{each.name}" for each in sorted(path.iterdir()) if each.is_file()]
        if path.is_dir()
        else []
    )


def _folder_page(folder: str) -> str:
    names = [Path(each).name for each in _files(folder)]
    return f"# {folder}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)


def pages(language: str) -> list[str]:
    """Return the pages of a language, as paths in the checkout: those of its trees, and whatever they link to."""
    folders = [ROOT / "docs" / language, *(ROOT / "docs" / each for each in SHARED)]
    waiting = [path.relative_to(ROOT).as_posix() for folder in folders for path in folder.rglob("*.md")]
    found: dict[str, None] = {}
    while waiting:
        page = waiting.pop()
        if page in found:
            continue
        found[page] = None
        if page.endswith(".md"):
            for target in links((ROOT / page).read_text(encoding="utf-8")):
                goal = _goal(page, target.partition("#")[0], language) if target[0] != "#" else page
                if place(goal) and (ROOT / goal).exists():
                    waiting += [goal, *_files(goal)]
    return sorted(found)


def arrange(language: str, folder: Path) -> None:
    """Write the sources of a language into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages(language):
        goal = folder / place(page)
        goal.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / page).is_dir():
            goal.write_text(_folder_page(page), encoding="utf-8")
            continue
        if not page.endswith(".md"):
            shutil.copyfile(ROOT / page, goal)
            continue
        text = rearranged(page, (ROOT / page).read_text(encoding="utf-8"), language)
        if place(page) in LISTS:
            text = f"{text}\n{_contents(text)}\n"
        goal.write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "docs/locale", folder / "locale")


def build(site: Path, sources: Path) -> int:
    """Build both languages; return the exit status of Sphinx, 0 if no language has a warning."""
    worst = 0
    for language, name in LANGUAGES.items():
        arrange(language, sources / language)
        command = [sys.executable, "-m", "sphinx", *OPTIONS, "-c", str(ROOT / "docs")]
        command += ["-d", str(sources / f"{language}.doctrees"), "-D", f"language={name}"]
        command += [str(sources / language), str(site / language)]
        worst = max(worst, subprocess.call(command))  # noqa: S603 - our own command
    (site / "index.html").write_text(_CHOICE, encoding="utf-8")
    return worst


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD / "site"
    sys.exit(build(where, where.with_name(f"{where.name}-sources")))
