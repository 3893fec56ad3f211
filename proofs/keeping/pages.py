"""P-D6, the catalogue: pages full of zeros, and a write-ahead log that was cut off.

Whatever is damaged, every command ends with a sentence and never with a traceback; the server does not start, or it
goes on answering and gives no wrong bytes. What `ibi archive check` does not see has changed nothing. After
`ibi archive rebuild` all that has files is as it was, with its history, and check finds nothing.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from itertools import count
from pathlib import Path

from proofs.common.report import Report, Scale
from proofs.keeping.archives import Trial, command, differences, fill, make, served

NAME = "P-D6 catalogue"
HOLDS = "a sentence, never a traceback; no wrong bytes; rebuilt, all that has files is as it was"

_PAGE = 4096
_CATALOGUE = "catalogue.sqlite"


def prove(scale: Scale, seed: int) -> Report:
    """Zero pages, then cut logs."""
    report, chance = Report(NAME, HOLDS), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="proof-pages-") as folder:
        trial = make(Path(folder) / "data")
        with trial.directory.item_store() as item_store:
            fill(trial, item_store, chance, count(1), 60)
        whole, before = (trial.data / _CATALOGUE).read_bytes(), trial.known_items()
        pages = len(whole) // _PAGE
        report.count("pages in all", pages)
        chosen = [0, *(chance.randrange(1, pages) for _ in range(scale.pick(6, 30, 100) - 1))]
        for number, page in enumerate(chosen):
            zeroed = whole[: page * _PAGE] + bytes(_PAGE) + whole[(page + 1) * _PAGE :]
            _replace(trial.data, zeroed)
            report.count("pages zeroed")
            _try(report, trial, f"page {page}", before, serve=number < scale.pick(2, 10, 100))
    for _ in range(scale.pick(2, 10, 30)):
        _cut_log(report, chance)
    return report


def _try(report: Report, trial: Trial, name: str, before: list[dict[str, object]], *, serve: bool) -> None:
    """What users would do with a damaged Archive."""
    seen: list[str] = []
    for words in (("check",), ("list",), ("audit",), ("show", min(trial.contents)[0])):
        try:
            _, out, err = command("archive", *words, "--data", trial.data)
            report.demand("Traceback" not in out + err, f"{name}: {words[0]}: a traceback")
            seen += out.splitlines() if words == ("check",) else []
            report.count("commands")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, a user would have seen a traceback
            report.violate(f"{name}: {words[0]}: {type(error).__name__}: {error}")
    reported = seen != ["0 differences"]
    report.count("told by check", reported)
    if serve:
        _serve(report, trial, name)
    if not reported:
        report.demand(trial.known_items() == before, f"{name}: check sees nothing, and items have changed")
        return
    status, out, err = command("archive", "rebuild", "--data", trial.data)
    report.demand(status == 0, f"{name}: not rebuilt: {out} {err}")
    report.demand(trial.known_items() == before, f"{name}: rebuilt, and not as it was")
    after = differences(trial)
    report.demand(not after, f"{name}: rebuilt, and check says: {after[:2]}")
    report.count("rebuilt")
    shutil.rmtree(trial.data / "lost+found", ignore_errors=True)


def _serve(report: Report, trial: Trial, name: str) -> None:
    with served(trial) as server:
        if server.ready:
            for key in sorted(trial.contents)[:: max(1, len(trial.contents) // 20)]:
                status, body = server.get(f"/col/{key[0]}/doc/{key[1]}")
                report.demand(status != 500, f"{name}: status 500 for {key}")
                wrong = status == 200 and body != trial.contents[key]
                report.demand(not wrong, f"{name}: wrong bytes of {key}")
            report.demand(server.running, f"{name}: the server has fallen over")
            report.count("served anyway")
        status = server.stop()
        report.demand("Traceback" not in server.errors, f"{name}: serve: {server.errors[-300:]}")
        if not server.ready:
            lines = server.errors.strip().splitlines()
            report.demand(status == 1 and len(lines) == 1, f"{name}: serve ends with {status}: {lines[-2:]}")
            report.count("not served, with a sentence")


def _cut_log(report: Report, chance: random.Random) -> None:
    """The log is cut off at any byte, as after a power cut under a disk that lies, or bytes in it turn."""
    with tempfile.TemporaryDirectory(prefix="proof-log-") as folder:
        trial = make(Path(folder) / "data")
        names = count(1)
        with trial.directory.item_store() as item_store:
            fill(trial, item_store, chance, names, 3)
            with trial.directory.item_store() as other:  # while it is open, the log stays
                fill(trial, other, chance, names, chance.randint(1, 5))
            before = trial.known_items()
            log = (trial.data / f"{_CATALOGUE}-wal").read_bytes()
            base = (trial.data / _CATALOGUE).read_bytes()
        report.demand(log, "there is no log to be cut")
        _replace(trial.data, base)
        kept = log[: chance.randrange(len(log))]
        if kept and chance.random() < 0.5:
            at = chance.randrange(len(kept))
            kept = kept[:at] + bytes([kept[at] ^ 1]) + log[at + 1 :]
        (trial.data / f"{_CATALOGUE}-wal").write_bytes(kept)
        report.count("logs cut")
        _try(report, trial, f"log of {len(kept)} of {len(log)}", before, serve=False)


def _replace(data: Path, content: bytes) -> None:
    for part in ("", "-wal", "-shm"):
        (data / f"{_CATALOGUE}{part}").unlink(missing_ok=True)
    (data / _CATALOGUE).write_bytes(content)
