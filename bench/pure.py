"""What reading and writing cost in the layers without I/O: nanoseconds, and the ratio to `urlsplit` without its cache.

Every text is different and is met once in a run, so that no cache helps anyone; `urlsplit`'s own is emptied before
each run and is far smaller than the number of texts. The yardstick runs over the same texts, interleaved with what it
measures. A figure is the median of several runs, in processor time, so that a busy machine changes it little.
"""

from __future__ import annotations

import gc
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import clear_cache, urlsplit  # type: ignore[attr-defined]  # typeshed leaves clear_cache out

from bench.figures import Figure, aim, figure, table
from bench.turns import turn_about
from ibi.identifier.dates import TICKS
from ibi.identifier.ibip import IBIp, ibip_prefix, ibip_suffix
from ibi.identifier.repository import UniformRepositoryName, rep_prefix, rep_suffix
from ibi.protocol.pair_list import read_pairs, write_pairs
from ibi.protocol.persistent_url import PersistentURL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench.scale import Scale

_RELATIONS = (
    "",
    ".lastedition",
    ".metadata",
    ".metadata(oai_dc)",
    ".lastedition.metadata",
    ".lastedition.metadata(oai_dc)",
    ".metadata.translation",
    ".translation(en)",
    ".translation(pt)",
)


@dataclass(frozen=True)
class MeasuredForm:
    """One line of the table: nanoseconds for one text."""

    name: str
    ours: Figure
    yardstick: Figure


def measure(_place: Path, scale: Scale) -> None:
    """Measure and print."""
    texts = scale(200, 10_000, 20_000)
    runs = scale(3, 5, 9)
    lines = list(_measured(texts, runs))
    for line in lines:
        if line.name.startswith("parse"):
            most = 2 if "URL" in line.name else 1
            aim(f"{line.name}, of `urlsplit`", line.ours / line.yardstick, at_most=most)
    print(f"{texts:,} distinct texts, {texts // 10:,} pair lists; median of {runs} runs (least to most)")
    table(
        ("what", "ns", "`urlsplit` of the same texts, ns", "ratio"),
        (
            (line.name, line.ours.text(), line.yardstick.text(), (line.ours / line.yardstick).text(2))
            for line in lines
        ),
    )


def _measured(texts: int, runs: int) -> Iterator[MeasuredForm]:
    chance = random.Random(1995)
    reps, ibips = _labels(chance, texts)
    yield from _read_and_print("uniform repository name", reps, UniformRepositoryName.parse, runs)
    yield from _read_and_print("IBIp", ibips, IBIp.parse, runs)
    for name, paths in _paths(reps, ibips).items():
        yield from _read_and_print(f"persistent URL, {name}", paths, _parse_url, runs)
    lists = texts // 10  # they are longer
    for count in (9, 49):
        bodies = [_body(rep, ibip, count) for rep, ibip in zip(reps[:lists], ibips[:lists], strict=True)]
        addresses = [f"http://urlib.net/{ibip}" for ibip in ibips[:lists]]
        yield compare(f"read a pair list of {count} pairs", read_pairs, bodies, addresses, runs)
        parsed = [read_pairs(body) for body in bodies]
        yield compare(f"write a pair list of {count} pairs", write_pairs, parsed, addresses, runs)


def _read_and_print(
    name: str, texts: list[str], parse: Callable[[str], object], runs: int
) -> Iterator[MeasuredForm]:
    yield compare(f"parse: {name}", parse, texts, texts, runs)
    yield compare(f"print: {name}", str, [parse(text) for text in texts], texts, runs)


def compare(
    name: str, work: Callable[[Any], object], inputs: Sequence[Any], texts: Sequence[str], runs: int
) -> MeasuredForm:
    """Time `work` over the inputs and `urlsplit` over the texts, turn about, each input once in a run."""

    def theirs() -> float:
        clear_cache()
        return _nanoseconds(urlsplit, texts)

    found = turn_about({"ours": lambda: _nanoseconds(work, inputs), "theirs": theirs}, runs)
    return MeasuredForm(name, figure(found["ours"]), figure(found["theirs"]))


def _nanoseconds(work: Callable[[Any], object], inputs: Sequence[Any]) -> float:
    gc.collect()
    gc.disable()
    started = time.thread_time_ns()
    for one in inputs:
        work(one)
    spent = time.thread_time_ns() - started
    gc.enable()
    return spent / len(inputs)


def _parse_url(text: str) -> PersistentURL:
    path, _, query = text.partition("?")
    return PersistentURL.parse(path, query)


def _labels(chance: random.Random, texts: int) -> tuple[list[str], list[str]]:
    """As many different names, and as many different IBIps, of the shapes seen in the wild."""
    reps, ibips = set[str](), set[str]()
    while len(reps) < texts:
        host = f"mtc-m{chance.randrange(30)}.sid.inpe.br"
        moment = chance.randrange(807235200, 1700000000)
        moment -= moment % 60 if chance.random() < 0.6 else 0
        reps.add(f"{rep_prefix(host, 80)}{chance.choice(['', '@80', '.8080'])}/{rep_suffix(moment * TICKS)}")
    while len(ibips) < texts:
        ip = f"150.163.{chance.randrange(256)}.{chance.randrange(256)}"
        moment = chance.randrange(807235200, 1700000000)
        ibips.add(f"{ibip_prefix(ip, chance.choice([800, 800, 802]))}/{ibip_suffix(moment * TICKS)}")
    return sorted(reps, key=hash), sorted(ibips, key=hash)


def _paths(reps: list[str], ibips: list[str]) -> dict[str, list[str]]:
    """Persistent URLs as a server gets them: a raw path, perhaps a raw query."""
    tails = ("!:(oai_dc)", "+", "+(pt-BR)", ":")
    return {
        "simple, rep": [f"/{rep}" for rep in reps],
        "simple, ibip": [f"/{ibip}" for ibip in ibips],
        "with a modifier": [f"/{ibip}{tails[at % 4]}" for at, ibip in enumerate(ibips)],
        "with a file path": [f"/{ibip}/doc/report%20{at}.pdf" for at, ibip in enumerate(ibips)],
        "with a verb list": [f"/{ibip}?ibiurl.verblist=GetLastEdition+GetMetadata(oai_dc)" for ibip in ibips],
    }


def _body(rep: str, ibip: str, count: int) -> bytes:
    """An answer shaped like Example 6.2 (9 pairs) or Example 9.2 (49 pairs)."""
    pairs = {
        "archiveaddress": "mtc-m16d.sid.inpe.br",
        "ibi.archiveservice": "{rep sid.inpe.br/mtc-m19@80/2009/08.21.17.02}",
        "ibi.platformsoftware": "{rep dpi.inpe.br/banon/1998/08.02.08.56}",
        "urlkey": "1426203276-5985125171467764",
    }
    for relation in _RELATIONS if count == 49 else _RELATIONS[:1]:
        pairs[f"contenttype{relation}"] = "Metadata" if "metadata" in relation else "Data"
        pairs[f"ibi{relation}"] = f"{{rep {rep} ibip {ibip}}}"
        pairs[f"state{relation}"] = "Original"
        pairs[f"timestamp{relation}"] = "2013-10-04T14:32:14Z"
        pairs[f"url{relation}"] = f"http://mtc-m16d.sid.inpe.br/col/{rep}/doc/Relat%f3rio%20Final.pdf"
    return "\r\n".join(f"{name} {pairs[name]}" for name in sorted(pairs)).encode()
