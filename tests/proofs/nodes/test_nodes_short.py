"""Several nodes behind a balancer lose nothing, whatever is killed: the short form, and that the proof can fail."""

from __future__ import annotations

import random
import textwrap
import time
from pathlib import Path

import pytest

from proofs.common.report import Report, Scale
from proofs.nodes import balancer
from proofs.nodes.asking import Reply
from proofs.nodes.field import what_is_missing
from proofs.nodes.trials import proofs_of_all
from proofs.nodes.truth import Acknowledged, Deposited, Kills, Links, place

SEED = random.randrange(10**6)  # another one in each run; a failure shows it

# An Archive node that acknowledges deposits, and does not put half of their files where they belong.
_FORGETFUL = """
    import sys
    from ibi.archive.store.s3_client import S3Client
    from ibi.cli import main
    copy = S3Client.copy
    def forget(self, source, target, *more, **named):
        copy(self, source, target, *more, **named)
        if target.startswith("col/") and int(target[-1], 16) % 2:  # it ends in a digit of a digest
            self.delete([target])
    S3Client.copy = forget
    sys.exit(main())
    """

# The others are in these: PostgreSQL is away in the test of the faults, and the kills come together.
_TRIED = (
    "node-added",
    "balancer-reloaded",
    "postgresql-stopped",
    "s3-killed",
    "s3-stopped",
    "cut-off",
    "together",
)

if missing := what_is_missing():
    pytest.skip(f"not installed: {', '.join(missing)}", allow_module_level=True)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nodes_lose_nothing_whatever_is_killed_or_stands_still() -> None:
    with proofs_of_all() as proofs:
        reports: list[Report] = [proofs[name].prove(Scale.SHORT, SEED) for name in (*_TRIED, "last-look")]
    assert [sentence for report in reports for sentence in report.broken] == [], f"seed {SEED}"
    total = sum((report.counts for report in reports), start=type(reports[0].counts)())
    for what in (
        "kills of nodes",
        "kills of PostgreSQL",
        "kills of the object store",
        "nodes added",
        "reloads",
    ):
        assert total[what] > 0, what
    assert min(total[what] for what in ("clicks", "messages", "files", "deposits", "labels")) > 0


@pytest.mark.long
@pytest.mark.timeout(300)
def test_acknowledged_files_that_are_lost_and_refusals_without_a_time_are_found_out(tmp_path: Path) -> None:
    program = tmp_path / "forgetful.py"
    program.write_text(textwrap.dedent(_FORGETFUL))
    sample = balancer.SAMPLE.read_text()
    assert " hdr Retry-After 2" in sample
    sample = sample.replace(" hdr Retry-After 2", "")
    with proofs_of_all(archives=1, resolvers=1, archive_program=[str(program)], sample=sample) as proofs:
        report = proofs["postgresql-away"].prove(Scale.SHORT, SEED)
    found = " ".join(report.broken)
    assert "was answered 503" in found
    assert "an acknowledged deposit is lost" in found


# ---- the judges by themselves


def reply(begun: float, ended: float, status: int = 0, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, begun, ended, b"", named)


def test_readers_may_be_led_to_what_was_so_while_they_asked_and_to_nothing_older() -> None:
    links = Links(1)
    assert links.allowed(0, reply(1, 2)) == [place(0, 0)]
    links.begin(0, 3)
    assert links.allowed(0, reply(1, 2)) == [place(0, 0)]
    assert links.allowed(0, reply(2, 4)) == [place(0, 0), place(0, 1)]
    links.acknowledge(0, 5)
    assert links.allowed(0, reply(4, 6)) == [place(0, 0), place(0, 1)]
    assert links.allowed(0, reply(6, 7)) == [place(0, 1)]
    assert links.allowed(0, reply(6, 7), age=2) == [place(0, 0), place(0, 1)]
    links.begin(0, 8)
    assert links.allowed(0, reply(9, 10)) == [place(0, 1), place(0, 2)]


def test_a_label_that_comes_twice_is_found_out() -> None:
    acknowledged = Acknowledged()
    assert acknowledged.write_down(Deposited("1", "a", "x")) is None
    assert acknowledged.write_down(Deposited("1", "a", "x")) is None
    assert acknowledged.write_down(Deposited("2", "b", "y")) is None
    assert acknowledged.write_down(Deposited("3", "c", "x")) == "1"


def test_only_a_kill_of_a_node_of_the_service_excuses_a_request_in_flight() -> None:
    kills = Kills()
    before = time.monotonic()
    with kills.kill("archive"):
        under_way = time.monotonic()
        assert kills.excuse(["archive"], reply(under_way, under_way)) == 0
    after = time.monotonic()
    assert kills.excuse(["archive"], reply(before - 2, after)) == 0
    assert kills.excuse(["archive"], reply(after + 1, after + 2)) is None
    assert kills.excuse(["archive"], reply(before - 2, before - 1)) is None
    assert kills.excuse(["resolver"], reply(before - 2, after)) is None


@pytest.mark.parametrize(
    ("answer", "refused", "failed"),
    [
        (reply(0, 1, 503, retry_after="2"), True, False),
        (reply(0, 1, 503), False, False),
        (reply(0, 1, 500, retry_after="2"), False, False),
        (reply(0, 1), False, True),
        (reply(0, 1, 502, content_type="text/html"), False, True),
        (reply(0, 1, 502, content_type="application/problem+json"), False, False),
    ],
)
def test_what_is_a_refusal_and_what_is_no_answer(answer: Reply, refused: bool, failed: bool) -> None:
    assert (answer.refused, answer.failed) == (refused, failed)
