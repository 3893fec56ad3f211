"""What can happen to DIR/minting behind our back, for P-M5: each harm does it to a used data directory.

A harm gets the directory and a way to have more labels minted there meanwhile; it returns the directory to go on with,
the same one or a copy.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from proofs.common.report import Scale

Harm = Callable[[Path, Callable[[], None]], Path]
Named = tuple[str, Harm]

STATE, LOCK = "state", "lock"
_A_WHILE = 2.0  # seconds between a backup and its return; no backup is put back sooner


def damages(scale: Scale, chance: random.Random, sizes: dict[str, int]) -> Iterator[Named]:
    """Something is missing, cut off, added or turned; `sizes`: how long each file is."""
    for file, size in sizes.items():
        yield f"{file} deleted", _on(file, os.unlink)
        yield f"{file} with a byte more", _on(file, _longer)
        lengths = list(range(size))
        for length in lengths if scale is not Scale.SHORT else [0, size - 1, *chance.sample(lengths, 20)]:
            yield f"{file} cut at {length}", _on(file, partial(os.truncate, length=length))
        for bit in _bits(scale, chance, size):
            yield f"{file}, bit {bit} turned", _on(file, partial(_turn, bit=bit))
    yield "both deleted beside an Archive", _total(os.unlink)


def _bits(scale: Scale, chance: random.Random, size: int) -> list[int]:
    """All bits; or one by chance in every byte; or some."""
    if scale is Scale.FULL:
        return list(range(8 * size))
    each = [8 * byte + chance.randrange(8) for byte in range(size)]
    return each if scale is Scale.MEDIUM else chance.sample(each, 60)


def put_back() -> Iterator[Named]:
    """Files replaced by older copies of themselves, the directory staying where it is."""
    ways = {"moved into place": _rename, "written over": _overwrite, "deleted and copied": _copy_anew}
    for name, way in ways.items():
        yield f"older state, {name}", _older((STATE,), way)
        yield f"older state and lock, {name}", _older((STATE, LOCK), way)
        yield f"older lock and state, {name}", _older((LOCK, STATE), way)
    yield "restored by cp -a", lambda data, mint: _restore(data, mint, data)
    yield "DIR/minting restored by cp -a", lambda data, mint: _restore(data, mint, data / "minting")


def copies() -> Iterator[Named]:
    """A second directory with the same state."""
    yield "copied by cp -a", _copy_away
    yield "copied after the original was moved away", _copy_of_moved


def harmless() -> Iterator[Named]:
    """What is right, or does no harm, or cannot be told from a new directory."""
    yield "moved", lambda data, _: data.rename(data.with_name("moved"))
    yield "older lock", _older((LOCK,), _overwrite)
    yield "both of a directory copied while it minted, written over", _copied_while_minting
    yield "removed", lambda data, _: _removed(data)
    yield "DIR/minting removed", lambda data, _: _removed(data / "minting")


def total_losses() -> Iterator[Named]:
    """Neither file tells how far the dates had come."""
    yield "both deleted, a window outstanding", _total(os.unlink)
    yield "both cut to nothing, a window outstanding", _total(lambda path: os.truncate(path, 0))
    yield "both older, a window outstanding", _both_from_before


def pulled_away() -> Iterator[Named]:
    """Files that a waiting process has open are removed."""
    yield "DIR/minting removed under a waiting process", lambda data, _: _removed(data / "minting")
    yield "lock removed under a waiting process", _lock_removed
    yield "both deleted under a waiting process", _total(os.unlink)


# ---- how it is done


def _on(file: str, act: Callable[[Path], object]) -> Harm:
    def harm(data: Path, _: Callable[[], None]) -> Path:
        act(data / "minting" / file)
        return data

    return harm


def _total(act: Callable[[Path], object]) -> Harm:
    """Both files, where the settings of an Archive lie beside them: so this is no new directory."""

    def harm(data: Path, _: Callable[[], None]) -> Path:
        (data / "archive.toml").touch()
        for file in (STATE, LOCK):
            act(data / "minting" / file)
        return data

    return harm


def _lock_removed(data: Path, _: Callable[[], None]) -> Path:
    (data / "archive.toml").touch()
    (data / "minting" / LOCK).unlink()
    return data


def _write(path: Path, content: bytes) -> None:
    """In place: the file stays the same file."""
    with path.open("r+b") as file:
        file.truncate()
        file.write(content)


def _longer(path: Path) -> None:
    _write(path, path.read_bytes() + b"\n")


def _turn(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    _write(path, bytes(content))


def _older(files: tuple[str, ...], put: Callable[[Path, Path], None]) -> Harm:
    """Copies are taken, more labels given, and the copies put back in the order of `files`."""

    def harm(data: Path, mint: Callable[[], None]) -> Path:
        for file in (LOCK, STATE):
            shutil.copy2(data / "minting" / file, data.with_name(file))
        mint()
        for file in files:
            put(data.with_name(file), data / "minting" / file)
        return data

    return harm


def _copied_while_minting(data: Path, mint: Callable[[], None]) -> Path:
    """Of two files that are copied one after the other, the second knows more than the first."""
    for file in (LOCK, STATE):
        shutil.copy2(data / "minting" / file, data.with_name(file))
        mint()
    time.sleep(_A_WHILE)
    for file in (LOCK, STATE):
        _overwrite(data.with_name(file), data / "minting" / file)
    return data


def _rename(copy: Path, place: Path) -> None:
    copy.rename(place)


def _overwrite(copy: Path, place: Path) -> None:
    _write(place, copy.read_bytes())


def _copy_anew(copy: Path, place: Path) -> None:
    place.unlink()
    shutil.copy2(copy, place)


def _cp(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)


def _restore(data: Path, mint: Callable[[], None], part: Path) -> Path:
    backup = data.with_name("backup")
    _cp(part, backup)
    mint()
    shutil.rmtree(part)
    _cp(backup, part)
    return data


def _copy_away(data: Path, mint: Callable[[], None]) -> Path:
    copy = data.with_name("copy")
    _cp(data, copy)
    mint()
    return copy


def _copy_of_moved(data: Path, _: Callable[[], None]) -> Path:
    """The copy stands where the original was; the original is elsewhere."""
    original = data.rename(data.with_name("original"))
    _cp(original, data)
    return data


def _removed(place: Path) -> Path:
    shutil.rmtree(place)
    return place.parent if place.name == "minting" else place


def _both_from_before(data: Path, _: Callable[[], None]) -> Path:
    """What stood there before the last window was reserved, written over both files: kept aside by `keep_backup`."""
    for file in (STATE, LOCK):
        _overwrite(data.with_name(f"{file} before"), data / "minting" / file)
    return data


def keep_backup(data: Path) -> None:
    """Copies of both files as they are now."""
    for file in (STATE, LOCK):
        shutil.copy2(data / "minting" / file, data.with_name(f"{file} before"))
