"""QR codes: a URL as a picture that cameras read (ISO/IEC 18004)."""

from __future__ import annotations

import io

import segno


def svg(url: str) -> bytes:
    """A URL as an SVG image, dark on light also where pages are dark: cameras want it so."""
    picture = io.BytesIO()
    segno.make(url, micro=False, error="m").save(
        picture, kind="svg", scale=4, border=4, dark="#000", light="#fff", xmldecl=False, omitsize=True
    )
    return picture.getvalue()
