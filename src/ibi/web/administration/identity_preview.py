"""Values for the page of an institution's identity: how its header and colours will look, in light and dark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.runtime.i18n import say
from ibi.web.branding import Branding
from ibi.web.colour_scheme import DARK_SURFACES, LIGHT_SURFACES, ColourScheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.api.institution_pages import IdentityPage
    from ibi.runtime.settings.institution import Institution
    from ibi.web.colour_scheme import Palette

# The other colours of style.css: text, secondary text, lines.
_LIGHT: Final = ("#1a1e1c", "#525a56", "#dcdfda")
_DARK: Final = ("#e8ebe9", "#aab3af", "#363d3a")


class PreviewMode(NamedTuple):
    """The colours of one mode."""

    label: str
    palette: Palette
    paper: str
    sheet: str
    ink: str
    faint: str
    line: str


class IdentityPreview(NamedTuple):
    """What is drawn: texts in the reader's language, the brand colour, and addresses of pictures ("" for none)."""

    name: str
    subtitle: str
    brand: str
    logo: str
    cover: str
    modes: tuple[PreviewMode, ...]


def identity_words(page: IdentityPage, branding: Branding, language: str) -> Mapping[str, Any]:
    """Return the values for the template of the page, besides the page itself."""
    now = branding.texts(language)
    shown = {"logo": now.logo, "cover": now.cover}
    return {
        "shown_now": {name: page.present[name] and (shown[name] or page.present[name]) for name in shown},
        "preview": page.preview and _preview(page.preview, branding, language),
    }


def _preview(institution: Institution, branding: Branding, language: str) -> IdentityPreview:
    scheme = ColourScheme.of(institution.colour)
    texts = replace(branding, institution=institution).texts(language)
    return IdentityPreview(
        texts.name,
        texts.subtitle,
        scheme.colour,
        institution.logo,
        institution.cover,
        (
            PreviewMode(say("Light", language), scheme.light, *LIGHT_SURFACES[:2], *_LIGHT),
            PreviewMode(say("Dark", language), scheme.dark, *DARK_SURFACES[:2], *_DARK),
        ),
    )
