"""One item of the printed examples, the two Archives that know of it, and a resolver that is asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from support.resolver.running_resolver import Answer, Running, resolver
from support.scripted_archive import Behaviour, Question, ScriptedArchive

IBI = "8JMKD3MGP8W/35MMLL8"
REP = "sid.inpe.br/mtc-m18@80/2009/07.21.14.43"
URL = "http://mtc-m16c.sid.inpe.br/col/sid.inpe.br/mtc-m18@80/2009/07.21.14.43/doc/CCSDS%20650.0-B-1.pdf"
KEY = "1427244889-5349022633744855"
M16C = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
M16D = "sid.inpe.br/mtc-m19@80/2009/08.21.17.02"


def body(service: str = M16C, ibi: str = f"{{rep {REP} ibip {IBI}}}", **pairs: str) -> bytes:
    """An answer about an item; names with an underscore for a dot."""
    given = {"archiveaddress": "a.example", "ibi": ibi, "ibi.archiveservice": f"{{rep {service}}}"}
    given |= {name.replace("_", "."): value for name, value in pairs.items()}
    return "\r\n".join(f"{name} {value}" for name, value in given.items()).encode()


def item(service: str = M16C, state: str = "Original", url: str = URL) -> bytes:
    return body(
        service, contenttype="Data", state=state, timestamp="2009-07-21T14:43:31Z", url=url, urlkey=KEY
    )


DELETED = body(state="Deleted", timestamp="2015-01-02T03:04:05Z")


def m16c(answer: bytes | None = None, *verbs: str, path: str = "", **conduct: Any) -> ScriptedArchive:
    question = (IBI.lower(), verbs, path)
    script: dict[Question, Behaviour] = {question: Behaviour(answer, **conduct)} if answer is not None else {}
    return ScriptedArchive("m16c", "mtc-m16c.sid.inpe.br", M16C, script=script)


def m16d(answer: bytes | None = None, **conduct: Any) -> ScriptedArchive:
    script: dict[Question, Behaviour] = {(IBI.lower(), (), ""): Behaviour(answer or b"", **conduct)}
    return ScriptedArchive("m16d", "mtc-m16d.sid.inpe.br", M16D, script=script)


def play(
    data: Path,
    archives: Sequence[ScriptedArchive],
    scene: Callable[[Running], Awaitable[None]],
    **settings: Any,
) -> None:
    async def main() -> None:
        async with resolver(data, archives, **settings) as running:
            await scene(running)

    asyncio.run(main())


def answer_of(
    data: Path,
    archives: Sequence[ScriptedArchive],
    target: str,
    *headers: str,
    method: str = "GET",
    **settings: Any,
) -> Answer:
    """Return the answer to one request."""
    answers: list[Answer] = []

    async def scene(running: Running) -> None:
        answers.append(await running.ask(target, *headers, method=method))

    play(data, archives, scene, **settings)
    return answers[0]
