"""Change the source at random, one place at a time, and see whether a test notices: `make mutants`.

    python tools/mutants.py collect [TEST ...]    run the tests once, and keep which lines each of them reaches
    python tools/mutants.py run [AREA ...]        try mutants of these areas, or of all
    python tools/mutants.py quick                 try mutants of the lines that the working change touches
    python tools/mutants.py survey FILE ...       try all mutants of files or folders below src/ibi, fast: a first look
    python tools/mutants.py violations [NUMBER ...]    violate these requirements, or all, as tests/violations.toml says
    python tools/mutants.py table FILE ...        rows for docs/reference/how-it-is-tested.md, of results

A survey tries mutants in the process of the tests, with near and fast tests: `mutation.survey` says what it leaves out.
Results are JSON lines in `build/mutants/results`: see `mutation.trial.Tried`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from mutation.collection import KEPT, collect, kept
from mutation.operators import mutant, points
from mutation.reach import Reach
from mutation.sample import AREAS, Place, drawn, files_of, touched
from mutation.survey import Plan, Planned, near_tests, planned, surveyed
from mutation.tree import LEFT_OUT, ROOT, Tree, copied, git
from mutation.trial import Trials, Tried, tried
from mutation.violations import attempt, violations

SECONDS: Final = 300.0
"""How long the tests of one mutant may take."""
FORK_SECONDS: Final = 10.0
"""How long they may take in a fork, where each mutant is tried first; most are noticed there, within a second."""
UNNOTICED: Final = ("survived", "unreached", "unsure")
"""What a survey shows."""
NOT_COLLECTED: Final = "which tests reach which lines is not known yet: run `make mutants-collect` first"


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; exit status: 0, or 1 where a mutant survived, or 2 where nothing could be tried."""
    args = _parser().parse_args(arguments)
    if args.command == "table":
        print("\n".join(table(_read(args.files))))
        return 0
    if args.command == "collect":
        return _collect(args.tests, args.workers)
    if args.command == "violations":
        return _violations(args.numbers)
    if not (KEPT / "coverage").exists():
        print(f"mutants: {NOT_COLLECTED}", file=sys.stderr)
        return 2
    try:
        return {"quick": _quick, "run": _run, "survey": _survey}[args.command](args)
    except (RuntimeError, ValueError) as problem:
        print(f"mutants: {problem}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mutants.py", description="Change the source, and see whether a test notices."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("tests", nargs="*", default=["tests", "conformance"])
    collecting.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    running, quick = commands.add_parser("run"), commands.add_parser("quick")
    running.add_argument("areas", nargs="*", default=list(AREAS), metavar="AREA")
    running.add_argument("--after", nargs="+", type=Path, default=[], help="results of a run that was ended")
    for each, number in ((running, 50), (quick, 20)):
        each.add_argument("--number", type=int, default=number, help="how many mutants (of each area)")
        each.add_argument("--seed", type=int, default=1)
        each.add_argument("--seconds", type=float, default=SECONDS, help="how long the tests of one may take")
    survey = commands.add_parser("survey")
    survey.add_argument("files", nargs="+", metavar="FILE", help="a file or a folder, named as below src/ibi")
    survey.add_argument(
        "--seconds", type=float, default=FORK_SECONDS, help="how long the tests of one may take"
    )
    survey.add_argument("--unit", action="store_true", help="only tests of tests/unit")
    survey.add_argument("--sample", type=int, metavar="N", help="only N of the mutants, at random")
    survey.add_argument("--seed", type=int, default=1)
    survey.add_argument("--results", type=Path, default=KEPT / "results", metavar="FOLDER")
    commands.add_parser("violations").add_argument("numbers", nargs="*", metavar="NUMBER")
    commands.add_parser("table").add_argument("files", nargs="+", type=Path)
    return parser


def _collect(tests: Sequence[str], workers: int) -> int:
    run = collect(tests, workers)
    print(run.output.rstrip().rpartition("\n")[2])
    # A test that fails under coverage is left out; nothing else is lost.
    return 0 if run.status in {0, 1} else 2


def _violations(numbers: Sequence[str]) -> int:
    chosen = [violation for violation in violations() if violation.requirement in numbers or not numbers]
    unknown = sorted(set(numbers) - {violation.requirement for violation in chosen})
    if unknown:
        print(f"mutants: tests/violations.toml has no mutant of {', '.join(unknown)}", file=sys.stderr)
        return 2
    ended, sound = Counter[str](), set[str]()
    with copied() as tree:
        for number, violation in enumerate(chosen, 1):
            outcome = attempt(tree, violation, sound)
            ended[outcome] += 1
            print(
                f"{number}/{len(chosen)} {violation.requirement} {outcome}: {violation.file}, {violation.test}",
                flush=True,
            )
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(ended.items())))
    return 0 if ended.keys() <= {"killed"} else 1


def _sources() -> dict[str, str]:
    """File (named as below `src`) -> its text."""
    source = ROOT / "src"
    return {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(source.rglob("*.py"))
    }


def _run(args: argparse.Namespace) -> int:
    """Try mutants of each area. Raises ValueError where an area has no source."""
    sources, chosen = _sources(), list[tuple[str, Place]]()
    for area in args.areas:
        drawn_here = drawn(_of_area(area, sources), args.number, args.seed)
        chosen += [(area, place) for place in drawn_here]
    done = {(one.file, one.line, one.kind, one.after) for one in _read(args.after)}
    return _try_all([each for each in chosen if _identity(each[1], sources) not in done], args)


def _of_area(area: str, sources: Mapping[str, str]) -> dict[str, str]:
    """The sources of an area. Raises ValueError where there are none."""
    files = files_of(area, sources)
    if not files:
        raise ValueError(f"no source of ours is in {area!r}; areas are {', '.join(AREAS)}")
    return {file: sources[file] for file in files}


def _identity(place: Place, sources: Mapping[str, str]) -> tuple[str, int, str, str]:
    file, point = place
    return file, point.line, point.kind, mutant(sources[file], point.index).after


def _quick(args: argparse.Namespace) -> int:
    base = _base()
    lines = touched(git("diff", "-U0", base, "--", "src"))
    sources = _sources()
    for file in git("ls-files", "--others", "--exclude-standard", "--", "src").split("\n"):
        name = file.removeprefix("src/")
        if name in sources:
            lines[name] = set(range(1, sources[name].count("\n") + 2))
    changed = {file: sources[file] for file in lines if file in sources}
    places = drawn(changed, args.number, args.seed, lines)
    if not places:
        print(f"mutants: nothing in src differs from {base[:12]} where a mutant could be made")
        return 0
    new = git("diff", "--name-only", "--diff-filter=d", base, "--", "tests", "conformance").split("\n")
    new += git("ls-files", "--others", "--exclude-standard", "--", "tests").split("\n")
    tests = [file for file in new if _is_test(file)]
    return _try_all([("change", place) for place in places], args, tests)


def _is_test(file: str) -> bool:
    return Path(file).name.startswith("test_") and file.endswith(".py") and not file.startswith(LEFT_OUT)


def _base() -> str:
    """The commit where the working change begins: where it left main, as the origin has it if there is one."""
    for main_line in ("origin/main", "main"):
        try:
            return git("merge-base", "HEAD", main_line).strip()
        except subprocess.CalledProcessError:
            continue
    raise ValueError("there is no branch main from which a change could differ")


def _try_all(chosen: Sequence[tuple[str, Place]], args: argparse.Namespace, tests: Sequence[str] = ()) -> int:
    """Try mutants, each told and written down at once: all in forks, then alone what no test noticed there."""
    results, sources, reach = _new_results(KEPT / "results", args), _sources(), kept()
    names, mutants = planned(chosen, sources, reach, FORK_SECONDS, unit=False)
    ended, left = list[Tried](), list[tuple[str, Place]]()
    with copied() as tree, results.open("w", encoding="utf-8") as written:
        plan = _plan(tree, args, names, mutants, reach, FORK_SECONDS, unit=False)

        def end(one: Tried) -> None:
            ended.append(one)
            print(f"{len(ended)}/{len(chosen)} {report(one)}", flush=True)
            _write(one, written)

        for each, one in zip(chosen, surveyed(tree, plan, []), strict=True):
            if one.outcome == "killed":
                end(one)
            else:
                left.append(each)
        trials = Trials(tree, reach, args.seconds, tests)
        for area, place in left:
            end(tried(trials, place, date=plan.date, commit=plan.commit, seed=args.seed, area=area))
    print("\n".join(table(ended)))
    print(f"{sum(one.seconds for one in ended) / len(ended):.0f} s each; {results.relative_to(ROOT)}")
    return 0 if all(one.outcome == "killed" for one in ended) else 1


def _plan(
    tree: Tree,
    args: argparse.Namespace,
    names: Sequence[str],
    mutants: Sequence[Planned],
    reach: Reach,
    seconds: float,
    *,
    unit: bool,
) -> Plan:
    """What is to be tried in forks; `seconds`: how long the tests of one mutant may take."""
    tests = [path.relative_to(tree.root).as_posix() for path in sorted(tree.root.rglob("test_*.py"))]
    return Plan(
        f"{datetime.now(UTC):%Y-%m-%d}", git("rev-parse", "--short=12", "HEAD").strip(), args.seed,
        names, mutants, {each.test: each.seconds for each in reach.ended},
        near_tests({each.file for each in mutants}, tests, unit=unit), seconds,
    )  # fmt: skip


def _new_results(folder: Path, args: argparse.Namespace) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}-{args.command}-{args.seed}.jsonl"


def _write(one: Tried, results: TextIO) -> None:
    results.write(json.dumps(dataclasses.asdict(one), ensure_ascii=False) + "\n")
    results.flush()


def _survey(args: argparse.Namespace) -> int:
    """Try mutants in forks of one run of tests. Raises ValueError where a file or folder is not there."""
    sources, reach = _sources(), kept()
    areas = {file: name for name in args.files for file in _of_area(name, sources)}
    chosen = [(areas[place[0]], place) for place in _places({file: sources[file] for file in areas}, args)]
    names, mutants = planned(chosen, sources, reach, args.seconds, unit=args.unit)
    ended, left_out, results = list[Tried](), list[str](), _new_results(args.results, args)
    with copied() as tree, results.open("w", encoding="utf-8") as written:
        plan = _plan(tree, args, names, mutants, reach, args.seconds, unit=args.unit)
        for one in surveyed(tree, plan, left_out):
            _write(one, written)
            ended.append(one)
            if one.outcome in UNNOTICED:
                print(report(one), flush=True)
    print("\n".join(summary(ended, left_out)))
    print(f"{sum(one.seconds for one in ended) / max(len(ended), 1):.1f} s each; {results}")
    return 1 if any(one.outcome in UNNOTICED for one in ended) else 0


def _places(sources: Mapping[str, str], args: argparse.Namespace) -> list[Place]:
    if args.sample:
        return drawn(sources, args.sample, args.seed)
    return [(file, point) for file, text in sorted(sources.items()) for point in points(text)]


def report(one: Tried) -> str:
    """One mutant for people: a line if it was killed, otherwise also what was changed."""
    head = f"{one.outcome} ({one.tests} tests, {one.seconds} s) {one.file}:{one.line} {one.kind}"
    if one.outcome == "killed":
        return f"{head}: {one.by or 'not imported any more'}"
    return f"{head}\n    - {one.before}\n    + {one.after}\n    {one.by}".rstrip()


def summary(ended: Sequence[Tried], left_out: Iterable[str]) -> Iterator[str]:
    """What a survey has found, in numbers, and the tests that it left out."""
    count = Counter(one.outcome for one in ended)
    untried = Counter(one.by for one in ended if one.outcome == "untried")
    yield (
        f"{len(ended)} mutants: {count['killed']} noticed, {sum(count[each] for each in UNNOTICED)} not noticed "
        f"({', '.join(f'{count[each]} {each}' for each in UNNOTICED)}), {count['untried']} not tried here"
    )
    yield from (f"    not tried here: {number} {reason}" for reason, number in sorted(untried.items()))
    yield from (f"    left out, as it does not pass without a mutant: {test}" for test in left_out)


def table(results: Iterable[Tried]) -> Iterator[str]:
    """Rows of Markdown: date, commit, seed, area, mutants, killed, survived, and equivalent ones with their reasons."""
    yield "| date | commit | seed | area | mutants | killed | survived | equivalent |"
    yield "|---|---|---|---|---:|---:|---:|---|"
    runs: dict[tuple[str, str, int, str], list[Tried]] = {}
    for one in results:
        runs.setdefault((one.date, one.commit, one.seed, one.area), []).append(one)
    for (date, commit, seed, area), ended in runs.items():
        count = Counter("equivalent" if one.equivalent else one.outcome for one in ended)
        reasons = [f"`{one.file}:{one.line}`: {one.equivalent}" for one in ended if one.equivalent]
        alive = ", ".join(
            f"{count[outcome]} {outcome}"
            for outcome in ("unreached", "unfinished", "unsure", "untried")
            if count[outcome]
        )
        yield " | ".join(
            (
                f"| {date}", commit, str(seed), area.replace("+", ", "), str(len(ended)), str(count["killed"]),
                f"{count['survived']}{', ' if alive else ''}{alive}",
                f"{count['equivalent']}{': ' if reasons else ''}{'; '.join(reasons)} |",
            )
        )  # fmt: skip


def _read(files: Iterable[Path]) -> Iterator[Tried]:
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            yield Tried(**json.loads(line))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
