"""What processes of one service write: the same bytes in each, and no library of RDF where nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys

ITEM = """
import hashlib
from ibi.archive.model.formats import DescribedItem
from ibi.archive.model.item import Holding, MetadataValue
from ibi.identifier.forms import IBIForms
from ibi.web.formats import FORMATS

holding = Holding(forms=IBIForms.parse("rep a.example/b/2026/01.01.00.00"), timestamp="2026-01-01T00:00:00Z")
metadata = {name: tuple(MetadataValue(f"{name}, {n}") for n in range(12)) for name in ("title", "creator", "subject")}
item = DescribedItem(holding, metadata, "http://a.example", "http://r.example", "a.example", "2026-11-22")
for each in FORMATS:
    if each.name in {"turtle", "rdfxml"}:
        print(hashlib.sha256(each.write(item, {})).hexdigest())
"""

PAGES = """
from ibi.web.assets import assets
from ibi.web.rendering import page_headers

print(page_headers("en"), page_headers("pt-BR"), [(name, each.address) for name, each in assets().items()])
"""


def printed(script: str, seed: str = "0") -> str:
    """Return what a script prints under one seed of hashes."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
    return run.stdout.decode()


def test_an_item_is_written_with_the_same_bytes_by_every_process() -> None:
    """Else its ETag would change from process to process."""
    first, second = printed(ITEM, "1"), printed(ITEM, "2")
    assert first.count("\n") == 2
    assert first == second


def test_the_headers_and_the_files_of_pages_are_those_of_every_process() -> None:
    """Else a cached page would not pass the policy that another process sends with it, or look changed."""
    first, second = printed(PAGES, "1"), printed(PAGES, "2")
    assert "script-src" in first
    assert first == second


def test_rdflib_is_imported_only_where_it_writes() -> None:
    script = (
        "import sys, ibi.web.archive_pages, ibi.app.archive, ibi.app.resolver; print('rdflib' in sys.modules)"
    )
    assert printed(script) == "False\n"
