"""Relations: from an item to its last edition, translations and metadata, as far as one Archive knows (R15 9.2 to 9.4).

    ""  .lastedition  .translation(pt)  .metadata(oai_dc)  .lastedition.metadata ...

Each step goes from one holding to another along a link in the catalogue. Of a link that leads out of the
Archive only the IBI is known. The module is pure.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, assert_never

from ibi.archive.model.access import nothing_withheld
from ibi.archive.model.item import Access, Holding
from ibi.errors import AnswerTooLong
from ibi.identifier.forms import Name
from ibi.protocol.pair_list import MAX_PAIRS
from ibi.protocol.relation import Relation, Step, StepKind, composes
from ibi.protocol.vocabulary import LINKSET, METADATA_FORMATS, ContentType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ibi.archive.model.access import Withheld
    from ibi.archive.model.item import MetadataValue, StoredFile
    from ibi.identifier.forms import IBIForms

Lookup = Callable[[Name], Holding | None]
"""Returns the item of a name in this Archive; None if it is not held."""

LONGEST_CHAIN = 256
"""Editions that are followed for one answer; the resolver continues from the last of them."""

DUBLIN_CORE = "oai_dc"
"""The metadata format of every item with metadata, because it is written from the catalogue (note 9: when a label
leaves)."""


def held_by(lookup: Lookup, forms: IBIForms) -> Holding | None:
    """Return the item that is held under either of these names; None if there is none or it is unsettled."""
    found = lookup(forms.main)
    if found is None and forms.rep and forms.ibip:
        found = lookup(forms.ibip)
    # A linked item that is not settled is treated like one in another Archive: only its name is given.
    return None if found is not None and found.unsettled else found


class RelationTarget(NamedTuple):
    """The target of a relation.

    `forms`: its IBI as the link spells it, None for metadata without an IBI. `holding`: the item with its
    URL, state and timestamp, None if it is not held here. `format`: the metadata format of the URL, if it has
    one. `page`: whether it is this Archive's page of the metadata *of* the holding, not the holding itself.
    """

    forms: IBIForms | None
    holding: Holding | None
    format: str | None = None
    page: bool = False

    @property
    def content_type(self) -> ContentType:
        """The content type that a reader gets: Metadata, or that of the holding."""
        if self.page or self.format or self.holding is None:
            return ContentType.METADATA
        return self.holding.content_type


class EditionChain(NamedTuple):
    """The later editions of an item.

    `last`: the last edition, None if it is not known here. `following`: the next edition, None if there is
    none. `farthest`: the farthest known edition, if `last` is unknown and the farthest is not the next.
    """

    last: RelationTarget | None
    following: IBIForms | None
    farthest: IBIForms | None = None


class ItemRelations:
    """The relations of one item, for one reader; `lookup` is called only as far as relations are followed.

    `base`: the beginning of the URLs of pages and files; None if there are none, as in `service.adapter`. `withheld`
    tests whether this reader may not have the data of an item (SVC-10: URLs by reader).
    """

    def __init__(
        self, lookup: Lookup, base: str | None, holding: Holding, withheld: Withheld = nothing_withheld
    ) -> None:
        self._lookup = lookup
        self._base = base
        self._withheld = withheld
        self.item = RelationTarget(holding.forms, holding)
        """The item itself, from which every relation starts."""

    @cached_property
    def later_editions(self) -> EditionChain:
        """The later editions of the item itself."""
        return self._edition(self.item)

    def one(self, relation: Relation) -> RelationTarget | None:
        """Return the target of exactly this relation; None if it is not known here."""
        related: RelationTarget | None = self.item
        for step in relation.steps:
            branches = dict(self._branches(related, step)) if related else {}
            related = branches.get(step.parameter)
        return related

    def all(self, pattern: Relation | None) -> Iterator[tuple[Relation, RelationTarget]]:
        """Yield every relation with a target that the pattern accepts (None accepts all), shortest first.

        Raises AnswerTooLong when more relations wait to be followed than an answer may have pairs.
        """
        reached: list[tuple[tuple[Step, ...], RelationTarget]] = [((), self.item)]
        while reached:
            if len(reached) > MAX_PAIRS:
                raise AnswerTooLong("the answer to this would be longer than a resolver reads")
            steps, related = reached.pop(0)
            if pattern is None or len(steps) == len(pattern.steps):
                yield Relation(steps), related
            if pattern is None:
                kinds = tuple(step.kind for step in steps)
                further_steps = [Step(kind) for kind in StepKind if composes((*kinds, kind))]
            else:
                further_steps = list(pattern.steps[len(steps) : len(steps) + 1])
            for step in further_steps:
                for parameter, further in self._branches(related, step):
                    longer = (*steps, Step(step.kind, parameter))
                    if pattern is None or Relation(pattern.steps[: len(longer)]).accepts(Relation(longer)):
                        reached.append((longer, further))

    def url(self, related: RelationTarget) -> str | None:
        """Return the URL of a target; None if it is not held here, removed, or not offered in its format.

        A reader who may not have the data of an item gets the URL of the page about it.
        """
        holding = related.holding
        if holding is None or holding.deleted:
            return None
        if related.page and related.format == LINKSET:
            return self._page("linkset", holding)
        if related.page:
            return self._page("metadata", holding, f"?format={related.format}" if related.format else "")
        if self.is_withheld(related):
            return None if related.format else self._page("item", holding)
        return holding.formats.get(related.format) if related.format else self._data(holding)

    def file_url(self, related: RelationTarget, path: str) -> str | None:
        """Return the URL of one file; None if it is not listed. Files of a linked item are not known here.

        For a reader who may not have the files every path gets the URL of the page that says so: no answer
        reveals which files there are.
        """
        holding = related.holding
        if holding is None or holding.deleted or related.page or related.format:
            return None
        if self._withheld(holding):
            return self._page("files", holding)
        file = holding.file(path)
        return self._file(holding, file) if file else None

    def file_list_url(self, related: RelationTarget) -> str | None:
        """Return the URL of the file list (SVC-08, third variant); if it is withheld, that page says so."""
        holding = related.holding
        if holding is None or holding.deleted or related.page:
            return None
        return self._page("files", holding)

    def is_withheld(self, related: RelationTarget) -> bool:
        """Return whether a target is withheld from this reader, who gets another page in its place.

        Metadata stored with an item are open to all readers; a metadata item has an access of its own.
        """
        holding = related.holding
        if holding is None or holding.access is Access.OPEN or related.page:
            return False
        if related.format and holding.content_type is not ContentType.METADATA:
            return False
        return self._withheld(holding)

    def _data(self, holding: Holding) -> str | None:
        """Return the URL of an item itself: its URL elsewhere, its target file, or its page."""
        if holding.url:
            return holding.url
        target = holding.target_file
        if target is None:
            return self._page("metadata" if holds_dublin_core(holding) else "item", holding)
        return self._file(holding, target)

    def _page(self, page: str, holding: Holding, query: str = "") -> str | None:
        return None if self._base is None else f"{self._base}/-/{page}/{holding.forms.main}{query}"

    def _file(self, holding: Holding, file: StoredFile) -> str | None:
        return None if self._base is None else f"{self._base}/col/{holding.forms.main}/doc/{file.name}"

    def _branches(self, related: RelationTarget, wanted: Step) -> Iterator[tuple[str | None, RelationTarget]]:
        """Yield (parameter, target) for each step of the wanted kind that leads from a target.

        This Archive can write any item in many formats. An answer that lists all relations leaves these formats out,
        because they are too many; an answer about one format has it.
        """
        if related.holding is None:
            return
        kind = wanted.kind
        if kind is StepKind.LAST_EDITION:
            last = (self.later_editions if related is self.item else self._edition(related)).last
            if last is not None:
                yield None, last
        elif kind is StepKind.TRANSLATION:
            yield from self._translations(related)
        elif kind is StepKind.METADATA:
            yield from self._metadata(related.holding)
            if wanted.parameter in METADATA_FORMATS:
                yield from self._written(related.holding, wanted.parameter)
        else:
            assert_never(kind)  # mypy reports a kind that has no branch here

    def _edition(self, related: RelationTarget) -> EditionChain:
        """Follow the next editions as far as they are held (URL-18, SVC-14 to SVC-16).

        If the chain ends in this Archive, its end is the last edition; an item without a next edition is its
        own. If the chain leaves the Archive, the URL of the last edition is not known. The farthest known IBI
        is then sent beside `ibi.nextedition`, which saves a resolver of this software a round for each
        edition in between. A circle has no last edition.
        """
        holding, forms = related.holding, related.forms
        first = holding.next_edition if holding else None
        seen: set[str] = set()
        # Bounded, because a chain may have been made very long on purpose (T09: circles of editions).
        for _ in range(LONGEST_CHAIN):
            if holding is None:
                break
            if holding.next_edition is None:
                return EditionChain(related._replace(forms=forms, holding=holding), first)
            if not seen.isdisjoint(holding.forms.canonicals):
                return EditionChain(None, first)
            seen |= holding.forms.canonicals
            forms = holding.next_edition
            holding = held_by(self._lookup, forms)
        farthest = None if first is None or forms is None or first.shares(forms) else forms
        return EditionChain(None, first, farthest)

    def _translations(self, related: RelationTarget) -> Iterator[tuple[str | None, RelationTarget]]:
        """Yield the linked translations by language, and the item itself under its language or none.

        If a link leads to the item itself, the language of that link is used for it. See AMB-47: languages and
        countries.
        """
        holding = related.holding
        assert holding is not None  # noqa: S101 - _branches saw to it
        by_language: dict[str, RelationTarget] = {}
        # The page of a metadata item has that item's translations; metadata stored with their item have none.
        is_item = not related.page or holds_dublin_core(holding)
        links = holding.translations if is_item else {}
        if not any(holding.forms.shares(forms) for forms in links.values()):
            by_language[holding.language or "" if is_item else ""] = related
        for language, forms in links.items():
            held = held_by(self._lookup, forms)
            if related.page:
                has_format = held is not None and holds_dublin_core(held)
            else:
                has_format = not related.format or (held is not None and related.format in held.formats)
            if has_format:
                by_language[language] = RelationTarget(forms, held, related.format, related.page)
        for language in sorted(by_language):
            yield language or None, by_language[language]

    def _metadata(self, holding: Holding) -> Iterator[tuple[str | None, RelationTarget]]:
        """Yield an item's metadata item with its formats, else the pages and formats of its own metadata."""
        if holding.metadata_item is not None:
            held = held_by(self._lookup, holding.metadata_item)
            yield None, RelationTarget(holding.metadata_item, held)
            formats = held.formats if held else {}
        else:
            held, formats = holding, holding.formats
            if holding.metadata is not None:
                yield None, RelationTarget(None, holding, page=True)
        for name in sorted(formats):
            yield name, RelationTarget(holding.metadata_item, held, name)
        if DUBLIN_CORE in formats:
            return
        if held is not None and held is not holding and holds_dublin_core(held):
            yield DUBLIN_CORE, RelationTarget(holding.metadata_item, held, DUBLIN_CORE, page=True)
        elif holding.metadata is not None:
            yield DUBLIN_CORE, RelationTarget(None, holding, DUBLIN_CORE, page=True)

    def _written(self, holding: Holding, name: str) -> Iterator[tuple[str, RelationTarget]]:
        """Yield a format that this Archive writes of an item, unless a link to that format was given."""
        described = holding if holding.metadata_item is None else held_by(self._lookup, holding.metadata_item)
        linked = described is not None and name in described.formats
        if not linked and (name == LINKSET or metadata_of(self._lookup, holding) is not None):
            yield name, RelationTarget(None, holding, name, page=True)


def metadata_of(lookup: Lookup, holding: Holding) -> Mapping[str, tuple[MetadataValue, ...]] | None:
    """Return an item's own Dublin Core, or that of its metadata item if held; None without any."""
    if holding.metadata is not None or holding.metadata_item is None:
        return holding.metadata
    other = held_by(lookup, holding.metadata_item)
    return None if other is None else other.metadata


def holds_dublin_core(holding: Holding) -> bool:
    """Return whether an item *is* metadata and has nothing but Dublin Core: neither a file nor a URL."""
    return (
        holding.content_type is ContentType.METADATA
        and holding.metadata is not None
        and not (holding.url or holding.files)
    )
