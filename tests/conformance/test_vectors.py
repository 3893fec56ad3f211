"""The account of the test vectors: how many there are, and that each is run exactly once."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from support.oracles.vectors import FOLDER, groups, load

HERE = Path(__file__).parent
FIELDS = ["id", "group", "kind", "source", "oracle", "agrees", "note", "input", "expected"]
DISAGREE = {
    "repo-02",
    "repo-03",
    "repo-09",
    "pl-24",
    "esc-09",
    "esc-10",
    "msg-05",
    "msg-05b",
    "msg-07",
    "msg-07b",
}
COUNTS = {  # group: (document, derived), as the requirements list them
    "codec.to_decimal": (3, 1), "codec.from_decimal": (6, 4), "ibip.prefix": (1, 4), "ibip.suffix": (2, 8),
    "ibip.full": (1, 0), "ibip.decode": (0, 11), "twin.same_date": (8, 0), "repo.suffix": (2, 4),
    "repo.prefix": (3, 5), "equivalence": (2, 1), "grammar.repository": (20, 15), "grammar.ibip": (0, 17),
    "distributor.2015": (1, 8), "distributor.2010": (1, 0), "pairlist": (24, 3), "escape": (10, 0), "key": (7, 5),
    "decodqs": (1, 3), "join": (1, 2), "relation": (13, 8), "modifier": (14, 14), "verblist": (6, 8),
    "url.parse": (24, 13), "message": (10, 0), "message.build": (10, 0), "filter": (1, 6), "language": (0, 7),
    "storage": (0, 5), "resolve": (2, 14), "service.constant": (3, 0), "service.call": (8, 0),
    "url.variant": (0, 6), "registration.status": (5, 0),
}  # fmt: skip

VECTORS = [vector for group in groups() for vector in load(group)]


def groups_run_by(path: Path) -> list[str]:
    """The groups that the tests of a module run: the arguments of its `@runs(...)` decorators."""
    decorators = [
        decorator
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef) and function.name.startswith("test_")
        for decorator in function.decorator_list
    ]
    calls = [call for call in decorators if isinstance(call, ast.Call) and ast.unparse(call.func) == "runs"]
    return [ast.literal_eval(argument) for call in calls for argument in call.args]


@pytest.mark.proves("GEN-74")
def test_there_are_361_vectors_and_no_two_share_an_id() -> None:
    assert len(VECTORS) == len({vector.id for vector in VECTORS}) == 361
    assert dict.fromkeys(groups(), (0, 0)).keys() == COUNTS.keys()


@pytest.mark.proves("GEN-74")
def test_every_group_is_run_by_exactly_one_test() -> None:
    files = [*HERE.glob("test_vectors_*.py"), HERE / "test_registration_over_sockets.py"]
    run = Counter(group for path in files for group in groups_run_by(path))
    assert run == dict.fromkeys(COUNTS, 1)


@pytest.mark.parametrize("group", sorted(COUNTS))
def test_the_groups_hold_what_the_requirements_count(group: str) -> None:
    kinds = Counter(vector.kind for vector in load(group))
    assert (kinds["document"], kinds["derived"]) == COUNTS[group]
    assert all(vector.group == group for vector in load(group))


def test_the_oracles_and_the_disagreements_are_as_counted() -> None:
    assert Counter(vector.oracle for vector in VECTORS) == {
        "printed": 72,
        "reading": 86,
        "model": 195,
        "none": 8,
    }
    assert {vector.id for vector in VECTORS if not vector.agrees} == DISAGREE
    assert all(vector.note for vector in VECTORS if not vector.agrees)


def test_other_languages_can_read_the_files() -> None:
    """One JSON object a line, the same fields in the same order, ASCII only."""
    for path in FOLDER.glob("*"):
        assert path.suffix == ".jsonl"
        for line in path.read_text(encoding="ascii").splitlines():
            assert list(json.loads(line)) == FIELDS


def test_mail_addresses_are_neutral() -> None:
    """What looks like a mail address is either the neutral one or a file name that starts with an @."""
    texts = "\n".join(path.read_text(encoding="ascii") for path in FOLDER.glob("*.jsonl"))
    assert set(re.findall(r"[\w.]*@[A-Za-z][\w.]*", texts)) == {"admin@archive.example", "@relatorio.pdf"}
