"""The colours of pages that follow from an institution's one colour, legible whatever it is.

Colours are derived in OKLCH (lightness L from 0 to 1, chroma C, hue H in radians), where equal lightness looks equally
light. A hue is never shifted: what lies outside sRGB gets less chroma. Contrasts are those of WCAG 2.2, computed for
the eight-bit colours that browsers get.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import atan2, cbrt, cos, hypot, sin
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.runtime.settings.institution import canonical_colour

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT: Final = "#1d4e89"
"""The colour of an institution that has chosen none."""

LIGHT_SURFACES: Final = ("#fbfbf9", "#ffffff", "#f2f3f0")
"""What lies under text in light mode, as in style.css: paper, sheet, wash."""
DARK_SURFACES: Final = ("#121514", "#1a1e1d", "#252a28")
"""The same in dark mode."""
LIGHT_CONTRAST: Final = 5.2
"""The least contrast of an accent with each light surface."""
DARK_CONTRAST: Final = 6.0
"""The least contrast of an accent with each dark surface."""

_WHITE, _BLACK = "#ffffff", "#000000"
_INK_CONTRAST: Final = 4.5  # of text on the brand colour itself, which is not derived
_HALVINGS: Final = 24  # of an interval of lightness or chroma: far finer than eight bits

_ROUNDING: Final = 1e-6  # by which the arithmetic may lie outside of sRGB
_LINEAR_UP_TO: Final = (
    0.04045,
    0.0031308,
)  # an encoded and a linear level, below which they are proportional

_OKLCH = tuple[float, float, float]


class _Mode(NamedTuple):
    """How the colours of one mode are derived.

    `contrast`: the least one of an accent with each of `surfaces`; `chroma`: the most that an accent keeps; `lightest`:
    what an accent begins with at most; `end`: the lightness towards which it goes until it is legible; `over`: how much
    lighter it is under the pointer, up to `lightest_over`; `awash`, `aline`: their lightness and the most chroma.
    """

    surfaces: tuple[str, ...]
    contrast: float
    chroma: float
    lightest: float
    end: float
    over: float
    lightest_over: float
    on: str
    awash: tuple[float, float]
    aline: tuple[float, float]


_LIGHT: Final = _Mode(
    LIGHT_SURFACES, LIGHT_CONTRAST, chroma=0.20, lightest=1.0, end=0.0, over=-0.07, lightest_over=1.0, on=_WHITE,
    awash=(0.962, 0.018), aline=(0.84, 0.06),
)  # fmt: skip
_DARK: Final = _Mode(
    DARK_SURFACES, DARK_CONTRAST, chroma=0.12, lightest=0.88, end=1.0, over=0.06, lightest_over=0.93, on="#10140f",
    awash=(0.275, 0.032), aline=(0.43, 0.06),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Palette:
    """The derived colours of one mode, as "#rrggbb".

    `accent`: links, main buttons, focus; `over`: these under the pointer; `on`: text on them; `awash`: the ground of
    soft cards and of chips; `aline`: the border of these.
    """

    accent: str
    over: str
    on: str
    awash: str
    aline: str


@dataclass(frozen=True, slots=True)
class ColourScheme:
    """An institution's colour, as given, the colour of text on it, and what is derived from it."""

    colour: str
    ink: str
    light: Palette
    dark: Palette

    @classmethod
    def of(cls, colour: str) -> ColourScheme:
        """Derive everything from a colour, "#rrggbb" or "#rgb". Raises SetupError for anything else."""
        return _derived(canonical_colour(colour or DEFAULT))

    def sheet(self) -> bytes:
        """Write the style sheet that gives pages these colours."""
        common = {"brand": self.colour, "brand-ink": self.ink}
        return (
            f":root{{{_declared(common)}{_declared(_names(self.light))}}}"
            f"@media(prefers-color-scheme:dark){{:root{{{_declared(_names(self.dark))}}}}}\n"
        ).encode()


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.2)."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@lru_cache(maxsize=64)
def _derived(colour: str) -> ColourScheme:
    white = contrast(colour, _WHITE)
    ink = _WHITE if white >= _INK_CONTRAST or white >= contrast(colour, _BLACK) else _BLACK
    return ColourScheme(colour, ink, *(_palette(_oklch(colour), mode) for mode in (_LIGHT, _DARK)))


def _palette(brand: _OKLCH, mode: _Mode) -> Palette:
    lightness, chroma, hue = brand
    awash, aline = (_colour(level, min(chroma, most), hue) for level, most in (mode.awash, mode.aline))
    surfaces = (*mode.surfaces, awash)

    def accent(level: float) -> str:
        return _colour(level, min(chroma, mode.chroma), hue)

    def legible(level: float) -> bool:
        return min(contrast(accent(level), each) for each in surfaces) >= mode.contrast

    lightness = min(lightness, mode.lightest)
    if not legible(lightness):
        lightness = _last(legible, mode.end, lightness)
    over = accent(min(lightness + mode.over, mode.lightest_over))
    return Palette(accent(lightness), over, mode.on, awash, aline)


def _last(holds: Callable[[float], bool], good: float, bad: float) -> float:
    """Return the value nearest to `bad` for which this still holds; it holds for `good`."""
    for _ in range(_HALVINGS):
        middle = (good + bad) / 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good


def _colour(lightness: float, chroma: float, hue: float) -> str:
    """Return the colour, with as much of its chroma as sRGB holds."""

    def inside(part: float) -> bool:
        return all(-_ROUNDING <= each <= 1 + _ROUNDING for each in _linear(lightness, part, hue))

    if not inside(chroma):
        chroma = _last(inside, 0.0, chroma)
    levels = (round(255 * _encoded(min(max(each, 0.0), 1.0))) for each in _linear(lightness, chroma, hue))
    return "#" + "".join(f"{each:02x}" for each in levels)


def _oklch(colour: str) -> _OKLCH:
    red, green, blue = _levels(colour)
    long = cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    medium = cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    short = cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    lightness = 0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short
    a = 1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short
    b = 0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short
    return lightness, hypot(a, b), atan2(b, a)


def _linear(lightness: float, chroma: float, hue: float) -> tuple[float, float, float]:
    """Return linear red, green and blue; outside 0 to 1 where sRGB has no such colour."""
    a, b = chroma * cos(hue), chroma * sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )


def _levels(colour: str) -> tuple[float, float, float]:
    """Return linear red, green and blue of "#rrggbb"."""
    red, green, blue = (_decoded(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return red, green, blue


def _luminance(colour: str) -> float:
    red, green, blue = _levels(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _decoded(level: float) -> float:
    return level / 12.92 if level <= _LINEAR_UP_TO[0] else ((level + 0.055) / 1.055) ** 2.4


def _encoded(level: float) -> float:
    return 12.92 * level if level <= _LINEAR_UP_TO[1] else 1.055 * level ** (1 / 2.4) - 0.055


def _names(palette: Palette) -> dict[str, str]:
    return {name: getattr(palette, name) for name in Palette.__slots__}


def _declared(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())
