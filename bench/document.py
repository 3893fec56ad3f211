"""The figures of RESULTS.md, put there by a program, so that none is ever mistyped.

    python -m bench.document

Between `<!-- bench: ROW -->` and `<!-- end -->` stands the newest result of a row, between `<!-- bench: aims -->` and
`<!-- end -->` what all rows were to reach and have reached, and with which versions. All else is written by hand.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.results import FOLDER, newest
from bench.rows import ROWS

if TYPE_CHECKING:
    from bench.results import Result

DOCUMENT: Final = Path(__file__).parent / "RESULTS.md"
_PLACE: Final = re.compile(r"(<!-- bench: (?P<row>[a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def write(document: Path = DOCUMENT, folder: Path = FOLDER) -> None:
    """Put all results that there are into the document; where a row has none, what stands there stays."""
    document.write_text(filled(document.read_text(), folder))


def filled(text: str, folder: Path) -> str:
    """The text of the document with the results that are kept in a folder."""
    found = {row: result for row in ROWS if (result := newest(folder, row)) is not None}

    def put(place: re.Match[str]) -> str:
        row = place["row"]
        if row == "aims" and found:
            return f"{place[1]}\n{_summary(found)}\n\n{place[3]}"
        if row in found:
            return f"{place[1]}\n{_section(found[row])}\n\n{place[3]}"
        return place[0]

    return _PLACE.sub(put, text)


def _section(result: Result) -> str:
    head = f"{result.began[:10]}, `{result.command}`, {result.seconds:,.0f} s; {result.machine}."
    return f"{head}\n\n{result.text}"


def _summary(found: dict[str, Result]) -> str:
    lines = [
        f"| {aim.what} | {row} | {aim.aim} | {aim.reached} | {'yes' if aim.held else '**no**'} |"
        for row, result in found.items()
        for aim in result.aims
    ]
    head = "| what | row | aim | reached: median (least to most) | held |\n|---|---|---:|---:|---|"
    versions = ", ".join(f"{name} {number}" for name, number in _versions(found).items())
    seconds = sum(result.seconds for result in found.values())
    days = sorted({result.began[:10] for result in found.values()})
    when = f"Measured {' to '.join(sorted({days[0], days[-1]}))}; all rows took {seconds / 60:.0f} minutes."
    return "\n".join([head, *lines, "", f"{when} Versions: {versions}."])


def _versions(found: dict[str, Result]) -> dict[str, str]:
    """Of each program, as the rows saw it; several where it changed between them."""
    versions: dict[str, list[str]] = {}
    for result in found.values():
        for name, number in result.versions.items():
            if number not in versions.setdefault(name, []):
                versions[name].append(number)
    return {name: " and ".join(numbers) for name, numbers in versions.items()}


if __name__ == "__main__":
    write()
