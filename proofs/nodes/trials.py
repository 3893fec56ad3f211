"""The kinds of trial: what is killed, stopped, added or cut off while clients ask."""

from __future__ import annotations

import random
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from proofs.common.report import Report, Scale
from proofs.nodes import looking
from proofs.nodes.field import Field, what_is_missing
from proofs.nodes.handing import handed_over
from proofs.nodes.load import Load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proofs.nodes.field import Node

_HOLDS: Final = (
    "no acknowledged deposit lost, no label twice, no reader led wrong; refusals are 503 with Retry-After"
)


@dataclass
class Trial:
    """One kind under way. `away`: seconds for which a store is away."""

    field: Field
    load: Load
    report: Report
    scale: Scale
    chance: random.Random

    @property
    def away(self) -> float:
        """Seconds for which something is away."""
        return float(self.scale.pick(3, 30, 30))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The services whose nodes are tried in turn; the short form has no time for both."""
        return ("archive",) if self.scale is Scale.SHORT else ("archive", "resolver")

    def kill(self, node: Node) -> None:
        """Kill a node, and start it again."""
        with self.load.kills.kill(node.kind):
            node.kill()
        self.report.count("kills of nodes")

    def settle(self) -> None:
        """Wait until all is as before; count the connections."""
        ready = self.field.until_ready()
        settled = self.load.until_settled()
        self.report.top("longest until ready, ms", round(1000 * ready))
        self.report.top("longest until all is answered, ms", round(1000 * settled))
        ((connections,),) = self.field.postgresql.execute("SELECT count(datname) FROM pg_stat_activity")
        self.report.top("most connections", connections)


def node_killed(trial: Trial) -> None:
    """A node of each service is killed, one after the other or both at once, and started again."""
    for number in range(trial.scale.pick(1, 8, 46)):
        for kind in ("archive", "resolver"):
            trial.kill(trial.chance.choice(trial.field.of(kind)))
            time.sleep(trial.chance.uniform(0, 1) * (number % 2))
        trial.settle()


def node_added(trial: Trial) -> None:
    """A node is added to each service, and taken out again; no request may fail."""
    for _ in range(trial.scale.pick(1, 2, 6)):
        for kind in trial.kinds:
            node = trial.field.add_node(kind)
            trial.field.until_ready()
            trial.field.balance()
            trial.field.balancer.reload()
            trial.report.count("nodes added")
            trial.settle()
            trial.field.remove_node(node)
            trial.settle()


def balancer_reloaded(trial: Trial) -> None:
    """The balancer reads its configuration again; no request may fail."""
    for _ in range(trial.scale.pick(3, 10, 40)):
        trial.field.balancer.reload()
        trial.report.count("reloads")
        time.sleep(trial.chance.uniform(0.2, 1))
    trial.settle()


def postgresql_killed(trial: Trial) -> None:
    """The first process of PostgreSQL is killed, and started again at once."""
    for _ in range(trial.scale.pick(1, 5, 22)):
        with trial.load.outage():
            _kill_postgresql(trial)
            trial.settle()
        time.sleep(trial.chance.uniform(0, 2))


def postgresql_away(trial: Trial) -> None:
    """PostgreSQL is stopped as an operator does, and away for a while."""
    for _ in range(trial.scale.pick(1, 1, 2)):
        with trial.load.outage():
            trial.field.postgresql.stop()
            time.sleep(trial.away)
            trial.field.postgresql.start()
            trial.settle()
        trial.report.count("times away")


def postgresql_stopped(trial: Trial) -> None:
    """PostgreSQL stands still (SIGSTOP), and goes on."""
    for _ in range(trial.scale.pick(1, 1, 2)):
        with trial.load.outage():
            trial.field.postgresql.suspend()
            try:
                time.sleep(trial.away)
            finally:
                trial.field.postgresql.resume()
            trial.settle()
        trial.report.count("stops of PostgreSQL")


def s3_killed(trial: Trial) -> None:
    """The object store is killed, and started again at once, or after a while."""
    for number in range(trial.scale.pick(1, 3, 16)):
        _kill_s3(trial, trial.away if number % 4 == 0 and trial.scale is not Scale.SHORT else 0.5)
        trial.settle()


def s3_stopped(trial: Trial) -> None:
    """The object store stands still (SIGSTOP), and goes on."""
    for _ in range(trial.scale.pick(1, 1, 2)):
        trial.field.s3.signal(signal.SIGSTOP)
        try:
            time.sleep(trial.away)
        finally:
            trial.field.s3.signal(signal.SIGCONT)
        trial.settle()
        trial.report.count("stops of the object store")


def cut_off(trial: Trial) -> None:
    """A node of each service is cut off from PostgreSQL only, for a while."""
    for _ in range(trial.scale.pick(1, 1, 2)):
        for kind in trial.kinds:
            node = next(each for each in trial.field.of(kind) if each.relay is not None)
            assert node.relay is not None  # noqa: S101 - one has a relay
            with trial.load.outage():
                node.relay.cut()
                try:
                    time.sleep(trial.away)
                finally:
                    node.relay.mend()
                trial.settle()
            trial.report.count("nodes cut off")


def together(trial: Trial) -> None:
    """Nodes, PostgreSQL and the object store are killed in any order, several at once."""
    acts = ["node"] * trial.scale.pick(2, 12, 64) + ["postgresql"] * trial.scale.pick(1, 2, 8)
    acts += ["s3"] * trial.scale.pick(0, 1, 4)
    trial.chance.shuffle(acts)
    while acts:
        with trial.load.outage():
            for act in (acts.pop() for _ in range(min(len(acts), trial.chance.randrange(1, 4)))):
                if act == "node":
                    trial.kill(trial.chance.choice(trial.field.nodes))
                elif act == "postgresql":
                    _kill_postgresql(trial)
                else:
                    _kill_s3(trial, 0.5)
            trial.settle()


def _kill_postgresql(trial: Trial) -> None:
    trial.field.postgresql.kill()
    trial.report.count("kills of PostgreSQL")
    time.sleep(trial.chance.uniform(0, 0.5))
    trial.field.postgresql.start()


def _kill_s3(trial: Trial, away: float) -> None:
    with trial.load.kills.kill("s3"):
        trial.field.s3.kill()
    trial.report.count("kills of the object store")
    time.sleep(away)
    trial.field.s3.start()


KINDS: Final[dict[str, Callable[[Trial], None]]] = {
    "node-killed": node_killed,
    "node-added": node_added,
    "balancer-reloaded": balancer_reloaded,
    "postgresql-killed": postgresql_killed,
    "postgresql-away": postgresql_away,
    "postgresql-stopped": postgresql_stopped,
    "s3-killed": s3_killed,
    "s3-stopped": s3_stopped,
    "cut-off": cut_off,
    "handed-over": handed_over,
    "together": together,
}


@dataclass
class Scene:
    """What the proofs of one run share: the field and its clients, which the first proof makes."""

    options: dict[str, Any]
    field: Field | None = None
    load: Load | None = None

    def open(self, scale: Scale, seed: int) -> tuple[Field, Load]:
        """Return both; made now if they are not there."""
        if self.field is None or self.load is None:
            workers = {"workers": scale.pick(1, 2, 2)}
            self.field = Field(**{**workers, **self.options})
            self.load = Load(self.field, seed)
        return self.field, self.load


@dataclass(frozen=True)
class Proof:
    """The proof of one kind."""

    name: str
    act: Callable[[Trial], None]
    scene: Scene

    def prove(self, scale: Scale, seed: int) -> Report:
        """Do it under load, then look for what was acknowledged meanwhile."""
        report = Report(self.name, _HOLDS)
        if missing := what_is_missing():
            report.unshown.append(f"not installed: {', '.join(missing)}")
            return report
        field, load = self.scene.open(scale, seed)
        since = len(load.acknowledged.deposits)
        chance = random.Random(f"{seed} {self.name}")
        with load.running(report):
            load.until_settled()
            try:
                self.act(Trial(field, load, report, scale, chance))
            except (TimeoutError, RuntimeError) as error:
                report.violate(f"it did not go on: {error}")
        looking.look(report, field, load.acknowledged, since)
        return report


@dataclass(frozen=True)
class LastLook:
    """The proof that all that was acknowledged in the whole run is there."""

    name: str
    scene: Scene

    def prove(self, scale: Scale, seed: int) -> Report:
        """Look for all of it."""
        report = Report(self.name, "all that was acknowledged in this run is there, byte by byte")
        if missing := what_is_missing():
            report.unshown.append(f"not installed: {', '.join(missing)}")
            return report
        field, load = self.scene.open(scale, seed)
        looking.look(report, field, load.acknowledged, 0)
        report.count(
            "labels", sum(bool(name) for made in load.acknowledged.deposits for name in (made.rep, made.ibip))
        )
        return report


@contextmanager
def proofs_of_all(**options: Any) -> Iterator[dict[str, Proof | LastLook]]:
    """All proofs by name; `options` of the field, which the first one makes, and which ends with the block."""
    scene = Scene(options)
    proofs: dict[str, Proof | LastLook] = {name: Proof(name, act, scene) for name, act in KINDS.items()}
    try:
        yield proofs | {"last-look": LastLook("last-look", scene)}
    finally:
        if scene.field is not None:
            scene.field.close()
