"""A document that can become false is made by a command or held by a test."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import coverage_table
from mutation.violations import faults, violations
from support.style.layers import ROOT, modules
from support.style.words import nodes_of

SKIPPED = {".git", "__pycache__", "node_modules", "dist", "build"}


def _walk(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name in SKIPPED or entry.name.startswith(
            (".venv", ".pytest", ".mypy", ".ruff", ".hypothesis")
        ):
            continue
        if entry.is_dir():
            yield from _walk(entry)
        else:
            yield entry


FILES = list(_walk(ROOT))
PAGES = [path for path in FILES if path.suffix == ".md"]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _prose(path: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


GENERATED = {"docs/reference/limits.md", "docs/reference/routes.md", "docs/standard/coverage.md"}
_SENTENCE_END = re.compile(r"[a-z0-9)x][.?!]\)? +(?=[A-Z\[x(])")


def _crowded(line: str) -> bool:
    """Whether a second sentence begins on a line of prose; tables and code are no prose."""
    if line.startswith(("|", "    ", "#")):
        return False
    return bool(_SENTENCE_END.search(re.sub(r"`[^`]*`", "x", re.sub(r"^\s*(?:[-*+]|\d+\.)\s", "", line))))


def test_each_sentence_of_a_page_has_a_line_of_its_own() -> None:
    pages = [path for path in _walk(ROOT) if path.suffix == ".md" and _name(path) not in GENERATED]
    found = [
        f"{_name(path)}: {line}"
        for path in pages
        if not _name(path).startswith("bench/")
        for line in _prose(path).splitlines()
        if _crowded(line)
    ]
    assert found == [], "a change of one sentence should be a change of one line"


@pytest.mark.parametrize(
    ("line", "crowded"),
    [
        ("One sentence. Another one.", True),
        ("- It ends with `code`. `ibi` goes on.", True),
        ("1. `ibi up` starts it, e.g. here: one line.", False),
        ("| One. Two. | of a table |", False),
    ],
)
def test_a_second_sentence_on_a_line_is_seen(line: str, crowded: bool) -> None:
    assert _crowded(line) is crowded


# ---- the map

PATH_NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]*)+|[\w-]+\.(?:py|md|toml|sh|tsv|txt))`")


def test_architecture_names_only_paths_that_exist() -> None:
    named = PATH_NAMED.findall(_read("ARCHITECTURE.md"))
    assert named
    assert [
        name for name in named if not (ROOT / name).exists() and not (ROOT / "src/ibi" / name).exists()
    ] == []


OUR_PACKAGES = {name.split(".")[0] for name in modules()} - {"", "__main__"}
ONE_PAGE = 11_000  # bytes of ARCHITECTURE before the table "Where is what?"; decision 0029
LOOKED_UP = 14_000  # bytes of that table, which is looked up and not read
LONGEST_WAY = 10  # functions


def _exists(name: str) -> bool:
    """Whether `package.module.Class.function`, without the leading `ibi.`, is there."""
    parts = f"ibi.{name}".split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError as error:
            if not ".".join(parts[:end]).startswith(str(error.name)):
                raise  # something that the module itself imports is missing
            continue
        return all((found := getattr(found, part, None)) is not None for part in parts[end:])
    return False


def _names_of_ours(text: str) -> list[str]:
    named = re.findall(r"`([A-Za-z_]\w*(?:\.\w+)*)`", text)
    return [name for name in named if name.split(".")[0] in OUR_PACKAGES]


RECIPES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/reference").glob("recipes-*.md"))


def test_architecture_and_recipes_name_only_packages_and_functions_that_exist() -> None:
    pages = ["ARCHITECTURE.md", "CONTRIBUTING.md", *RECIPES]
    named = _names_of_ours("".join(map(_read, pages)))
    assert [name for name in named if not _exists(name)] == []
    assert set(named) >= OUR_PACKAGES


def _members_of_classes() -> dict[str, set[str]]:
    """Class of ours -> the names of its methods and attributes, those of all classes of this name together."""
    members: dict[str, set[str]] = {}
    for module in modules().values():
        for node in module.nodes:
            if not isinstance(node, ast.ClassDef):
                continue
            names = members.setdefault(node.name, set())
            for inner in nodes_of(node):
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    names.add(inner.name)
                elif isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
                    names.add(inner.id if isinstance(inner, ast.Name) else inner.attr)
    return members


def _missing_members(text: str, members: dict[str, set[str]]) -> list[str]:
    named = re.findall(r"`(?:[a-z]\w*\.)*([A-Z]\w+)\.(\w+)`", text)
    return [f"{owner}.{name}" for owner, name in named if name not in members.get(owner, {name})]


def test_documents_name_only_methods_that_exist() -> None:
    """Decisions keep the names of their day."""
    members = _members_of_classes()
    pages = [path for path in _walk(ROOT) if path.suffix == ".md" and "decisions" not in path.parts]
    assert [
        f"{_name(path)}: {name}" for path in pages for name in _missing_members(_read(_name(path)), members)
    ] == []
    assert _missing_members("`queries.Queries.send` and `Queries.no_such`", members) == ["Queries.no_such"]


def test_the_source_names_only_documents_that_exist() -> None:
    named = {
        (module.shown, name)
        for module in modules().values()
        for name in re.findall(r"docs/[\w/.-]+\.md", module.text)
    }
    assert len(named) > 10
    assert [f"{where}: {name}" for where, name in sorted(named) if not (ROOT / name).exists()] == []


def test_packages_name_only_entry_points_that_exist() -> None:
    """In the docstring of a package, relative to it, or to a module in it."""
    missing = []
    for module in modules().values():
        tail = (ast.get_docstring(module.tree) or "").partition("Entry points:")[2]
        names = re.findall(r"`([A-Za-z_]\w*(?:\.\w+)*)`", tail)
        missing += [
            f"{module.name}: {name}" for name in names if not _exists(f"{module.name}.{name}".lstrip("."))
        ]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("protocol.messages.read_request", True),
        ("minting.service.MintingService.__call__", True),
        ("protocol.messages.read_nothing", False),
        ("protocol.no_such_module.read_request", False),
    ],
)
def test_a_name_that_does_not_exist_is_seen(name: str, there: bool) -> None:
    assert _exists(name) is there


def test_architecture_is_one_page_and_each_of_its_ways_is_short() -> None:
    text = _read("ARCHITECTURE.md")
    page, table = text.split("\n## Where is what?\n")
    assert len(page.encode()) <= ONE_PAGE
    assert len(table.encode()) <= LOOKED_UP
    ways = [len(re.findall(r"^\d+\. ", section, re.MULTILINE)) for section in text.split("\n## ")]
    assert sum(map(bool, ways)) == len(("a click", "a urlRequest", "an edit", "a deposit", "a mint"))
    assert max(ways) <= LONGEST_WAY


# ---- the commands


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_commands_in_documents_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", _read("Makefile"), re.MULTILINE))
    assert [t for t in re.findall(r"\bmake ([a-z0-9-]+)`", text) if t not in targets] == []
    assert [s for s in re.findall(r"\./([\w-]+\.sh)\b", text) if not os.access(ROOT / s, os.X_OK)] == []


@pytest.mark.parametrize("name", ["README.md", "README.pt-BR.md"])
def test_the_readme_gives_the_two_commands(name: str) -> None:
    readme = _read(name)
    for command in ("./try.sh", "./test.sh", "make try", "make test"):
        assert command in readme


@pytest.mark.parametrize(
    "name",
    ["README.md", "README.pt-BR.md", "docs/en/explanation/glossary.md", "docs/pt-BR/explanation/glossary.md"],
)
def test_the_readme_and_the_glossary_name_the_standards(name: str) -> None:
    text = _read(name)
    for words in (
        "Internet Based Identifier", "Identificador com Base na Internet", "ABNT NBR 16066",
        "System for IBI Generation", "Sistema para resolução de IBI",
    ):  # fmt: skip
        assert words in text


def test_ci_calls_the_test_command_of_the_readme_and_forbids_skips() -> None:
    script = _read(".ci/run")
    assert "\n./test.sh\n" in script
    assert "export IBI_NO_SKIPS=1" in script


def test_lock_files_pin_every_package_by_hash_and_name_no_registry() -> None:
    for name in ("requirements/node.txt", "requirements/stores.txt", "requirements/dev.txt"):
        text = _read(name)
        entries = [e for e in re.split(r"\n(?=\S)", text.strip()) if not e.startswith("#")]
        assert [e.splitlines()[0] for e in entries if "==" not in e or "--hash=sha256:" not in e] == []
        assert "://" not in text
        assert "index" not in text


def test_the_lock_file_of_npm_pins_every_package_by_hash_and_names_no_registry() -> None:
    lock = json.loads(_read("requirements/npm/package-lock.json"))
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert [name for name, each in packages.items() if not each["integrity"].startswith("sha512-")] == []
    assert [name for name, each in packages.items() if "resolved" in each] == []
    wanted = json.loads(_read("requirements/npm/package.json"))["dependencies"]
    assert lock["packages"][""]["dependencies"] == wanted


def test_lock_files_hold_every_package_that_pyproject_asks_for() -> None:
    settings = tomllib.loads(_read("pyproject.toml"))
    extras = settings["project"]["optional-dependencies"]
    node, stores = extras["node"], [*extras["postgres"], *extras["s3"]]
    groups = settings["dependency-groups"]
    dev = [entry for entry in [*groups["dev"], *groups["build"]] if isinstance(entry, str)]
    for wanted, lock in (
        (node, "requirements/node.txt"),
        (stores, "requirements/stores.txt"),
        ([*node, *stores, *dev], "requirements/dev.txt"),
    ):
        locked = set(re.findall(r"^([\w.-]+)==", _read(lock), re.MULTILINE))
        names = {re.split(r"[<>=\[ ]", entry)[0] for entry in wanted}
        assert names - locked == set()


def test_all_lock_files_hold_the_same_versions() -> None:
    node, stores, dev = (
        dict(re.findall(r"^([\w.-]+)==(\S+)", _read(f"requirements/{n}.txt"), re.MULTILINE))
        for n in ("node", "stores", "dev")
    )
    assert [pair for pair in (*node.items(), *stores.items()) if dev.get(pair[0]) != pair[1]] == []


# ---- the pages


def _anchors(path: Path) -> set[str]:
    """The anchors that a page's headings make."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", _prose(path)):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        goal = (path.parent / place).resolve() if place else path
        if not goal.exists() or (anchor and anchor not in _anchors(goal)):
            dead.append(target)
    assert dead == []


def test_every_page_of_docs_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        targets = [
            t for t in re.findall(r"\]\(([^)#\s]+)", _prose(page)) if t.endswith(".md") and ":" not in t
        ]
        waiting += [(page.parent / target).resolve() for target in targets]
    assert [_name(page) for page in PAGES if page.is_relative_to(ROOT / "docs") and page not in seen] == []


def test_the_changelog_has_a_place_for_what_is_not_released_yet() -> None:
    assert re.search(r"^## Unreleased$", _read("CHANGELOG.md"), re.MULTILINE)


_FIGURE = re.compile(r"(?<![\d.,])\d[\d,]*\d(?:\.\d+)?(?!\.?\d)|(?<![\d.,])\d\.\d+(?!\.?\d)")


_COMPARISONS = {
    "docs/en/explanation/choosing.md": "## Measured",
    "docs/pt-BR/explanation/choosing.md": "## Medido",
}
_WITH_POINTS_AND_COMMAS = str.maketrans(",.", ".,")
"""Portuguese writes 4.971 and 0,39 where English writes 4,971 and 0.39."""


_VERSION = re.compile(r"\b\d\.\d\.\d\b")


def _measured(page: str) -> list[str]:
    """The figures of the table of a comparison, in their order, as English writes them."""
    section = _read(page).partition(_COMPARISONS[page])[2].partition("\n## ")[0]
    if "pt-BR" in page:
        section = _VERSION.sub("", section).translate(_WITH_POINTS_AND_COMMAS)
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [found for row in rows for found in _FIGURE.findall(row)]


@pytest.mark.parametrize("page", _COMPARISONS)
def test_the_comparison_shows_figures_of_the_last_results_only(page: str) -> None:
    shown = set(_measured(page))
    assert len(shown) > 10
    assert shown - set(_FIGURE.findall(_read("bench/RESULTS.md"))) == set()


def test_the_comparison_shows_the_same_figures_in_both_languages() -> None:
    portuguese, english = (_measured(f"docs/{tree}/explanation/choosing.md") for tree in ("pt-BR", "en"))
    assert sorted(portuguese) == sorted(english)


@pytest.mark.parametrize("path", sorted((ROOT / "docs/decisions").glob("[0-9]*.md")), ids=_name)
def test_decisions_are_short_and_on_one_plan(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(rf"# {path.name[:4]} \w", text)
    heads = ("## Context", "## Decision", "## Consequences")
    assert [text.count(f"\n{head}\n") for head in heads] == [1, 1, 1]
    assert [text.index(head) for head in heads] == sorted(text.index(head) for head in heads)
    assert len(text.splitlines()) <= 60


def test_decisions_are_numbered_without_a_gap_and_listed() -> None:
    names = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    listed = _read("docs/decisions/README.md")
    assert [name for name in names if name not in listed] == []


# ---- the standard


def test_the_coverage_table_is_current() -> None:
    assert _read("docs/standard/coverage.md") == coverage_table.page(), "run: make docs"


def test_tests_prove_only_requirements_that_exist() -> None:
    assert coverage_table.unknown() == []


def test_every_requirement_of_today_is_proved_by_a_test() -> None:
    missing = coverage_table.missing()
    assert not missing, f"{len(missing)} without a test: " + " ".join(row.number for row in missing)


def test_every_requirement_has_a_mutant_that_can_be_applied_and_a_marked_test_that_notices() -> None:
    found = violations()
    sources = {
        violation.file: _read(violation.file) for violation in found if (ROOT / violation.file).is_file()
    }
    proofs = {
        number: [(proof.path, proof.test) for proof in tests]
        for number, tests in coverage_table.proofs().items()
    }
    assert list(faults(found, sources, proofs)) == []
    assert [row.number for row in coverage_table.without_mutant()] == []


def test_every_requirement_has_one_statement_and_a_clause() -> None:
    rows = coverage_table.requirements()
    numbers = [row.number for row in rows]
    assert len(numbers) == len(set(numbers))
    assert [n for n in numbers if n.partition("-")[0] not in coverage_table.GROUPS] == []
    assert [row.number for row in rows if not row.clause or not row.statement.endswith(".")] == []


def test_the_glossary_names_what_the_code_names() -> None:
    code = "\n".join(module.text for module in modules().values())
    rows = re.findall(
        r"^\| [^|]+\| [^|]+\| ([^|]*)\|", _read("docs/en/explanation/glossary.md"), re.MULTILINE
    )
    names = {name for cell in rows for name in re.findall(r"`([A-Za-z_]\w*)`", cell)}
    assert names
    assert sorted(name for name in names if not re.search(rf"\b{name}\b", code)) == []


# Spellings that newcomers bring along -> what the glossary says instead.
NOT_OUR_WORDS = {
    r"\bIbip\b": "IBIp",
    r"\b[Ii]bis\b": "IBIs",
    r"\bUniformRepoName\b|\brepo_name\b": "UniformRepositoryName, rep",
    r"\bnewest_edition\b|\blatest_edition\b": "last edition",
    r"\bpersistent_uri\b|\bPersistentURI\b": "persistent URL",
    r"\bstatus_original\b": "state Original",
    r"\bunregistered_archives\b": "excluded Archives (registered is not included)",
}


def test_the_code_speaks_the_words_of_the_glossary() -> None:
    strange = [
        f"{module.shown}: {found.group()} (say {ours})"
        for module in modules().values()
        for words, ours in NOT_OUR_WORDS.items()
        for found in re.finditer(words, module.text)
    ]
    assert strange == []


# ---- nothing of the machine it was written on

FOLDERS_OF_A_MACHINE = ("work", "farm", "tmp", "root", "home")
OF_A_MACHINE = re.compile(
    r"(?:^|[^A-Za-z0-9_.%/-])/(?:" + "|".join(FOLDERS_OF_A_MACHINE) + r")(?:/|\b(?![\w./-]))"
)
TEXT = {
    ".py",
    ".md",
    ".toml",
    ".sh",
    ".tsv",
    ".txt",
    ".json",
    ".jsonl",
    ".yml",
    ".html",
    ".po",
    ".ini",
    ".play",
    ".css",
    "",
}


def _lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Every line of the repository's texts in which a pattern is found."""
    return [
        f"{_name(path)}:{number}: {line.strip()[:100]}"
        for path in FILES
        if path.suffix in TEXT and path.name != "LICENSE" and path.parent.name != "LICENSES"
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_nothing_names_a_folder_of_the_machine_it_was_written_on() -> None:
    assert _lines_with(OF_A_MACHINE) == []


@pytest.mark.parametrize(
    ("line", "names_one"),
    [
        (f"see /{FOLDERS_OF_A_MACHINE[2]}/x", True),
        (f'"/{FOLDERS_OF_A_MACHINE[0]}/main"', True),
        ("http://archive.example/home/page", False),
        ("a/root/b", False),
        ("GET /workers", False),
    ],
)
def test_the_watch_for_folders_of_a_machine_knows_one(line: str, names_one: bool) -> None:
    assert bool(OF_A_MACHINE.search(line)) is names_one


# ---- nothing that is not here

# Titles of documents outside this repository; in small letters, so that the list does not find itself.
NOT_HERE = "settled dangers house contract practice peers libraries conventions"


def test_nothing_refers_to_documents_that_are_not_here() -> None:
    named = _lines_with(re.compile(rf"\b(?:{NOT_HERE.upper().replace(' ', '|')})\b"))
    assert [line for line in named if "static/OFL.txt" not in line] == []  # a word of the licence of the font


def test_each_threat_names_the_tests_that_show_what_protects() -> None:
    rows = [
        line.split(" | ")
        for line in _read("docs/reference/threats.md").splitlines()
        if line.startswith("| T")
    ]
    named = {row[0]: re.findall(r"`(tests/[\w/]+\.py)`", row[3]) for row in rows}
    assert len(named) == 45
    assert [threat for threat, files in named.items() if not files] == []
    assert [file for files in named.values() for file in files if not (ROOT / file).exists()] == []
