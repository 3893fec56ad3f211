"""Write the table of rooms in ARCHITECTURE.md from the floors and the first sentence of every module.

python tools/room_table.py            writes it
python tools/room_table.py --check    says whether it is current (status 1 if not)
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from house.floors import FLOORS, Room, is_pure, rooms, within  # noqa: E402 the path is set just above

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
START, END = "<!-- rooms: written by make docs -->", "<!-- end of rooms -->"


def first_sentence(room: Room) -> str:
    """What a module says of itself, without the floor it names."""
    said = (ast.get_docstring(room.tree) or "").split("\n\n")[0].replace("\n", " ")
    sentence = re.split(r"(?<=[.])\s", said, maxsplit=1)[0]
    plain = re.sub(r"\s*\((?:pure|[^()]*floor[^()]*)\)|; pure\b", "", sentence)
    return plain.rstrip(".").replace("|", "\\|")


def table() -> str:
    """One section per floor that has rooms, the roof first, as one looks at a house."""
    every = rooms()
    lines: list[str] = []
    for number, floor in reversed(list(enumerate(FLOORS))):
        here = [r for r in every.values() if any(within(r.name, place) for place in floor.rooms)]
        here = [r for r in here if r.text.strip()]
        if not here:
            continue
        lines += ["", f"### Floor {number}: {floor.name}", "", "| room | what it is |", "|---|---|"]
        for room in here:
            pure = " *pure*" if is_pure(room.name) and not floor.pure else ""
            lines.append(f"| `{room.shown}` | {first_sentence(room)}{pure} |")
        if floor.pure:
            lines += ["", "All of this floor is pure."]
    return "\n".join(lines).strip() + "\n"


def page() -> str:
    """ARCHITECTURE.md as it should stand."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{table()}\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Write or check; exit status."""
    if arguments == ["--check"]:
        return 0 if ARCHITECTURE.read_text(encoding="utf-8") == page() else 1
    ARCHITECTURE.write_text(page(), encoding="utf-8")
    print(f"ARCHITECTURE.md: {len(rooms())} rooms")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
