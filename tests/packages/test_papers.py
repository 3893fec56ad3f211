"""The files about the project that archives of software, lawyers and auditors read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from ibi import __version__
from support.style.layers import ROOT

AUTHORS = "the authors of ibi"
_TAG = "SPDX-License" + "-Identifier"  # in two pieces, or it would count for this file


def _project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def test_citation_and_codemeta_say_what_the_package_says() -> None:
    project = _project()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    meta = json.loads((ROOT / "codemeta.json").read_text("utf-8"))
    assert project["version"] == __version__
    wanted = [project[name] for name in ("name", "version", "description", "keywords")]
    assert [citation[name] for name in ("title", "version", "abstract", "keywords")] == wanted
    assert [meta[name] for name in ("name", "version", "description", "keywords")] == wanted
    assert citation["license"] == project["license"]
    assert meta["license"] == f"https://spdx.org/licenses/{project['license']}"
    assert meta["runtimePlatform"] == f"Python {project['requires-python']}"
    assert [each["name"] for each in citation["authors"]] == [meta["author"]["name"]] == [AUTHORS]


def test_a_citation_has_what_its_format_demands() -> None:
    """The keys that the schema of CFF 1.2.0 requires; `uvx cffconvert --validate` checks all of it."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert {"authors", "cff-version", "message", "title"} <= set(citation)
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reuse", "--root", str(folder), "lint"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, check=False, env={"LC_ALL": "C.UTF-8"}
    )


def test_every_file_has_an_owner_and_a_licence() -> None:
    done = _lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_file_under_another_licence_is_found(tmp_path: Path) -> None:
    shutil.copy(ROOT / "REUSE.toml", tmp_path)
    shutil.copytree(ROOT / "LICENSES", tmp_path / "LICENSES")
    (tmp_path / "copied.js").write_text(f"// {_TAG}: MIT\n")
    done = _lint(tmp_path)
    assert done.returncode == 1
    assert "copied.js" in done.stdout


def test_the_texts_of_licences_are_those_that_the_package_has() -> None:
    licences = {path.name: path.read_text("utf-8") for path in (ROOT / "LICENSES").iterdir()}
    assert licences == {
        "Apache-2.0.txt": (ROOT / "LICENSE").read_text("utf-8"),
        "OFL-1.1.txt": (ROOT / "src/ibi/web/static/OFL.txt").read_text("utf-8"),
    }
    notice, font = (ROOT / "NOTICE").read_text("utf-8"), licences["OFL-1.1.txt"].splitlines()[0]
    assert "Copyright 2020-2024 The Atkinson Hyperlegible Next Project Authors" in notice
    assert "Copyright 2020-2024 The Atkinson Hyperlegible Next Project Authors" in font


def test_the_workflow_audits_what_is_locked() -> None:
    """Advisories cannot be had without the Internet, so it is only read here."""
    text = (ROOT / "packaging/ci/advisories.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    lines = [step["run"].split() for job in jobs.values() for step in job["steps"] if "run" in step]
    audits = [words for words in lines if words[0] == "pip-audit"]
    assert {words[-1] for words in audits} == {"requirements/node.txt", "requirements/dev.txt"}
    for words in audits:
        assert (ROOT / words[-1]).is_file()
        assert {"--strict", "--require-hashes", "--disable-pip"} <= set(words)
