"""Two hundred Archives and the original of one item: who claims it, who has copies, who is late (P-R4).

Two to five claims are an alert, always, and never without; one claim is followed, and called incomplete where an
Archive was silent; copies alone have an alert of their own. A share of the cases runs through the whole resolver too.
"""

from __future__ import annotations

import random
from math import inf
from typing import TYPE_CHECKING

from ibi.errors import PeerSilent
from ibi.protocol.language import LanguagePreference
from ibi.protocol.persistent_url import PersistentURL
from ibi.resolver.model.alert import Alert, AlertKind
from ibi.resolver.model.archive import ArchiveResponse
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Redirect as Sent
from ibi.resolver.resolve.resolution import Resolution
from proofs.common.report import Report, Scale
from proofs.resolution.cast import READER, RESOLVER, Archive, ScriptedReply, rep
from proofs.resolution.oracle import Question, Reader
from proofs.resolution.stage import Scene, Stage
from proofs.resolution.wire import Conduct, VirtualLoop, Wire
from support.resolver.parts import TIMES

if TYPE_CHECKING:
    from ibi.protocol.url_list import UrlList

NAME = "P-R4"
HOLDS = "two claims: always an alert, never without; one: followed; silence is told"

_ARCHIVES = tuple(Archive(number) for number in range(200))
_QUESTION = Question(rep(1))
_URL = PersistentURL.parse(f"/{_QUESTION.name}", "ibiurl.requireditemstatus=Original")
_LATE = PeerSilent("no answer in time")
_KINDS = ("several claims", "one claim", "one claim and silence", "no claim")


def prove(scale: Scale, seed: int) -> Report:
    """So many cases of each kind, and one in twenty through the whole resolver."""
    report = Report(NAME, HOLDS)
    chance = random.Random(seed)
    for kind in _KINDS:
        for number in range(scale.pick(100, 1_000, 10_000)):
            case = _case(kind, chance)
            _judge(kind, case, _decide(case, chance), report)
            if number % 20 == 0:
                report.count("through the resolver")
                _judge(kind, case, _play(case, chance), report)
    return report


def _case(kind: str, chance: random.Random) -> dict[int, str]:
    """What some of the Archives hold; the others know nothing. "silent" never answer."""
    claims = {"several claims": chance.randint(2, 5), "no claim": 0}.get(kind, 1)
    copies = chance.randint(0 if claims else 1, 20)
    silent = chance.randint(1, 40) if kind == "one claim and silence" else 0
    states = ["Original"] * claims + ["Copy"] * copies + ["silent"] * silent
    return dict(zip(chance.sample(range(len(_ARCHIVES)), len(states)), states, strict=True))


def _reply(number: int, state: str | None) -> ScriptedReply:
    if state is None:
        return ScriptedReply({})
    archive = _ARCHIVES[number]
    about = {"ibi": f"rep {_QUESTION.name}", "ibi.archiveservice": f"rep {archive.name}", "urlkey": "1" * 10}
    return ScriptedReply({**about, "url": archive.url("x"), "state": state})


def _read(reply: ScriptedReply) -> UrlList:
    answer = reply.answer
    if isinstance(answer, Exception):
        raise answer
    return answer


def _decide(case: dict[int, str], chance: random.Random) -> object:
    machine = Resolution(
        _URL, f"{RESOLVER}{_URL.text}", READER, LanguagePreference(), Policy(strict=chance.random() < 0.5)
    )
    nothing = _read(ScriptedReply({}))
    for number in chance.sample(range(len(_ARCHIVES)), len(_ARCHIVES)):
        state = case.get(number)
        if state == "silent":
            machine.hear(ArchiveResponse(_ARCHIVES[number].known, None, _LATE))
        else:
            machine.hear(
                ArchiveResponse(_ARCHIVES[number].known, _read(_reply(number, state)) if state else nothing)
            )
    return machine.close_round()


def _play(case: dict[int, str], chance: random.Random) -> object:
    """The same through the whole resolver, with answers at 0 to 95 % of the deadline."""
    loop = VirtualLoop()
    delays = {archive.address: chance.uniform(0, 0.95 * TIMES.per_archive) for archive in _ARCHIVES}

    def conduct(address: str, _: Question) -> Conduct:
        number = int(address.partition(".")[0][1:])
        state = case.get(number)
        return Conduct(inf if state == "silent" else delays[address], _reply(number, state))

    stage = Stage(loop, Wire(loop, conduct), _ARCHIVES)
    reader = Reader(original=True, hardened=chance.random() < 0.5)
    scene = Scene(0, _QUESTION, reader, loop.now, _ARCHIVES, _ARCHIVES, _URL)
    with stage.watching():
        loop.run_until_complete(stage.resolve(scene))
    loop.run_until_complete(stage.acknowledgment_queues[-1].close())
    loop.close()
    return scene.failed or scene.outcome


def _judge(kind: str, case: dict[int, str], outcome: object, report: Report) -> None:
    report.count(kind)
    claims = {_ARCHIVES[number].name for number, state in case.items() if state == "Original"}
    silent = {_ARCHIVES[number].name for number, state in case.items() if state == "silent"}
    if kind == "several claims":
        right = (
            isinstance(outcome, Alert)
            and outcome.kind is AlertKind.SUSPECT_ORIGINALS
            and set(outcome.archives) == claims
        )
    elif kind == "no claim":
        right = isinstance(outcome, Alert) and outcome.kind is AlertKind.NO_ORIGINAL
    else:
        right = isinstance(outcome, Sent) and {str(outcome.archive.service_ibi)} == claims
        right = right and isinstance(outcome, Sent) and outcome.complete == (not silent)
    report.demand(right, f"{kind}: {outcome} for {case}")
