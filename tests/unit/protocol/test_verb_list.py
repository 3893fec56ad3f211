"""Lists of verbs."""

import pytest

from ibi.errors import ParseError
from ibi.protocol.verb_list import GET_FILE_LIST, VerbList


@pytest.mark.proves("AMB-28")
def test_blanks_and_plus_signs_separate() -> None:
    assert VerbList.parse("GetLastEdition+GetMetadata") == VerbList.parse("GetLastEdition  GetMetadata")
    assert str(VerbList.parse("GetLastEdition+GetMetadata")) == "GetLastEdition GetMetadata"
    assert VerbList.parse("") == VerbList()


@pytest.mark.proves("URL-08", "URL-20")
def test_where_the_file_list_is_asked_for_does_not_matter() -> None:
    first, last = VerbList.parse("GetFileList GetMetadata"), VerbList.parse("GetMetadata GetFileList")
    assert first.relation == last.relation
    assert GET_FILE_LIST in first.verbs
    assert GET_FILE_LIST in last.verbs


@pytest.mark.proves("URL-09", "AMB-41")
def test_a_union_drops_only_what_is_already_there() -> None:
    modifier = VerbList.parse("GetTranslation GetMetadata GetTranslation")
    assert modifier.union(["GetMetadata", "GetFileList", "GetFileList"]).verbs == (
        *modifier.verbs,
        "GetFileList",
    )


@pytest.mark.parametrize(
    "text",
    [
        "getmetadata",
        "GetMetadata(",
        "Get",
        "GetLastEdition(x)",
        "GetTranslation(x)",
        "G" * 600,
        "GetMetadata,GetFileList",
    ],
)
def test_a_word_that_is_no_verb_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        VerbList.parse(text)
