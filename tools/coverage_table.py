"""Write docs/standard/coverage.md: every requirement, in our words, and the tests that prove it.

    python tools/coverage_table.py            writes it
    python tools/coverage_table.py --check    says whether it is current (status 1 if not)
    python tools/coverage_table.py --missing  lists the requirements of today that no test proves, and those of which
                                              no test was seen to fail

The statements stand in docs/standard/requirements.tsv; the proofs are the `pytest.mark.proves(...)` markers found in
the syntax trees of the tests, so that nothing is run.
"""

from __future__ import annotations

import ast
import csv
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mutation.violations import Violation, violations

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "docs/standard/requirements.tsv"
TABLE = ROOT / "docs/standard/coverage.md"
SHOWN = 4  # tests named for one requirement; the rest are counted

GROUPS = {
    "GEN": "Generation of names",
    "ARC": "What Archives hold",
    "MSG": "Messages",
    "REG": "Registration, inclusion, exclusion",
    "URL": "Persistent URLs",
    "RES": "Resolution",
    "SVC": "The Archive service",
    "CON": "What a minimal part must do",
    "WILD": "Identifiers in the wild",
    "AMB": "Ambiguities, and how each was settled",
}
NO_MUTANT = "-"


@dataclass(frozen=True)
class Requirement:
    """One row: `later` names the work it belongs to, "" for what must be proved today."""

    number: str
    clause: str
    statement: str
    later: str


@dataclass(frozen=True, order=True)
class Proof:
    """A test, or a whole module of tests when `test` is ""."""

    path: str
    test: str


def requirements() -> list[Requirement]:
    """All rows of the source, in its order."""
    with SOURCE.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Requirement(r["number"], r["clause"], r["statement"], r["later"] or "") for r in rows]


def _numbers(node: ast.AST) -> list[str]:
    """The numbers of every `...proves("A", "B")` call below a node."""
    return [
        str(argument.value)
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "proves"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    ]


def _in_module(tree: ast.Module) -> list[tuple[str, str]]:
    """(Number, test) pairs of one module; the test is "" for what the whole module proves."""
    found: list[tuple[str, str]] = []
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            inner = [
                child for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            shared = [number for decorator in node.decorator_list for number in _numbers(decorator)]
            found += [
                (n, t.name) for t in inner for n in [*_numbers(t), *shared] if t.name.startswith("test")
            ]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [(number, node.name) for number in _numbers(node)]
        else:
            found += [(number, "") for number in _numbers(node)]
    return found


@cache
def proofs() -> dict[str, list[Proof]]:
    """Requirement number -> the tests that claim to prove it, those first that claim the fewest others."""
    found: dict[str, set[Proof]] = {}
    for folder in ("tests", "conformance"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.parent.name == "style":
                continue  # these tests name markers, and have none of their own
            text = path.read_text(encoding="utf-8")
            for number, test in _in_module(ast.parse(text)) if ".proves(" in text else ():
                found.setdefault(number, set()).add(Proof(path.relative_to(ROOT).as_posix(), test))
    claims = Counter(test for tests in found.values() for test in tests)
    return {number: sorted(tests, key=lambda test: (claims[test], test)) for number, tests in found.items()}


def missing() -> list[Requirement]:
    """What must be proved today and is not."""
    proved = proofs()
    return [r for r in requirements() if not r.later and r.number not in proved]


def unknown() -> list[str]:
    """Numbers that tests claim to prove and that do not exist."""
    return sorted(proofs().keys() - {r.number for r in requirements()})


@cache
def mutants() -> dict[str, list[Violation]]:
    """Requirement number -> the changes of the source that violate it, and that a marked test was seen to notice."""
    found: dict[str, list[Violation]] = {}
    for violation in violations():
        found.setdefault(violation.requirement, []).append(violation)
    return found


def without_mutant() -> list[Requirement]:
    """What must be proved today, and of which no test was seen to fail."""
    return [r for r in requirements() if not r.later and r.number not in mutants()]


def _seen_to_fail(number: str) -> str:
    """The files of which a change was noticed, each with the test that notices it."""
    shown = [
        f"`{violation.file.removeprefix('src/ibi/')}`: "
        f"[{violation.test.rpartition('::')[2].removeprefix('test_').replace('_', ' ')}]"
        f"(../../{violation.test.partition('::')[0]})"
        for violation in mutants().get(number, [])
    ]
    return "; ".join(shown) or NO_MUTANT


def _proved_by(requirement: Requirement, tests: list[Proof]) -> str:
    shown = [
        f"[{proof.test.removeprefix('test_').replace('_', ' ') or Path(proof.path).stem}](../../{proof.path})"
        for proof in tests[:SHOWN]
    ]
    if len(tests) > SHOWN:
        shown.append(f"and {len(tests) - SHOWN} more")
    if requirement.later:
        shown.append(f"*later: {requirement.later}*")
    return "; ".join(shown) or "**nothing yet**"


def page() -> str:
    """The whole page as it should stand."""
    proved = proofs()
    rows = requirements()
    lines = [
        "# Coverage: every requirement and what proves it",
        "",
        "Made by `make docs` from [requirements.tsv](requirements.tsv) and the `proves` markers of the tests.",
        "G15 is the generation standard of 2015, R15 the resolution standard of 2015; G11, D10 and D09 came before",
        'them; "ours" marks what no document decides. *Later* names the work a requirement belongs to.',
        "The last column names files of which a change that violates the requirement was seen to be noticed, and the",
        "test that notices it; [violations.toml](../../tests/violations.toml) has the changes, and `make violations`",
        "tries them.",
    ]
    for prefix, title in GROUPS.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| number | clause | what must hold | proved by | seen to fail by a change of |",
            "|---|---|---|---|---|",
        ]
        for row in rows:
            if row.number.partition("-")[0] == prefix:
                statement = row.statement.replace("|", "\\|")
                shown = _proved_by(row, proved.get(row.number, []))
                failing = _seen_to_fail(row.number)
                lines.append(f"| {row.number} | {row.clause} | {statement} | {shown} | {failing} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Do what the one argument says; exit status."""
    if arguments == ["--missing"]:
        for row in missing():
            print(f"{row.number}\t{row.statement}")
        for row in without_mutant():
            print(f"{row.number}\tno mutant in tests/violations.toml")
        return 0
    if arguments == ["--check"]:
        return 0 if TABLE.exists() and TABLE.read_text(encoding="utf-8") == page() else 1
    TABLE.write_text(page(), encoding="utf-8")
    print(f"{TABLE.relative_to(ROOT)}: {len(requirements())} requirements, {len(missing())} without a test")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
