"""What a persistent URL asks for, as it was understood, in words; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import ParseError
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.relation import Kind, Relation, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Say = Callable[[str, Mapping[str, object]], str]

FILE_LIST: Final = "ibiurl.verblist=GetFileList"
ORIGINAL: Final = "ibiurl.requireditemstatus=Original"

_BARE: Final = {
    Kind.LAST_EDITION: "the last edition",
    Kind.TRANSLATION: "the translation into the language of your browser",
    Kind.METADATA: "the metadata",
}
_GIVEN: Final = {
    Kind.LAST_EDITION: "the last edition",
    Kind.TRANSLATION: "the translation into: {parameter}",
    Kind.METADATA: "the metadata in the format {parameter}",
}
"""What a step is called without and with its parameter."""
_NAMES: Final = {
    Kind.LAST_EDITION: "last edition",
    Kind.TRANSLATION: "translation",
    Kind.METADATA: "metadata",
}


class Wish(NamedTuple):
    """What a persistent URL asks for. `root` is what stands before its path: "http://urlib.net"."""

    url: PersistentURL
    root: str

    @property
    def ibi(self) -> str:
        """The item, as it was written."""
        return str(self.url.ibi)

    @property
    def named_on(self) -> str:
        """The date that the name tells, RFC 3339; "" where it tells none."""
        return self.url.ibi.date.text or ""

    def words(self, say: Say, language_name: Callable[[str], str] = str) -> list[str]:
        """What is wanted of the item, a piece each; nothing where it is the item itself.

        `language_name` tells how the language of a tag is called.
        """
        said = []
        for step in self.url.relation.steps:
            given = step.parameter or ""
            named = language_name(given) if given and step.kind is Kind.TRANSLATION else given
            said.append(say((_GIVEN if given else _BARE)[step.kind], {"parameter": named}))
        if self.url.file_path:
            said.append(say("the file {path}", {"path": self.url.file_path[1:]}))
        if self.url.file_list:
            said.append(say("the list of files", {}))
        if self.url.original_required:
            said.append(say("the original, never a copy", {}))
        return said

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the keys are stable."""
        return {
            "ibi": self.ibi,
            "named_on": self.named_on or None,
            "relation": [
                {"what": _NAMES[step.kind], "parameter": step.parameter} for step in self.url.relation.steps
            ],
            "file": self.url.file_path[1:] or None,
            "file_list": self.url.file_list,
            "original_required": self.url.original_required,
        }

    def path(
        self,
        steps: tuple[Step, ...] | None = None,
        *,
        file: bool = True,
        file_list: bool | None = None,
        original: bool = False,
    ) -> str:
        """The path and query of a persistent URL of the same item: with other steps, perhaps without its file."""
        url = self.url
        relation = url.relation if steps is None else Relation(steps)
        wants_list = url.file_list if file_list is None else file_list
        query = [FILE_LIST] if wants_list else []
        query += [ORIGINAL] if original else []
        query += [url.foreign_query] if url.foreign_query and file else []
        tail = f"?{'&'.join(query)}" if query else ""
        return f"/{url.ibi}{relation.modifier}{url.file_path if file else ''}{tail}"


def wish_of(url: str) -> Wish | None:
    """What a whole persistent URL asks for; None for a text that is none."""
    try:
        found = PersistentURL.from_text(url)
    except ParseError:
        return None
    return Wish(found, url.removesuffix(found.text)) if url.endswith(found.text) else None
