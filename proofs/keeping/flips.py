"""P-D6, files: single bits turn in stored files, and an item.json; ends are cut off, and bytes come to ends.

Every audit must find just the files that were harmed. While the Archive is served, what an audit has found is not given
out as good, nor is a file whose size is wrong, audited or not; and all others are given as they were.
"""

from __future__ import annotations

import random
import tempfile
from itertools import count
from pathlib import Path

from ibi.archive.preservation.audit import Audit
from proofs.common.report import Report, Scale
from proofs.keeping.archives import Server, Trial, differences, fill, make, served

NAME = "P-D6 files"
HOLDS = "every harmed file is found by the audit, and no other one; none is served as good once size or audit knows"

_AT_ONCE = 50
_GOOD = 200


def prove(scale: Scale, seed: int) -> Report:
    """Turn bits, audit, ask the server, turn them back."""
    report, chance = Report(NAME, HOLDS), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="proof-flips-") as folder:
        trial = make(Path(folder) / "data")
        with trial.directory.item_store() as item_store:
            fill(trial, item_store, chance, count(1), 50)
        with served(trial) as server:
            report.demand(server.ready, "the Archive is not served")
            for _ in range(scale.pick(100, 300, 1000) // _AT_ONCE):
                _bits(report, trial, server, chance)
            _sizes(report, trial, server, chance)
        for _ in range(scale.pick(5, 20, 100)):
            _sidecar(report, trial, chance)
    return report


def _bits(report: Report, trial: Trial, server: Server, chance: random.Random) -> None:
    harmed = chance.sample(sorted(trial.contents), _AT_ONCE)
    places = {key: chance.randrange(8 * len(trial.contents[key])) for key in harmed}
    for key, bit in places.items():
        _flip(trial.path(key), bit)
    report.count("flips", len(harmed))
    found = _audit(trial)
    report.count("found", len(found & places.keys()))
    report.demand(
        found == places.keys(),
        f"harmed {len(places)}, found {len(found & places.keys())} and {len(found - places.keys())} others",
    )
    for key in harmed:
        _demand_answer(report, trial, server, key, good=False)
    for key in chance.sample(sorted(trial.contents.keys() - places.keys()), 5):
        _demand_answer(report, trial, server, key, good=True)
    for key, bit in places.items():
        _flip(trial.path(key), bit)
    report.demand(_audit(trial) == set(), "files that are good again are still called damaged")
    for key in harmed[:5]:
        _demand_answer(report, trial, server, key, good=True)


def _sizes(report: Report, trial: Trial, server: Server, chance: random.Random) -> None:
    """Files that became longer or shorter: known without any audit."""
    for key in chance.sample(sorted(trial.contents), 20):
        content, path = trial.contents[key], trial.path(key)
        path.write_bytes(content[:-1] if chance.random() < 0.5 else content + b"x")
        _demand_answer(report, trial, server, key, good=False)
        report.demand(
            any(key[0] in difference for difference in differences(trial)),
            f"check does not see the size of {key}",
        )
        path.write_bytes(content)
        _demand_answer(report, trial, server, key, good=True)
        report.count("other sizes")


def _sidecar(report: Report, trial: Trial, chance: random.Random) -> None:
    """A bit of an item.json: check sees it, and it is written anew as it was."""
    item = chance.choice(sorted(trial.contents))[0]
    path = trial.data / "col" / item / "item.json"
    text = path.read_bytes()
    _flip(path, chance.randrange(8 * len(text)))
    report.count("flips in item.json")
    report.demand(len(differences(trial)) == 1, f"check does not see the damage in {item}/item.json")
    path.write_bytes(text)
    report.demand(not differences(trial), f"{item}/item.json is good again, and still told of")


def _demand_answer(report: Report, trial: Trial, server: Server, key: tuple[str, str], *, good: bool) -> None:
    status, body = server.get(f"/col/{key[0]}/doc/{key[1]}")
    report.count("asked for")
    if good:
        report.demand(
            (status, body) == (_GOOD, trial.contents[key]), f"{key} is good, and answered with {status}"
        )
    else:
        report.demand(status == 503, f"{key} is damaged, and answered with {status}")  # it cannot be had now


def _audit(trial: Trial) -> set[tuple[str, str]]:
    with trial.directory.catalogue() as catalogue:
        audit = Audit(catalogue, trial.directory.file_store(), trial.directory.now)
        return {(str(each.listed.forms.main), each.listed.file.name) for each in audit.all() if each.fault}


def _flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)
