"""Several nodes behind a balancer lose nothing, whatever is killed: the short form, and that the proof can fail."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path

import pytest

from proofs.common.report import Report, Scale
from proofs.nodes import balancer
from proofs.nodes.field import what_is_missing
from proofs.nodes.trials import proofs_of_all

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
