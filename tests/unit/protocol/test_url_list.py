"""URL lists: what an Archive answers."""

import pytest

from ibi.identifier.forms import IBIForms
from ibi.protocol.language import LanguagePreference
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.url_list import Entry, UrlList, entry_pairs, find_wanted
from ibi.protocol.vocabulary import ContentType, ItemState

METADATA = Relation.from_modifier(":(oai_dc)")
BODY = b"""archiveaddress a.example
contenttype Data
contenttype.metadata(oai_dc) Metadata
ibi {rep a.example/x/2020/01.02.03.04 ibip LK47B6W/362SFKH}
ibi.archiveservice {rep a.example/x/2020/01.01.01.01}
ibi.metadata(oai_dc) {ibip LK47B6W/362SFKJ}
ibi.nextedition {ibip LK47B6W/362SFKK}
ibi.platformsoftware {}
state Original
state.metadata(oai_dc) Copy
timestamp 2021-01-01T00:00:00Z
url http://a.example/x
url.metadata(oai_dc) http://a.example/m
urlkey 1234567890
x.unknown pair"""

pytestmark = pytest.mark.proves("MSG-26", "SVC-04", "SVC-05")


@pytest.mark.proves("MSG-15")
def test_every_pair_has_its_place() -> None:
    answer = UrlList.read(BODY)
    assert answer
    assert answer.archive_address == "a.example"
    assert str(answer.archive_service) == "rep a.example/x/2020/01.01.01.01"
    assert answer.platform_software is None
    assert str(answer.next_edition) == "ibip LK47B6W/362SFKK"
    assert (answer.state, answer.url_key, answer.timestamp) == (
        ItemState.ORIGINAL,
        "1234567890",
        "2021-01-01T00:00:00Z",
    )
    assert list(answer.relations()) == [ITEM, METADATA]
    assert answer.entry() == Entry(
        "http://a.example/x", answer.forms, ItemState.ORIGINAL, ContentType.DATA, "2021-01-01T00:00:00Z"
    )
    assert answer.entry(METADATA) == Entry(
        "http://a.example/m", IBIForms.parse("ibip LK47B6W/362SFKJ"), ItemState.COPY, ContentType.METADATA
    )
    assert answer.entry(Relation.from_modifier("!")) == Entry()


def test_what_is_offered_has_a_url_and_is_not_called_deleted() -> None:
    answer = UrlList.read(
        b"url.metadata(a) http://a.example/1 url.metadata(b) {} url.metadata(c) http://a.example/3 "
        b"state.metadata(c) Deleted url http://a.example/4 ibi.translation(pt) {ibip LK47B6W/362SFKJ}"
    )
    offered = [Relation.from_modifier(":(a)"), ITEM]
    assert list(answer.offered()) == offered
    assert [answer.url(relation) for relation in offered] == ["http://a.example/1", "http://a.example/4"]


def test_only_so_many_relations_of_one_answer_are_looked_at() -> None:
    names = [f"metadata(f{number})" for number in range(1025)]
    answer = UrlList({f"{word}.{name}": "x" for word in ("url", "ibi") for name in names})
    for word in ("url", "ibi"):
        assert len(answer.relations_of(word)) == 1024
    assert answer.offered() == answer.relations_of("url")


def test_an_empty_answer_is_false() -> None:
    assert not UrlList.read(b"")


def test_the_software_may_have_a_name_and_an_answer_shows_its_pairs() -> None:
    answer = UrlList.read(b"ibi.platformsoftware {ibip LK47B6W/362SFKH}")
    assert str(answer.platform_software) == "ibip LK47B6W/362SFKH"
    assert repr(answer) == "UrlList({'ibi.platformsoftware': ('ibip', 'LK47B6W/362SFKH')})"


def test_an_entry_is_parsed_once_until_another_one_is_read() -> None:
    answer = UrlList.read(BODY)
    assert answer.entry(METADATA) is answer.entry(METADATA)
    assert answer.entry() is answer.entry()
    assert answer.entry() != answer.entry(METADATA)


def test_a_value_out_of_its_domain_counts_as_absent() -> None:
    answer = UrlList.read(
        b"state Maybe contenttype {a b} ibi {rep nothing ibip LK47B6W/362SFKH} urlkey abc url {} ibi.nextedition x"
    )
    assert answer.entry() == Entry(forms=IBIForms.parse("ibip LK47B6W/362SFKH"))
    assert answer.url_key is None
    assert answer.next_edition is None


def test_a_language_that_only_a_name_shows_is_preferred_though_it_has_no_url() -> None:
    answer = UrlList.read(
        b"ibi.translation(pt).metadata {ibip LK47B6W/362SFKJ} url.translation(en).metadata http://a.example/en"
    )
    relation, usable = Relation.from_modifier("+:"), answer.offered()
    for header, found in (("pt,en;q=0.5", False), ("en,pt;q=0.5", True)):
        assert bool(find_wanted(answer, relation, LanguagePreference.parse(header), usable)) == found


def test_a_list_of_one_word_is_the_word_and_a_list_of_more_is_none() -> None:
    answer = UrlList.read(b"state {Copy} timestamp {t} url {http://a.example/x} contenttype {Data}")
    assert answer.entry() == Entry("http://a.example/x", None, ItemState.COPY, ContentType.DATA, "t")
    assert UrlList.read(b"state {Copy Copy} timestamp {t t} url {a b} contenttype {}").entry() == Entry()


def test_a_name_that_is_not_spelled_in_the_one_way_is_passed_over() -> None:
    answer = UrlList.read(
        b"url.translation(PT) http://a.example/1 urlx.metadata y url.metadata.metadata z urls w"
        b" url.translation(pt) http://a.example/2"
    )
    assert [str(relation.modifier) for relation in answer.relations()] == ["+(pt)"]


def test_an_older_opaque_id_among_the_forms_is_passed_over() -> None:
    forms = UrlList.read(b"ibi {rep a.example/x/2020/01.02.03.04 ibip 83LX3pFwXQZeBBx/BbsHa}").forms
    assert forms is not None
    assert forms.ibip is None


def test_what_is_written_is_read_again() -> None:
    answer = UrlList.read(BODY)
    assert UrlList.read(answer.body()) == answer
    assert hash(UrlList.read(answer.body())) == hash(answer)
    assert answer not in (UrlList({}), dict(answer.pairs))


@pytest.mark.proves("SVC-03")
def test_without_a_url_only_the_ibi_is_said() -> None:
    forms = IBIForms.parse("ibip LK47B6W/362SFKH")
    entry = Entry(None, forms, ItemState.ORIGINAL, ContentType.DATA, "2021-01-01T00:00:00Z")
    assert entry_pairs(METADATA, entry) == {"ibi.metadata(oai_dc)": forms.words}
    assert set(entry_pairs(ITEM, entry._replace(url="http://a.example/x"))) == {
        "contenttype",
        "ibi",
        "state",
        "timestamp",
        "url",
    }
