"""Where a relation leads, as far as one Archive knows (R15 9.2 to 9.4; pure).

    ""  .lastedition  .translation(pt)  .metadata(oai_dc)  .lastedition.metadata ...

Each step goes from one holding to another through a link that the catalogue has recorded. A link may lead out of
the Archive: then the IBI it names is known, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ibi.archive.access import nothing_withheld
from ibi.archive.holding import Holding
from ibi.identifier.forms import Name
from ibi.protocol.relation import Kind, Relation, Step, composes
from ibi.protocol.vocabulary import ContentType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.archive.access import Withheld
    from ibi.archive.holding import StoredFile
    from ibi.identifier.forms import IBIForms

Lookup = Callable[[Name], Holding | None]
"""How the item of a name is found in this Archive; None if it is not held."""

LONGEST_CHAIN = 256
"""Editions that are followed in one go; the resolver goes on from there."""

DUBLIN_CORE = "oai_dc"
"""The metadata format that we can write ourselves."""


@dataclass(frozen=True, slots=True)
class Related:
    """What a relation leads to.

    `forms`: its IBI as the link says it, None for metadata that have none. `holding`: the item that supplies URL,
    state and timestamp, None if it is not here. `format`: set where the URL is that of metadata in a format.
    `page`: whether it is our own page of the metadata *of* the holding, rather than the holding itself.
    """

    forms: IBIForms | None
    holding: Holding | None
    format: str | None = None
    page: bool = False

    @property
    def content_type(self) -> ContentType:
        """What a reader gets: metadata, or whatever the holding is."""
        if self.page or self.format or self.holding is None:
            return ContentType.METADATA
        return self.holding.content_type

    def is_same(self, other: Related) -> bool:
        """Whether both lead a reader to the same thing, whatever the links to it say."""
        mine, theirs = self.holding, other.holding
        same = mine is not None and theirs is not None and mine.forms.shares(theirs.forms)
        return same and (self.format, self.page) == (other.format, other.page)


class Edition(NamedTuple):
    """How editions go on from an item.

    `last`: the last edition, None if it is not known here. `following`: the IBI to be sent as `ibi.nextedition`.
    """

    last: Related | None
    following: IBIForms | None


class Walk:
    """The relations of one item, for one reader. `lookup` is asked only as far as a caller really walks.

    `base`: what the URLs of our own pages and files begin with; None where there are none, as behind the library
    door. `withheld`: of which items this reader may not have the data (SVC-10).
    """

    def __init__(
        self, lookup: Lookup, base: str | None, holding: Holding, withheld: Withheld = nothing_withheld
    ) -> None:
        self._lookup = lookup
        self._base = base
        self._withheld = withheld
        self.item = Related(holding.forms, holding)
        """The item itself: where every relation begins."""

    @cached_property
    def edition(self) -> Edition:
        """How editions go on from the item itself."""
        return self._edition(self.item)

    def one(self, relation: Relation) -> Related | None:
        """What exactly this relation leads to, None if that is not known here."""
        related: Related | None = self.item
        for step in relation.steps:
            branches = dict(self._branches(related, step.kind)) if related else {}
            related = branches.get(step.parameter)
        return related

    def all(self, pattern: Relation | None, longest: int = 4) -> Iterator[tuple[Relation, Related]]:
        """Every relation that leads somewhere, of those that the pattern accepts (None: of all), shortest first.

        `longest`: how many steps are taken at most; no relation has more than four.
        """
        reached: list[tuple[tuple[Step, ...], Related]] = [((), self.item)]
        while reached:
            steps, related = reached.pop(0)
            if pattern is None or len(steps) == len(pattern.steps):
                yield Relation(steps), related
            for kind in self._next_kinds(steps, pattern) if len(steps) < longest else ():
                for parameter, further in self._branches(related, kind):
                    longer = (*steps, Step(kind, parameter))
                    if pattern is None or Relation(pattern.steps[: len(longer)]).accepts(Relation(longer)):
                        reached.append((longer, further))

    def url(self, related: Related) -> str | None:
        """The URL of what a relation leads to; None if it is elsewhere, removed, or not offered in its format.

        Who may not have the data of an item gets the page about it.
        """
        holding = self._living(related)
        if holding is None:
            return None
        if related.page:
            return self._page("metadata", holding, f"?format={related.format}" if related.format else "")
        if self.is_withheld(related):
            return None if related.format else self._page("item", holding)
        return holding.formats.get(related.format) if related.format else self._data(holding)

    def file_url(self, related: Related, path: str) -> str | None:
        """The URL of one file; None if no such file is listed, or if this reader may not have it.

        What a linked item consists of is not known here.
        """
        holding = self._living(related)
        if holding is None or related.page or related.format or self._withheld(holding):
            return None
        file = holding.file(path)
        return self._file(holding, file) if file else None

    def file_list_url(self, related: Related) -> str | None:
        """The URL of the page that lists the files (SVC-08, third variant); None where file_url has none either."""
        holding = self._living(related)
        if holding is None or related.page or self._withheld(holding):
            return None
        return self._page("files", holding)

    def is_withheld(self, related: Related) -> bool:
        """Whether something stands in for what a relation leads to, because this reader may not have that.

        The metadata that we keep of an item are everybody's; an item that is the metadata of another one is an item.
        """
        holding = related.holding
        if holding is None or related.page:
            return False
        if related.format and holding.content_type is not ContentType.METADATA:
            return False
        return self._withheld(holding)

    def _data(self, holding: Holding) -> str | None:
        """Where an item itself is: elsewhere, in a file that stands for it, or on a page of ours."""
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

    @staticmethod
    def _living(related: Related) -> Holding | None:
        return None if related.holding is None or related.holding.deleted else related.holding

    def _held(self, forms: IBIForms) -> Holding | None:
        found = self._lookup(forms.main)
        return self._lookup(forms.ibip) if found is None and forms.rep and forms.ibip else found

    @staticmethod
    def _next_kinds(steps: tuple[Step, ...], pattern: Relation | None) -> Iterator[Kind]:
        if pattern is not None:
            yield from (step.kind for step in pattern.steps[len(steps) : len(steps) + 1])
            return
        kinds = tuple(step.kind for step in steps)
        yield from (kind for kind in Kind if composes((*kinds, kind)))

    def _branches(self, related: Related, kind: Kind) -> Iterator[tuple[str | None, Related]]:
        """The steps of one kind that can be taken from here, by parameter."""
        if related.holding is None:
            return
        if kind is Kind.LAST_EDITION:
            last = (self.edition if related is self.item else self._edition(related)).last
            if last is not None:
                yield None, last
        elif kind is Kind.TRANSLATION:
            yield from self._translations(related)
        else:
            yield from self._metadata(related.holding)

    def _edition(self, related: Related) -> Edition:
        """Follow the next editions as far as they are held (URL-18, SVC-14 to SVC-16).

        While the chain stays here its end is the last edition; without a next edition that is the item itself. If
        it leaves the Archive, the URL of the last edition is not known: the farthest IBI that is known is sent as
        `ibi.nextedition`, which spares the resolver a round for each edition in between. A circle has no last
        edition and no way on.
        """
        holding, forms = related.holding, related.forms
        first = holding.next_edition if holding else None
        seen: set[str] = set()
        for _ in range(LONGEST_CHAIN):
            if holding is None:
                break
            if holding.next_edition is None:
                return Edition(replace(related, forms=forms, holding=holding), first)
            if not seen.isdisjoint(holding.forms.canonicals):
                return Edition(None, None)
            seen |= holding.forms.canonicals
            forms = holding.next_edition
            holding = self._held(forms)
        return Edition(None, forms)

    def _translations(self, related: Related) -> Iterator[tuple[str | None, Related]]:
        """By language: those linked, and the item itself under its own, or under none if it states none (AMB-47).

        A link to the item itself states its language, too.
        """
        holding = related.holding
        assert holding is not None  # noqa: S101 - _branches saw to it
        by_language: dict[str, Related] = {}
        links = {} if related.page else holding.translations
        if related.page or not any(holding.forms.shares(forms) for forms in links.values()):
            by_language["" if related.page else holding.language or ""] = related
        for language, forms in links.items():
            held = self._held(forms)
            if not related.format or (held and related.format in held.formats):
                by_language[language] = Related(forms, held, related.format)
        for language in sorted(by_language):
            yield language or None, by_language[language]

    def _metadata(self, holding: Holding) -> Iterator[tuple[str | None, Related]]:
        """The item that is this one's metadata; or else our own pages of the Dublin Core that we keep."""
        if holding.metadata_item is not None:
            held = self._held(holding.metadata_item)
            yield None, Related(holding.metadata_item, held)
            formats = held.formats if held else {}
        else:
            held, formats = holding, holding.formats
            if holding.metadata is not None:
                yield None, Related(None, holding, page=True)
        for name in sorted(formats):
            yield name, Related(holding.metadata_item, held, name)
        if DUBLIN_CORE in formats:
            return
        if held is not None and held is not holding and holds_dublin_core(held):
            yield DUBLIN_CORE, Related(holding.metadata_item, held, DUBLIN_CORE, page=True)
        elif holding.metadata is not None:
            yield DUBLIN_CORE, Related(None, holding, DUBLIN_CORE, page=True)


def holds_dublin_core(holding: Holding) -> bool:
    """Whether an item *is* metadata, and what it consists of is the Dublin Core that the catalogue keeps."""
    return (
        holding.content_type is ContentType.METADATA
        and holding.metadata is not None
        and not (holding.url or holding.files)
    )
