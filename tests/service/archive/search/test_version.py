"""What the index keeps of an item belongs to its version: an index of another version is made anew."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import blake2b

from ibi.archive.search.index import FILE, VERSION
from ibi.web.formats.record import ITEM_KINDS
from support.archive.archive_fixture import NewArchive
from support.archive.item_samples import OTHER, SAMPLES, WITH
from support.archive.search_fixture import indexed, item

DIGESTS = {5: "998ffb4187508699"}
"""Version -> digest of the index of the items below."""


def test_an_index_that_keeps_something_else_has_another_version(archive: NewArchive) -> None:
    types = [word for words in ITEM_KINDS.values() for word in words]
    of_types = [item(number, f"Um {word}", type=word) for number, word in enumerate(types)]
    rich = item(
        500, "Água & ar: a <study>", creator=["Câmara, Gilberto", "INPE"], subject=["Mapas", "São José"],
        description="Um resumo com 12,5 km", date="2013-05", type="Tese", language="pt-BR",
        identifier=["doi:10.1234/AbC", "978-85-17-00002-1"],
    )  # fmt: skip
    fields = sorted(SAMPLES.keys() - {"target"})  # that needs a file
    of_fields = [
        {**item(600 + number, "Um"), **WITH.get(name, {}), name: SAMPLES[name]}
        for number, name in enumerate(fields)
    ]
    archive.load({"rep": OTHER, "url": "http://far.example/"}, *of_types, rich, item(501), *of_fields)
    indexed(archive).close()
    with closing(sqlite3.connect(archive.data / FILE)) as database:
        # Whatever has the time of this test is left out.
        kept = "number, removed, shown, content_type, kind, language, year, name, people, open, embargo, subjects"
        found = [
            database.execute(question).fetchall()
            for question in (
                "SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'words_%' ORDER BY name",  # those are SQLite's own
                f"SELECT {kept} FROM entry ORDER BY number",  # noqa: S608 - the words above
                "SELECT rowid, title, people, subject, abstract, marks FROM words ORDER BY rowid",
                "SELECT what, value, label, items FROM facet ORDER BY what, value",
            )
        ]
    # If this fails, indexes that exist would keep what they have: raise VERSION, and write the new digest down.
    # Only the digest changes if nothing but the items above are others, as for a new field that is not in the index.
    assert {VERSION: blake2b(repr(found).encode(), digest_size=8).hexdigest()} == DIGESTS
