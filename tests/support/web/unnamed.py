"""What writes pages, for an institution that has neither a name nor anything else of its own."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ibi.resolver.pages.page_language import PageLanguage
from ibi.web import archive_pages, rendering, resolution_pages, resolver_pages
from ibi.web.branding import Branding

if TYPE_CHECKING:
    from collections.abc import Callable

BRANDING = Branding(address="archive.example")
OF_A_RESOLVER = Branding(is_archive=False, address="resolver.example")
RENDERER = archive_pages.renderer(BRANDING)

render = partial(archive_pages.render, branding=BRANDING)


def _of_a_resolver(write: Callable[..., bytes]) -> Callable[..., bytes]:
    """A page of a resolver; the last value is its language, chosen or only preferred."""
    return lambda *values: write(
        *values[:-1],
        PageLanguage(values[-1]) if isinstance(values[-1], str) else values[-1],
        OF_A_RESOLVER,
    )


alert = _of_a_resolver(lambda value, *rest: resolution_pages.alert(value, {}, *rest))
explanation = _of_a_resolver(lambda value, *rest: resolution_pages.explanation(value, {}, *rest))
find = _of_a_resolver(resolver_pages.find)
home = _of_a_resolver(lambda value, *rest: resolver_pages.home(value, "http://resolver.example", *rest))


def html(template: str, language: str, **values: object) -> bytes:
    """A page of an Archive from a template."""
    return rendering.html(template, language, BRANDING, **values)
