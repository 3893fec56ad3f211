"""Each difference of a check is one sentence with its remedy, and is mended by itself only where that is safe."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ibi.archive.preservation.check import check
from ibi.archive.store.data_directory import catalogue_store
from ibi.errors import SetupError
from ibi.minting.machine import this_machine
from ibi.runtime.database import is_url
from support.archive.preservation_fixture import LINKED, NAME, OTHER, ArchiveFolder, make_archive
from support.engines import by_hand

REBUILD = (
    "stop the Archive; then put back a backup (ibi archive restore), or make the catalogue anew from what lies beside "
    "the files (ibi archive rebuild)"
)
STOP = "stop the Archive, and run: ibi archive rebuild"
PUT_BACK = (
    "if the database runs: stop all nodes, put it back from a backup of it (pg_restore), and run: "
    "ibi mint recover --data DATA --moved"
)
AGAIN = "start the Archive, or check again with --repair: it is put right then"
LOST = "labels wait until it is repaired: ibi mint recover --data DATA"
NO_STATE = "the minting state in DATA/minting is missing, so the next label might be a second one"

Found = tuple[str, str, bool]
"""What differs, its remedy, and whether the check can mend it."""


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(
        tmp_path / "archive", mint_host="archive.example", mint_ip="127.0.0.1", for_trying=True
    )
    kept.put(NAME, {"a.txt": b"aaaa"})
    kept.put(OTHER, {"z.txt": b"zz"}, ibip="LK47B6W/362SFKH")
    kept.put(LINKED, url="http://far.example/")
    return kept


def found(kept: ArchiveFolder) -> list[Found]:
    """All differences, with DATA for the path of the Archive."""
    data = str(kept.data)
    return [
        (str(each.what).replace(data, "DATA"), str(each.remedy).replace(data, "DATA"), each.mend is not None)
        for each in check(kept.directory, this_machine())
    ]


def sql(*statements: str) -> Callable[[ArchiveFolder], None]:
    """Change the catalogue past all of its rules."""

    def harm(kept: ArchiveFolder) -> None:
        by_hand.harm(kept.data, *statements)

    return harm


def written(path: str, content: bytes | None) -> Callable[[ArchiveFolder], None]:
    """Write a file of the Archive; None removes it."""

    def harm(kept: ArchiveFolder) -> None:
        place = kept.data / path
        place.unlink() if content is None else place.write_bytes(content)

    return harm


def both(*harms: Callable[[ArchiveFolder], None]) -> Callable[[ArchiveFolder], None]:
    def harm(kept: ArchiveFolder) -> None:
        for each in harms:
            each(kept)

    return harm


def row_damaged(reason: str) -> Found:
    return f"the catalogue is damaged: a row of it cannot be read ({reason})", REBUILD, False


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (sql("UPDATE item SET file_count = 9 WHERE number = 2"), [
            (f"{NAME} does not have as many files as its entry says", REBUILD, False),
        ]),
        (sql("DELETE FROM name WHERE item = 2"), [
            ("2 has no main name, or several", REBUILD, False),
            (f"the catalogue does not know the item of col/{NAME}/item.json", STOP, False),
        ]),
        (sql("DELETE FROM name WHERE name = 'LK47B6W/362SFKH'"), [
            ("the name LK47B6W/362SFKH does not lead to its item", REBUILD, False),
        ]),
        (sql("UPDATE item SET state = 'Deleted' WHERE number = 2"), [
            (f"{NAME} is removed, and has files or a url still", REBUILD, False),
            (f"the catalogue has statements about {NAME} that were never made: it is damaged", STOP, False),
        ]),
        (sql("UPDATE item SET metadata = '{' WHERE number = 2"), [row_damaged("JSONDecodeError")]),
        (sql("UPDATE item SET ibip = 'x' WHERE number = 2"), [row_damaged("ParseError")]),
        (written(f"col/{NAME}/doc/a.txt", None), [
            (f"a.txt of {NAME} is missing",
             f"put the same bytes back: ibi archive repair {NAME} a.txt --from PATH", False),
        ]),
        (both(written("staging/x", b""), written("staging/y", b"")), [
            ("unlisted files left in staging: 2", AGAIN, True),
        ]),
        (both(lambda kept: os.rename(kept.path("a.txt"), kept.data / "staging/moved"),  # noqa: PTH104 - as a kill left it
              sql("UPDATE file SET staged = 'moved' WHERE name = 'a.txt'")), [
            ("something was interrupted, and waits to be settled", AGAIN, True),
        ]),
        (written(os.fsdecode(b"col/\xff\xfe"), b""), [
            ("col/?? is not listed", "check again with --repair: it is moved to lost+found", True),
        ]),
        (written(f"col/{NAME}/item.json", b"{}"), [
            (f"the item.json of {NAME} and the catalogue differ",
             "check again with --repair: it is written anew", True),
        ]),
        (sql("UPDATE item SET next_edition = 'rep ' || rep WHERE number = 2"), [
            (f"the editions of {NAME} go in a circle",
             "give one of them its right next edition: ibi archive edit", False),
            (f"the catalogue has statements about {NAME} that were never made: it is damaged", STOP, False),
        ]),
    ],
)  # fmt: skip
def test_a_difference_is_told_whole(
    kept: ArchiveFolder, harm: Callable[[ArchiveFolder], None], expected: list[Found]
) -> None:
    if is_url(catalogue_store(kept.data)):  # a rebuild needs a file
        expected = [
            (what, PUT_BACK if to_do in {REBUILD, STOP} else to_do, mends) for what, to_do, mends in expected
        ]
    harm(kept)
    assert found(kept) == expected


@pytest.mark.one_store("sqlite", "a database refuses the first, and another Archive is named at the others")
@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (sql("INSERT INTO file (item, name, size, sha256, media_type) VALUES (99, 'x', 1, '', '')"), [
            ("entries of file belong to nothing in item", REBUILD, False),
        ]),
        (sql("UPDATE item SET transferable = 1 WHERE number = 1"), [
            ("the Archive service archive.example/w/2020/01.01.00.00 is not held as an original that must stay",
             REBUILD, False),
        ]),
        (sql("UPDATE item SET state = 'Copy' WHERE number = 1"), [
            ("the Archive service archive.example/w/2020/01.01.00.00 is not held as an original that must stay",
             REBUILD, False),
        ]),
        (written("archive.toml", b"address = "), [
            ("DATA/archive.toml cannot be read: Invalid value (at end of document)",
             "mend DATA, or put it back from a backup", False),
        ]),
    ],
)  # fmt: skip
def test_a_difference_in_a_file_is_told_whole(
    kept: ArchiveFolder, harm: Callable[[ArchiveFolder], None], expected: list[Found]
) -> None:
    harm(kept)
    assert found(kept) == expected


@pytest.mark.one_store("sqlite", "damages the file, what it enforces, and the state of minting beside it")
@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (sql("PRAGMA ignore_check_constraints = 1", "UPDATE item SET state = 'Nothing' WHERE number = 2"), [
            ("the catalogue is damaged: CHECK constraint failed in item", REBUILD, False),
        ]),
        (written("catalogue.sqlite", b"noise" * 1000), [
            ("the database DATA/catalogue.sqlite cannot be used: file is not a database", REBUILD, False),
        ]),
        (written("catalogue.sqlite", None), [("DATA/catalogue.sqlite does not exist", REBUILD, False)]),
        (written("minting/state", None), [(NO_STATE, LOST, False)]),
        (both(written("minting/state", None), written("minting/lock", None)), [(NO_STATE, LOST, False)]),
    ],
)  # fmt: skip
def test_a_difference_of_the_file_is_told_whole(
    kept: ArchiveFolder, harm: Callable[[ArchiveFolder], None], expected: list[Found]
) -> None:
    harm(kept)
    assert found(kept) == expected


def test_a_check_tells_how_far_it_is(kept: ArchiveFolder) -> None:
    counts: list[tuple[int, int]] = []
    assert list(check(kept.directory, this_machine(), lambda *count: counts.append(count))) == []
    assert counts == [(number, 4) for number in (1, 2, 3, 4)]


def test_what_is_not_listed_is_moved_to_a_folder_of_this_moment(kept: ArchiveFolder) -> None:
    (kept.data / "col" / NAME / "doc/extra").write_bytes(b"x")
    before = int(time.time())
    (difference,) = check(kept.directory, this_machine())
    assert difference.mend
    difference.mend()
    (moment,) = (kept.data / "lost+found").iterdir()
    assert before <= int(moment.name) <= time.time() + 1
    assert (moment / "col" / NAME / "doc/extra").read_bytes() == b"x"
    (kept.data / "lost+found").rename(kept.data / "elsewhere")
    (kept.data / "lost+found").write_bytes(b"")
    (kept.data / "col" / NAME / "doc/extra").write_bytes(b"x")
    (difference,) = check(kept.directory, this_machine())
    assert difference.mend
    with pytest.raises(SetupError) as raised:
        difference.mend()
    assert str(raised.value).startswith(f"{kept.data}/lost+found/")
    assert str(raised.value).endswith("/doc/extra cannot be written: Not a directory")
