"""docs/reference/registries.md: its pattern knows IBIs, its entries agree, and what it says of us is true."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import ibi
from ibi.protocol.persistent_url import persistent_path
from support.style.layers import ROOT

PAGE = (ROOT / "docs/reference/registries.md").read_text(encoding="utf-8")
VECTORS = ROOT / "conformance/vectors"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)


(PATTERN,) = blocks("regex")
IDENTIFIERS, BIOREGISTRY = map(json.loads, blocks("json"))
(N2T,) = blocks("yaml")
(HTACCESS,) = blocks("apache")


def vectors(group: str) -> list[dict[str, Any]]:
    lines = (VECTORS / f"{group}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_the_pattern_knows_the_readable_form() -> None:
    wrong = [
        each["id"]
        for each in vectors("grammar.repository")
        if bool(re.fullmatch(PATTERN, each["input"]["label"], re.ASCII)) is not each["expected"]
    ]
    assert wrong == []


def test_the_pattern_knows_the_opaque_form() -> None:
    wrong = [
        each["id"]
        for each in vectors("grammar.ibip")
        if bool(re.fullmatch(PATTERN, each["input"]["label"], re.ASCII)) is not each["expected"]["strict"]
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "text", ["", "ibi:8JMKD3MGP8W/34PGRBS", "8JMKD3MGP8W/34PGRBS!", "a/b", "8JMKD3MGP8W/34PGRBS\n"]
)
def test_the_pattern_knows_nothing_else(text: str) -> None:
    assert not re.fullmatch(PATTERN, text)


def test_the_entries_agree() -> None:
    bioregistry = BIOREGISTRY["ibi"]
    assert (IDENTIFIERS["Regex pattern"], bioregistry["pattern"]) == (PATTERN, PATTERN)
    assert IDENTIFIERS["Description"] == bioregistry["description"]
    examples = [IDENTIFIERS["Sample Id"], bioregistry["example"], *bioregistry["example_extras"]]
    examples += re.findall(r'^  test: "(.+)"$', N2T, re.MULTILINE)
    assert len(examples) == 4
    for example in examples:
        assert re.fullmatch(PATTERN, example)
        assert str(ibi.parse_ibi(example)) == example
        here = {f"http://urlib.net/{example}"}
        assert {IDENTIFIERS["URL pattern"].replace("{$id}", example)} == here
        assert {bioregistry["uri_format"].replace("$1", example)} == here
        assert {re.findall(r'^  redirect: "(.+)"$', N2T, re.MULTILINE)[0].replace("$id", example)} == here


def test_the_rules_of_w3id_lead_to_the_resolver() -> None:
    rules = re.findall(r"^RewriteRule (\S+) (\S+) \[R=302,L\]$", HTACCESS, re.MULTILINE)
    for path in ("", "8JMKD3MGP8W/34PGRBS", "dpi.inpe.br/banon/1998/08.02.08.56!+(en):(oai_dc)"):
        found, goal = next((match, goal) for rule, goal in rules if (match := re.match(rule, path)))
        assert goal.replace("$1", found[1] if found.groups() else "") == f"http://urlib.net/{path}"


def test_the_compact_form_is_read_as_the_page_says() -> None:
    forms = re.findall(r"^    (ibi:\S+)$", PAGE, re.MULTILINE)
    assert len(forms) == 3
    for form in forms:
        assert persistent_path(form) == f"/{form.removeprefix('ibi:')}"
        bare = ibi.PersistentURL.from_text(f"http://urlib.net/{form.removeprefix('ibi:')}")
        for spelled in (form, form.replace("ibi:", "IBI:"), form.replace("ibi:", "ibi%3A")):
            url = ibi.PersistentURL.from_text(f"http://urlib.net/{spelled}")
            assert (url.ibi, url.relation, url.file_path) == (bare.ibi, bare.relation, bare.file_path)
