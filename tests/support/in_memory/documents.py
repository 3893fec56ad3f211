"""The documents of a shared store, in memory: what `runtime.shared.documents.Documents` has in a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ibi.errors import SetupError


class Document:
    """One document while it is changed; what is written counts at the end."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def write(self, text: str) -> None:
        self.text = text

    def remove(self) -> None:
        self.text = None


class Documents:
    """The documents by name; `events` is what was done with them. While `is_away`, each of these is an error."""

    def __init__(self) -> None:
        self.texts = dict[str, str]()
        self.versions = dict[str, int]()
        self.events = list[str]()
        self.is_away = False

    def put_in_place(self, patch: pytest.MonkeyPatch, *modules: str) -> None:
        """Have these modules find this store for any data directory."""
        for module in modules:
            patch.setattr(f"{module}.documents_of", self._of)

    def _of(self, _data: Path) -> Documents:
        return self

    def _note(self, what: str) -> None:
        self.events.append(what)
        if self.is_away:
            raise SetupError("the store is away")

    def read(self, name: str) -> str | None:
        self._note(f"read {name}")
        return self.texts.get(name)

    def version(self, name: str) -> int:
        return self.versions.get(name, 0)

    def make(self, name: str, text: str) -> str:
        self._note(f"make {name}")
        return self.texts.setdefault(name, text)

    @contextmanager
    def changing(self, name: str) -> Iterator[Document]:
        self._note(f"lock {name}")
        document = Document(self.texts.get(name))
        yield document
        self.events.append(f"free {name}")
        self.versions[name] = self.version(name) + 1
        self.texts.pop(name, None)
        if document.text is not None:
            self.texts[name] = document.text

    def refresh(self) -> None:
        self._note("refresh")
