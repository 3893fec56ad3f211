"""Templates ask values for attributes that no type checker sees; each of these stands somewhere in the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

SOURCE = Path(__file__).resolve().parents[2] / "src/ibi"
TEMPLATES = SOURCE / "web/templates"
OF_JINJA = {"append", "index", "index0", "last", "length", "loop"}


def _attributes(template: str) -> set[str]:
    tree = Environment(extensions=["jinja2.ext.i18n"], autoescape=True).parse(template)
    return {node.attr for node in tree.find_all(nodes.Getattr)}


def test_every_attribute_that_a_template_asks_for_stands_in_the_source() -> None:
    source = "\n".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    words = set(re.findall(r"\w+", source)) | OF_JINJA
    wanted = {
        (file.name, name)
        for file in TEMPLATES.glob("*.html")
        for name in _attributes(file.read_text(encoding="utf-8"))
    }
    assert len(wanted) > 100
    assert sorted(each for each in wanted if each[1] not in words) == []


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("{{ page.title }}", {"title"}),
        ("{% if not checked.is_of(file) %}{{ file.name.upper() }}{% endif %}", {"is_of", "name", "upper"}),
        ("{% for each in pages %}{{ _('of {day}', day=each.day) }}{% endfor %}", {"day"}),
    ],
)
def test_attributes_are_seen_wherever_a_template_asks_for_them(template: str, names: set[str]) -> None:
    assert _attributes(template) == names
