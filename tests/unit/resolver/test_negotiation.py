"""Which metadata a header Accept asks a resolver for, and the persistent URL that it stands for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.vocabulary import METADATA_FORMATS
from ibi.resolver.negotiation import RequestedFormat, negotiable, requested_format

IBI = "8JMKD3MGP8W/35MMLL8"
BIBTEX = RequestedFormat("bibtex")
CHROME = (
    b"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
    b"application/signed-exchange;v=b3;q=0.7"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        *((kinds[0].encode(), RequestedFormat(name)) for name, kinds in METADATA_FORMATS.items()),
        (b"text/turtle;q=0.9, application/rdf+xml;q=1", RequestedFormat("rdfxml")),
        (b"text/x-bibliography; style=ABNT; locale=pt-BR; x=1", RequestedFormat("citation", "style=abnt&locale=pt-br")),
        (b'text/x-bibliography; style="a&b#\xe9%+"', RequestedFormat("citation", "style=a%26b%23%E9%25%2B")),
        *((accept, None) for accept in (b"", b"*/*", CHROME, b"application/xml", b"text/xml", b"application/json")),
        *((accept, None) for accept in (b"text/turtle;q=0", b"text/turtle, text/html", b"application/pdf")),
    ],
)  # fmt: skip
def test_a_format_is_wanted_only_where_it_is_named_and_preferred(
    accept: bytes, expected: RequestedFormat | None
) -> None:
    assert requested_format(accept) == expected


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"/{IBI}", f"/{IBI}:(bibtex)"),
        (f"/{IBI}!", f"/{IBI}!:(bibtex)"),
        (f"/{IBI}%21%2B(pt)", f"/{IBI}!+(pt):(bibtex)"),
        (f"/rep/{IBI}!).", f"/{IBI}!:(bibtex)"),
        (
            f"/{IBI}!?a=%31&ibiurl.verblist=GetTranslation(en)&ibiurl.requireditemstatus=Original&ibiurl.x=1",
            f"/{IBI}!+(en):(bibtex)?a=%31&ibiurl.requireditemstatus=Original&ibiurl.x=1",
        ),
    ],
)
def test_all_else_that_a_url_asks_for_is_kept(url: str, expected: str) -> None:
    whole = PersistentURL.from_text(url)
    metadata, item = BIBTEX.urls(whole)
    assert (metadata.text, item) == (expected, whole)
    assert metadata.relation.steps[:-1] == whole.relation.steps
    assert metadata.original_required == whole.original_required


@pytest.mark.parametrize(
    "url",
    [
        f"/{IBI}:",
        f"/{IBI}:(oai_dc)",
        f"/{IBI}!:+(pt)",
        f"/{IBI}??",
        f"/{IBI}/a.pdf",
        f"/{IBI}?ibiurl.verblist=GetFileList",
        f"/{IBI}?ibiurl.verblist=GetMetadata",
    ],
)
def test_files_lists_of_files_and_metadata_are_given_as_they_are(url: str) -> None:
    whole = PersistentURL.from_text(url)
    assert not negotiable(whole)
    assert BIBTEX.urls(whole) == (whole,)


def test_options_that_make_a_url_too_long_hide_no_item() -> None:
    whole = PersistentURL.from_text(f"/{IBI}?{'a' * 8000}")
    assert RequestedFormat("citation", "style=" + "b" * 9000).urls(whole) == (whole,)


@given(
    st.sampled_from(["", "!", "+", "+(pt)", "!+", "+(en)!"]),
    st.sampled_from(sorted(METADATA_FORMATS)),
    st.text(alphabet=st.characters(max_codepoint=255), max_size=40),
)
def test_the_url_of_the_metadata_asks_for_one_step_more(modifier: str, name: str, style: str) -> None:
    accept = f"text/x-bibliography;style={style}" if name == "citation" else METADATA_FORMATS[name][0]
    wanted = requested_format(accept.encode("latin-1"))
    if wanted is None:  # the style has a comma or a quality
        return
    [metadata, item] = wanted.urls(PersistentURL.from_text(f"/{IBI}{modifier}"))
    assert metadata.relation.steps == (*item.relation.steps, (metadata.relation.kinds[-1], name))
    assert metadata.foreign_query == wanted.options
