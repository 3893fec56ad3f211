"""Sphinx builds the site of the documents with this file: `make site`, which tools/site_pages.py explains.

The language is given by `-D language=`; the sources are the pages that tools/site_pages.py has arranged for it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

HERE: Final = Path(__file__).resolve().parent
TITLES: Final = {
    "en": "ibi: names that outlive addresses",
    "pt_BR": "ibi: nomes que duram mais que endereços",
}
LABELS: Final = {
    "*.html": re.compile(r"""((?:aria-label|title)="|<title>)([^"<]+)(?=["<])"""),
    "copybutton.js": re.compile(r"(')(Cop[^']+|Failed to copy)(?=')"),
}
"""What the theme and the button for copying say in English only: what is before a text, and the text."""

project = "ibi"
extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "index"
source_suffix = {".md": "markdown"}
locale_dirs = ["locale"]  # the strings of the theme that Sphinx does not translate: locale/pt_BR
templates_path = [str(HERE / "templates")]
suppress_warnings = [
    "toc.not_included"
]  # a page that only other pages link to, such as a README of the source

myst_heading_anchors = 6
highlight_language = "text"

html_theme = "furo"
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
html_use_index = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/languages.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}

copybutton_selector = "div.highlight-sh pre, div.highlight-console pre, div.highlight-toml pre"


def _titled(_: Sphinx, config: Config) -> None:
    config["html_title"] = TITLES[config["language"]]


def _labelled(app: Sphinx, failure: Exception | None) -> None:
    """Translate labels that are no strings of templates, by the same catalogue."""
    if failure is not None or app.config["language"] == "en":
        return
    for names, label in LABELS.items():
        for path in sorted(Path(app.outdir).rglob(names)):
            text = path.read_text(encoding="utf-8")
            text = label.sub(lambda found: found[1] + app.translator.gettext(found[2]), text)
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the two functions above; several processes may read and write pages."""
    for unknown in ("csv", "regex"):
        app.add_lexer(unknown, TextLexer)
    app.connect("config-inited", _titled)
    app.connect("build-finished", _labelled)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
