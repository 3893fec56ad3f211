"""The branding of pages by an institution: texts in the reader's language, pictures, and a sheet of colours."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.runtime.i18n import say
from ibi.runtime.settings.institution import Institution, read_picture
from ibi.web.assets import asset
from ibi.web.colour_scheme import ColourScheme

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.web.assets import Asset

_SHEET: Final = "text/css; charset=utf-8"


class BrandingTexts(NamedTuple):
    """What the frame of a page shows, in one language; "" for what the institution leaves out.

    `brand`, `logo` and `cover` are the paths of the sheet of colours and of pictures; `contact_url` is a link;
    `greeting` to `privacy` are paragraphs; `registers`: whether Archives can apply at this resolver.
    """

    name: str
    subtitle: str
    brand: str
    logo: str
    cover: str
    is_archive: bool
    registers: bool
    has_own_font: bool
    welcome: str
    greeting: tuple[str, ...]
    about: tuple[str, ...]
    policies: tuple[str, ...]
    privacy: tuple[str, ...]
    address_lines: tuple[str, ...]
    contact: str
    contact_url: str


@dataclass(frozen=True, slots=True)
class Branding:
    """The branding of one service. `address`: where it answers; `admin`: the contact if there is no other.

    `registers`: whether Archives can apply at this resolver.
    """

    institution: Institution = Institution()  # noqa: RUF009 - an immutable value
    is_archive: bool = True
    address: str = ""
    admin: str = ""
    registers: bool = False
    assets: Mapping[str, Asset] = field(init=False, compare=False)
    """What pages fetch besides the files of the program, by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "assets", _assets(self.institution))

    def texts(self, language: str) -> BrandingTexts:
        """Return what the frame of a page shows, in a language."""
        return _texts(self, language)


@lru_cache(maxsize=16)
def branding_of(
    institution: Institution, address: str, admin: str, *, is_archive: bool, registers: bool = False
) -> Branding:
    """Return the branding of a service; it is made once for the same values."""
    return Branding(institution, is_archive, address, admin, registers)


@lru_cache(maxsize=64)
def _texts(branding: Branding, language: str) -> BrandingTexts:
    of = branding.institution
    addresses = {name.partition(".")[0]: each.address for name, each in branding.assets.items()}
    heading, _, rest = of.text("welcome", language).partition("\n")
    contact = of.contact or branding.admin
    is_page = contact.startswith(("https://", "http://"))
    return BrandingTexts(
        of.text("name", language) or _usual_name(branding, language),
        of.text("subtitle", language),
        addresses.get("brand", ""),
        addresses.get("logo", ""),
        addresses.get("cover", ""),
        branding.is_archive,
        branding.registers,
        of.font == "ours",
        heading,
        _paragraphs(rest),
        _paragraphs(of.text("about", language)),
        _paragraphs(of.text("policies", language)),
        _paragraphs(of.text("privacy", language)),
        tuple(of.postal_address.splitlines()),
        contact.partition("://")[2].rstrip("/") if is_page else contact,
        contact if is_page or not contact else f"mailto:{contact}",
    )


def _usual_name(branding: Branding, language: str) -> str:
    if branding.is_archive:
        return say("Archive {address}", language, address=branding.address)
    return say("Resolver {address}", language, address=branding.address)


def _paragraphs(text: str) -> tuple[str, ...]:
    """Split a text at its empty lines; lines that follow one another are one paragraph."""
    return tuple(" ".join(each.split()) for each in text.split("\n\n") if each.strip())


def _assets(institution: Institution) -> dict[str, Asset]:
    found = {}
    if institution.colour:
        found["brand.css"] = asset("brand.css", ColourScheme.of(institution.colour).sheet(), _SHEET)
    for name in ("logo", "cover"):
        picture = read_picture(name, getattr(institution, name))
        if picture is not None:
            file_name = f"{name}.{picture.kind.partition('/')[2].partition('+')[0]}"
            found[file_name] = asset(file_name, picture.content, picture.kind)
    return found
