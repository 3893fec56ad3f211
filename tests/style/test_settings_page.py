"""The settings of a resolver that docs/reference/settings.md lists are those that it has, with their defaults."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, fields

from ibi.runtime.settings import ResolverSettings
from support.style.layers import ROOT

PAGE = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Settings of a resolver")[2].partition("\n## ")[0]


def _listed() -> dict[str, str]:
    """The default that the page gives for each setting, as it is written there; "" for none."""
    found: dict[str, str] = {}
    for names, default in re.findall(r"^\| (`[a-z_`, ]+`) \| ([^|]*)\|", TABLE, re.MULTILINE):
        every = re.findall(r"`([a-z_]+)`", names)
        given = [part.strip().strip("`") for part in default.split(", ")]
        found |= dict(zip(every, given if len(given) == len(every) else given * len(every), strict=True))
    return found


def _default(value: object) -> str:
    return "" if value is MISSING else json.dumps(value)


def test_the_page_lists_every_setting_of_a_resolver_with_its_default() -> None:
    assert _listed() == {field.name: _default(field.default) for field in fields(ResolverSettings)}
