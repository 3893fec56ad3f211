"""Whatever colour an institution has, its pages are legible."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ibi.web
from ibi.errors import SetupError
from ibi.runtime.settings.institution import canonical_colour
from ibi.web.colour_scheme import DARK_SURFACES, DEFAULT, LIGHT_SURFACES, ColourScheme, Palette, contrast

COLOURS = st.integers(0, 0xFFFFFF).map("#{:06x}".format)
CORNERS = [f"#{red}{green}{blue}" for red in ("00", "ff") for green in ("00", "ff") for blue in ("00", "ff")]


def legible(colour: str) -> bool:
    brand = ColourScheme.of(colour)
    light, dark = brand.light, brand.dark
    return (
        all(contrast(light.accent, each) >= 5.2 for each in (*LIGHT_SURFACES, light.awash))
        and all(contrast(dark.accent, each) >= 6.0 for each in (*DARK_SURFACES, dark.awash))
        and all(
            contrast(each.on, ground) >= 5.7 for each in (light, dark) for ground in (each.accent, each.over)
        )
        and contrast(brand.ink, brand.colour) >= 4.5
        and brand.colour == colour
    )


@given(COLOURS)
def test_every_brand_gives_legible_links_buttons_and_cards(colour: str) -> None:
    assert legible(colour)


@pytest.mark.parametrize("colour", CORNERS)
def test_so_do_the_corners_of_the_cube(colour: str) -> None:
    assert legible(colour)


@pytest.mark.parametrize(
    ("colour", "light", "soft", "dark", "dark_soft"),
    [
        ("#0b6b5d", "#0b6b5d", "#e6f7f3", "#64b5a4", "#152d28"),
        ("#1d4e89", "#1d4e89", "#ebf3ff", "#76a9eb", "#1d2837"),
        ("#f2b705", "#816000", "#f8f2e5", "#e5bb60", "#2f2615"),
        ("#c8102e", "#c51b31", "#ffeeed", "#ed8b87", "#362120"),
        ("#7ec8e3", "#1e6d86", "#e6f5fb", "#7ec8e3", "#152b33"),
    ],
)
def test_a_brand_keeps_its_hue(colour: str, light: str, soft: str, dark: str, dark_soft: str) -> None:
    brand = ColourScheme.of(colour)
    assert (brand.light.accent, brand.light.awash) == (light, soft)
    assert (brand.dark.accent, brand.dark.awash) == (dark, dark_soft)


def test_an_accent_is_the_brand_itself_where_that_is_legible() -> None:
    assert ColourScheme.of("#0b6b5d").light.accent == "#0b6b5d"
    assert ColourScheme.of("#7ec8e3").dark.accent == "#7ec8e3"


def test_text_on_the_brand_is_white_where_that_is_legible_and_else_what_is_better() -> None:
    assert ColourScheme.of("#0b6b5d").ink == "#ffffff"
    assert ColourScheme.of("#f2b705").ink == "#000000"


def test_contrasts_are_those_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)
    assert contrast("#abcdef", "#abcdef") == 1


def test_the_sheet_has_every_colour_in_both_modes() -> None:
    brand = ColourScheme.of("#F2B705")
    common, _, dark = brand.sheet().decode().partition("@media(prefers-color-scheme:dark)")
    for name, colour in (
        ("brand", "#f2b705"),
        ("brand-ink", "#000000"),
        ("accent", "#816000"),
        ("on", "#ffffff"),
    ):
        assert f"--{name}:{colour};" in common
    for name, colour in (("accent", "#e5bb60"), ("over", "#f9cf73"), ("on", "#10140f"), ("aline", "#5f4d27")):
        assert f"--{name}:{colour};" in dark


@pytest.mark.parametrize(
    ("colour", "ink", "light", "dark"),
    [
        ("#000000", "#ffffff", "#000000 #000000 #f2f2f2 #cacaca",
         "#a7a7a7 #b9b9b9 #282828 #505050"),
        ("#ffffff", "#000000", "#656565 #525252 #f2f2f2 #cacaca",
         "#d7d7d7 #e8e8e8 #282828 #505050"),
        ("#ff0000", "#000000", "#c51f16 #a80000 #feeeec #efbdb4",
         "#ed8c7e #ffa092 #36221e #6d433c"),
        ("#00ff00", "#000000", "#007600 #005f00 #ecf6eb #b5d5b1",
         "#a4e89e #b8fcb1 #1e2c1d #3c583a"),
        ("#0000ff", "#ffffff", "#1846c2 #052eab #ecf3ff #b7cbf3",
         "#80a6f3 #97b9ff #202838 #3f4f71"),
        ("#ffff00", "#000000", "#696900 #555500 #f3f4e6 #cccfa2",
         "#dcdf7e #edef8e #292916 #52532a"),
        ("#010203", "#ffffff", "#010203 #000000 #eef3f7 #c6cbcf",
         "#a2a7aa #b4b9bd #24282b #4c5054"),
        ("#d8d8ff", "#000000", "#626284 #4f4e6f #f1f1ff #c6c6ed",
         "#d3d3fa #e5e5ff #262537 #4d4c6c"),
        ("#767676", "#ffffff", "#656565 #525252 #f2f2f2 #cacaca",
         "#a7a6a6 #b9b9b9 #282828 #505050"),
        ("#3fa34d", "#000000", "#007623 #005f1b #ebf6eb #b2d6b4",
         "#6eb774 #81ca86 #1d2c1e #3a593c"),
    ],
)  # fmt: skip
def test_all_colours_of_a_brand(colour: str, ink: str, light: str, dark: str) -> None:
    brand = ColourScheme.of(colour)
    assert (brand.colour, brand.ink) == (colour, ink)
    for palette, known, on in ((brand.light, light, "#ffffff"), (brand.dark, dark, "#10140f")):
        accent, over, awash, aline = known.split()
        assert palette == Palette(accent, over, on, awash, aline)


def test_the_sheet_is_one_rule_for_each_mode() -> None:
    def declared(palette: Palette) -> str:
        names = ("accent", "over", "on", "awash", "aline")
        return "".join(f"--{name}:{getattr(palette, name)};" for name in names)

    brand = ColourScheme.of("#f2b705")
    light, dark = declared(brand.light), declared(brand.dark)
    assert brand.sheet().decode() == (
        f":root{{--brand:#f2b705;--brand-ink:#000000;{light}}}"
        f"@media(prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )


def test_without_a_colour_there_is_one() -> None:
    assert ColourScheme.of("").colour == DEFAULT


@pytest.mark.parametrize(
    ("text", "colour"), [("#0B6B5D", "#0b6b5d"), ("0b6b5d", "#0b6b5d"), (" #abc ", "#aabbcc")]
)
def test_a_colour_may_be_written_as_people_write_it(text: str, colour: str) -> None:
    assert canonical_colour(text) == colour


@pytest.mark.parametrize("text", ["#", "green", "#12345", "#1234567", "#0b6b5g", "rgb(1,2,3)", "#١٢٣٤٥٦"])
def test_anything_else_is_no_colour(text: str) -> None:
    with pytest.raises(SetupError) as caught:
        canonical_colour(text)
    assert str(caught.value) == (
        f"a colour is # and six hexadecimal digits, such as #0b6b5d, and this is not: {text}"
    )


def test_the_surfaces_are_those_of_the_style_sheet() -> None:
    sheet = (Path(ibi.web.__file__).parent / "static" / "style.css").read_text()
    light, _, rest = sheet.partition("@media (prefers-color-scheme: dark)")
    dark = rest.partition("}\n}")[0]
    for part, surfaces in ((light, LIGHT_SURFACES), (dark, DARK_SURFACES)):
        declared = dict(re.findall(r"--(paper|sheet|wash): (#[0-9a-f]{6});", part))
        assert (declared["paper"], declared["sheet"], declared["wash"]) == surfaces
