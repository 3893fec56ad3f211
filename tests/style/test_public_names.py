"""The promised names of the library, and what importing it loads."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

import ibi
from support.style.layers import ROOT, height, is_pure

# A name leaves this list only after a year of warnings; a new one is a promise.
PROMISED = [
    "IBI",
    "IBIForms",
    "IBIp",
    "IbiError",
    "LabelGenerator",
    "LegacyId",
    "Name",
    "ParseError",
    "PersistentURL",
    "Relation",
    "Slot",
    "UniformRepositoryName",
    "UrlList",
    "distribute",
    "parse_ibi",
    "parse_name",
    "unwrap",
]


def test_the_promised_names_are_exactly_those_of_the_package() -> None:
    assert sorted(ibi.__all__) == sorted(PROMISED)


@pytest.mark.parametrize("name", ibi.__all__)
def test_every_promised_name_is_there_and_described_for_users(name: str) -> None:
    assert hasattr(ibi, name)
    described = (ROOT / "docs/reference/library.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `{re.escape(name)}[`(]", described, re.MULTILINE), (
        f"docs/reference/library.md has no row for {name}"
    )


def test_the_examples_for_users_of_the_library_are_true() -> None:
    import doctest  # which brings the debugger with it

    results = doctest.testfile(str(ROOT / "docs/reference/library.md"), module_relative=False)
    assert results.attempted > 0
    assert results.failed == 0


def _bare(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python without any installed package: what `pip install ibi` gives, no more."""
    start = f"import sys; sys.path.insert(0, {str(ROOT / 'src')!r}); "
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", start + code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_importing_ibi_loads_no_third_party_package_and_only_pure_modules() -> None:
    run = _bare(code="import ibi, json; print(json.dumps(sorted(sys.modules)))")
    assert run.returncode == 0, run.stderr
    loaded = json.loads(run.stdout)
    ours = [
        name.removeprefix("ibi").removeprefix(".")
        for name in loaded
        if name == "ibi" or name.startswith("ibi.")
    ]
    assert [name for name in ours if not is_pure(name)] == []
    assert max(height(name) or 0 for name in ours) == height("")
    tops = {name.partition(".")[0] for name in loaded} - {"ibi", "__main__"}
    assert [name for name in sorted(tops) if name not in sys.stdlib_module_names] == []


def test_a_bare_install_can_inspect() -> None:
    run = _bare("inspect", "8JMKD3MGP7W/385N5PE", "--json", code="from ibi.cli import main; sys.exit(main())")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["canonical"] == "8JMKD3MGP7W/385N5PE"
