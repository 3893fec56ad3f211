"""A full fan-out: originals of items not requested before, so all Archives are queried and awaited.

It is compared with HTTP clients that send the same queries and do nothing else, and with the resolver itself sending
by one of them (`bench.other_clients`), which does the same work as ours. It is measured again while no two answers are
equal, so that each has to be parsed.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import sys
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from bench.asking import ARCHIVES, CLIENTS, ROUNDS_AT_ONCE
from bench.figures import aim, figure, table
from bench.other_clients import OTHER_CLIENTS
from bench.processes import SERVER_CORE, run
from bench.resolving_load import ORIGINAL, Work, scene
from bench.stubs import ip_of, item_of, query_of, service_of, tell
from bench.turns import turn_about

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.figures import Figure
    from bench.resolving_load import Scene

RUNS: Final = 5
_CLOSER: Final = 4  # times as many turns
_AIMS: Final = {"awaited": 0.7, "pyreqwest": 1.7, "aiohttp": 5}
_RATE: Final = re.compile(r"Requests/sec:\s+([\d.]+)")


def fan_out(place: Path, seconds: float, turns: int) -> None:
    """Measure so many seconds at a time, so often, turn about, and print.

    Turns are short, many, and every other one goes backwards: what else a machine does changes from second to second.
    What is nearest to the aim, the resolver beside its own client, is measured once more, in many turns of theirs.
    """
    clients = [name for name in CLIENTS if name in {"ours", "awaited"} or find_spec(name) is not None]
    with ExitStack() as scenes:
        stages = {"resolver": scenes.enter_context(scene(place, ARCHIVES))}
        for client in OTHER_CLIENTS:
            if client in clients:
                other = scene(place, ARCHIVES, program=("bench.other_clients", client))
                stages[f"resolver by {client}"] = scenes.enter_context(other)
        for stage in stages.values():
            _demand(stage, 1)
        first = stages["resolver"]
        contenders: dict[str, Callable[[], tuple[float, float]]] = {
            name: partial(_demand, stage, seconds) for name, stage in reversed(stages.items())
        }
        contenders |= {name: partial(_alone, name, first.stubs.port, seconds) for name in clients}
        contenders["numbered"] = partial(_numbered, first, seconds)
        runs = turn_about(contenders, turns)
        nearest = turn_about({name: contenders[name] for name in ("resolver", "ours")}, turns * _CLOSER)
        headroom = _straight(first)
    for missing in CLIENTS.keys() - set(clients):
        print(f"\n{missing} is not compared: it is not installed")
    _tell_fan_out(
        {name: figure(rate for rate, _ in found) for name, found in runs.items()},
        {name: figure(cost for _, cost in found) for name, found in runs.items()},
    )
    _tell_nearest({name: figure(rate for rate, _ in found) for name, found in nearest.items()}, seconds)
    print(f"\nThe stubs' own headroom: {headroom}")


def _demand(stage: Scene, seconds: float) -> tuple[float, float]:
    """Questions a second, and seconds of a processor for one."""
    result = stage.play(Work(zipf=False, more=ORIGINAL), seconds, ROUNDS_AT_ONCE)
    return result.queries / result.seconds, result.processor / result.queries


def _numbered(stage: Scene, seconds: float) -> tuple[float, float]:
    """The same, while no two answers are alike."""
    tell(stage.stubs.port, "numbered=1")
    try:
        return _demand(stage, seconds)
    finally:
        tell(stage.stubs.port, "numbered=0")


def _tell_fan_out(rates: dict[str, Figure], costs: dict[str, Figure]) -> None:
    names = {
        "resolver": "the resolver, full fan-out",
        "numbered": "the same, no two answers alike",
        "resolver by pyreqwest": "the resolver, asking by pyreqwest",
        "resolver by aiohttp": "the resolver, asking by aiohttp",
        "ours": "its client alone, as callbacks",
        "awaited": "its client alone, a task for each question",
        "pyreqwest": "pyreqwest alone",
        "aiohttp": "aiohttp alone",
    }
    for client, least in _AIMS.items():
        if client in rates:
            aim(
                f"full fan-out of the resolver, to {names[client]}",
                rates["resolver"] / rates[client],
                at_least=least,
            )
    heads = (
        f"{ARCHIVES} questions, {ROUNDS_AT_ONCE} rounds at once",
        "questions a second",
        "resolver to this",
        "µs of a processor for one",
        "this to resolver",
    )
    table(
        heads,
        (
            (names[name], rate.text(), (rates["resolver"] / rate).text(2), costs[name].times(1e6).text(),
             (costs[name] / costs["resolver"]).text(2))
            for name in names
            if (rate := rates.get(name)) is not None
        ),
    )  # fmt: skip


def _tell_nearest(rates: dict[str, Figure], seconds: float) -> None:
    ratio = rates["resolver"] / rates["ours"]
    aim("full fan-out of the resolver, to its client alone, as callbacks", ratio, at_least=0.7)
    low, _, high = statistics.quantiles(ratio.runs) if len(ratio.runs) > 1 else ratio.runs * 3
    print(
        f"\nThe resolver and its client alone, as callbacks, {len(ratio.runs)} turns of {seconds:g} s: "
        f"{rates['resolver'].text()} and {rates['ours'].text()} questions a second; the ratio is {ratio.text(2)}, "
        f"in the middle half of the turns {low:.2f} to {high:.2f}"
    )


def _straight(stage: Scene) -> str:
    """Answers a second of one stub, the load on the other core."""
    if shutil.which("wrk") is None:
        return "not measured, wrk is missing"
    item = item_of(7, 7)
    url = f"http://{ip_of(7)}:{stage.stubs.port}/{service_of(7)}?{query_of(item)}"
    command = ["taskset", "-c", str(SERVER_CORE), "wrk", "-t1", "-c16", "-d1s", url]
    rates = [found[1] for _ in range(RUNS) if (found := _RATE.search(run(command))) is not None]
    return f"{figure(map(float, rates)).text()} answers a second, wrk straight at one of them"


def _alone(client: str, port: int, seconds: float) -> tuple[float, float]:
    command = ["taskset", "-c", str(SERVER_CORE), sys.executable, "-m", "bench.asking"]
    figures = json.loads(run([*command, client, str(port), str(seconds)]))
    return figures["rate"], figures["processor"]
