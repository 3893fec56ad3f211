"""What writes pages, for an institution that has neither a name nor anything else of its own."""

from __future__ import annotations

from functools import partial

from ibi.web import archive_pages, rendering, resolver_pages
from ibi.web.branding import Branding

BRANDING = Branding(address="archive.example")
OF_A_RESOLVER = Branding(is_archive=False, address="resolver.example")
RENDERER = archive_pages.renderer(BRANDING)

render = partial(archive_pages.render, branding=BRANDING)
alert = partial(resolver_pages.alert, branding=OF_A_RESOLVER)
explanation = partial(resolver_pages.explanation, branding=OF_A_RESOLVER)
find = partial(resolver_pages.find, branding=OF_A_RESOLVER)
home = partial(resolver_pages.home, branding=OF_A_RESOLVER)


def html(template: str, language: str, **values: object) -> bytes:
    """A page of an Archive from a template."""
    return rendering.html(template, language, BRANDING, **values)
