"""Those who work in an Archive until they are killed, and say what they do, in lines of JSON.

A worker says what it is about to do, does it, and says that it is done, or that it was refused. Every change is made
in the name of its number, so that the history of the items tells in which order all of them were made.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from ibi.archive.model.item_json import read_item
from ibi.archive.store.item_changes import deposit, edit, remove
from ibi.archive.store.item_store import ItemStore
from ibi.errors import IbiError
from ibi.identifier.forms import parse_name
from proofs.deposit import archives

WORK = "proofs.deposit.working:work"
STOPPED = "proofs.deposit.working:stopped"
_NAMES = ("a", "b", "b/c", "b/d%20e/f", "g", "h/i")
"""What files are called: so few, and some so like folders of others, that changes meet."""
_SIZES = (0, 1, 300, 5_000, 70_000, 1_500_000)
_CHANGES = ("deposit", "deposit", "edit", "edit", "edit", "edition", "removal", "abandon")


def work(words: Sequence[str]) -> None:
    """DIR NAME SEED: change items at random until killed."""
    data, name, seed = words
    chance = random.Random(seed)
    numbers = itertools.count(1)
    while True:
        with archives.at(Path(data)).item_store() as item_store:
            mains = [
                str(item.forms.main) for item in item_store.catalogue.all() if item.key or not item.deleted
            ]
            for _ in range(chance.randint(1, 5)):
                _change(item_store, chance, f"{name}-{next(numbers)}", mains)


def _change(item_store: ItemStore, chance: random.Random, number: str, mains: list[str]) -> None:
    kind = chance.choice(_CHANGES)
    contents = {name: _content(chance) for name in chance.sample(_NAMES, chance.randint(0, 2))}
    main, gone = chance.choice(mains), list[str]()
    if kind == "edit":
        held = item_store.catalogue.holding(parse_name(main))
        names = [file.name for file in held.files] if held else []
        gone = chance.sample(names, min(len(names), chance.randint(0, 1)))
    begun = {
        "kind": kind,
        "item": "" if kind in {"deposit", "abandon"} else main,
        "put": {name: [len(content), sha256(content).hexdigest()] for name, content in contents.items()},
        "gone": gone,
    }
    acts: dict[str, Callable[[], Any]] = {
        "abandon": lambda: archives.stage(item_store, contents),
        "deposit": lambda: archives.put(item_store, contents, number),
        "edition": lambda: archives.put(item_store, contents, number, edition_of=main),
        "edit": lambda: edit(
            item_store,
            parse_name(main),
            {},
            number,
            staged=archives.stage(item_store, contents),
            without=gone,
        ),
        "removal": lambda: remove(item_store, parse_name(main), "why", number),
    }
    _say("begun", number, **begun)
    try:
        holding = acts[kind]()
    except IbiError as error:
        _say("refused", number, why=type(error).__name__, sentence=str(error))
    else:
        if kind != "abandon":
            main = str(holding.forms.main)
            mains.append(main)
        _say("done", number, main=main.lower())


def _content(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randint(0, chance.choice(_SIZES)))


def stopped(words: Sequence[str]) -> None:
    """DIR PLACE: deposit an item, and be stopped (SIGSTOP) on the way to it, until it is continued.

    PLACE: "staged", with a file in staging, or "writing", in the middle of the transaction.
    """
    data, place = words
    with archives.at(Path(data)).item_store() as item_store:
        if place == "staged":
            staged = archives.stage(item_store, {"a": b"of one that was stopped"})
            os.kill(os.getpid(), signal.SIGSTOP)
            deposit(item_store, read_item({"files": {"a": ""}}), staged, "stopped")
        else:
            with item_store.unit_of_work("stopped") as work:
                os.kill(os.getpid(), signal.SIGSTOP)
                work.record_event(work.get(item_store.service.main), "noted")
    _say("done", "stopped")


def _say(what: str, number: str, **more: object) -> None:
    line = {"at": time.monotonic_ns(), "what": what, "number": number, **more}
    os.write(1, json.dumps(line).encode() + b"\n")
