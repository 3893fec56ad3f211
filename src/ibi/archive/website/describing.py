"""What is known of an item, in the format that who asks wants: by name, by the header Accept, or as links.

/-/metadata/<ibi>?format=bibtex        by name; also at /-/item/<ibi>
Accept: application/x-bibtex           at both pages; at a persistent URL the answer is 303 to the first of them
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from ibi.archive.access import day_of
from ibi.archive.website.conditions import kept
from ibi.archive.website.formats import OAI_DC, Described, described, wanted
from ibi.archive.website.pages import unknown_kind
from ibi.archive.website.signposting import Signposting, headers
from ibi.errors import NotHeld
from ibi.exchange import NO_STORE, Response, redirect, visible
from ibi.protocol.query_string import read_query, with_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.holding import Holding
    from ibi.archive.related import Lookup
    from ibi.archive.website.formats import Format, Wanted
    from ibi.archive.website.pages import Renderer
    from ibi.archive.website.showing import Showing
    from ibi.exchange import Asked
    from ibi.settings import ArchiveSettings

_NO_SUCH: Final = "there are no metadata of {name} in this format; there are: {formats}"
_MOST_WISHES: Final = 256
_OPTIONS: Final = ("style", "locale")


class Describing:
    """Writes what is known of the items of one Archive in the formats that there are."""

    def __init__(
        self,
        settings: ArchiveSettings,
        base: str,
        lookup: Lookup,
        renderer: Renderer | None,
        showing: Showing,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._base = base
        self._lookup = lookup
        self._renderer = renderer
        self._showing = showing
        self._now = now
        self._formats = {each.name: each for each in (renderer.formats if renderer else (OAI_DC,))}
        choose = partial(wanted, formats=tuple(self._formats.values()))
        self._wanted: Callable[[str], Wanted] = lru_cache(_MOST_WISHES)(choose)
        root = (settings.resolver or base).rstrip("/")
        kind = renderer.kind if renderer else unknown_kind
        self.signposting = Signposting(base, root, tuple(self._formats.values()), kind)
        """The links of pages, files and metadata."""

    def described(self, holding: Holding) -> Described | None:
        """An item with all that a format may say of it; None if nothing is said."""
        settings = self._settings
        return described(
            self._lookup, holding, self._base, settings.resolver, settings.address, day_of(self._now())
        )

    def formats(self, holding: Holding, item: Described | None) -> dict[str, str]:
        """Where the metadata of an item are in other formats than the page, by name."""
        ours = self._formats if item is not None else ()
        return {name: _at(holding, name) for name in ours} | dict(holding.formats)

    def document(self, asked: Asked, holding: Holding) -> Response | None:
        """The answer to whoever wants a format; None to whom the page suits.

        Raises NotHeld for a name that there is not (note 19); what Accept asks for in vain is refused with 406.
        """
        query = dict(read_query(asked.query))
        name = query.get("format", "")
        if name:
            return self._by_name(asked, holding, name, query)
        choice = self._wanted(asked.header(b"accept"))
        if choice.format is None and choice.page:
            return None
        item = self.described(holding)
        if item is None or self._renderer is None:
            return None
        if choice.format is not None:
            try:
                return self._written(asked, item, choice.format, choice.options)
            except NotHeld as error:
                return self._refused(asked, error)
        return self._refused(asked, self._no_such(item))

    def see_other(self, asked: Asked, holding: Holding) -> Response | None:
        """Where a persistent URL leads whoever wants a format of the metadata; None to whom it leads to the item.

        A format in which the item itself is kept is no wish for its metadata.
        """
        file = holding.target_file
        own = file.media_type.partition(";")[0] if file else ""
        formats = tuple(each for each in self._formats.values() if own not in each.media_types)
        choice = wanted(asked.header(b"accept"), formats)
        if choice.format is None or self.described(holding) is None:
            return None
        options = "".join(
            f"&{name}={visible(choice.options[name], '&#+')}" for name in _OPTIONS if name in choice.options
        )
        where = ("location", visible(_at(holding, choice.format.name) + options))
        vary = ("vary", "Accept, Accept-Language")
        return Response(303, headers=(where, vary, *NO_STORE, self.cite_as(holding)))

    def cite_as(self, holding: Holding) -> tuple[str, str]:
        """The link to the URL under which an item is to be cited (RFC 8574)."""
        return "link", self.signposting.cite_as(holding).header()

    def _by_name(self, asked: Asked, holding: Holding, name: str, options: Mapping[str, str]) -> Response:
        if name in holding.formats:
            return redirect(holding.formats[name])
        item = self.described(holding)
        if item is None:
            raise NotHeld("this Archive keeps no metadata of {name} itself", name=holding.forms.main)
        if name not in self._formats:
            raise self._no_such(item)
        return self._written(asked, item, self._formats[name], options)

    def _written(self, asked: Asked, item: Described, which: Format, options: Mapping[str, str]) -> Response:
        language = self._renderer.language(asked.header(b"accept-language")) if self._renderer else "en"
        body = which.write(item, {"locale": language} | {n: options[n] for n in _OPTIONS if n in options})
        links = headers(self.signposting.of_metadata(item.holding))
        vary = ("vary", "Accept, Accept-Language")
        return kept(asked, body, which.content_type, "public, no-cache", vary, *links)

    def _refused(self, asked: Asked, why: NotHeld) -> Response:
        return self._showing.refuse(asked, 406, why).having(("vary", "Accept, Accept-Language"))

    def _no_such(self, item: Described) -> NotHeld:
        known = ", ".join(self.formats(item.holding, item))
        return NotHeld(_NO_SUCH, name=item.holding.forms.main, formats=known)


def _at(holding: Holding, name: str) -> str:
    """Where the metadata of an item are in a format."""
    return with_query(f"/-/metadata/{holding.forms.main}", f"format={name}")
