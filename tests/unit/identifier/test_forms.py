"""Either form of an IBI, or both."""

import pytest

from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi, parse_name
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName

REP = "sid.inpe.br/mtc-m18@80/2009/02.16.17.46"
IBIP = "8JMKD3MGP8W/34PGRBS"

pytestmark = pytest.mark.proves("GEN-07", "SVC-04")


def test_each_form_is_recognised() -> None:
    assert isinstance(parse_ibi(REP), UniformRepositoryName)
    assert isinstance(parse_ibi("br/example/2020/01.02.03.04"), UniformRepositoryName)
    assert isinstance(parse_ibi(IBIP), IBIp)


@pytest.mark.proves("WILD-02")
def test_an_older_opaque_id_is_a_name_but_no_ibi() -> None:
    assert isinstance(parse_name("6RPa7umaZ/UaJFT"), LegacyId)
    with pytest.raises(ParseError):
        parse_ibi("6RPa7umaZ/UaJFT")


def test_forms_are_written_in_one_order_and_read_in_both() -> None:
    text = f"rep {REP} ibip {IBIP}"
    assert str(IBIForms.parse(text)) == text
    assert IBIForms.parse(f"ibip {IBIP} rep {REP}") == IBIForms.parse(text)
    assert IBIForms.parse(f"rep {REP}").words == ("rep", REP)


@pytest.mark.parametrize(
    "text", ["", "rep", REP, f"rep {REP} rep {REP}", f"ibip {REP}", f"rep {REP} ibip", "rep x"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        IBIForms.parse(text)


def test_an_item_without_any_form_has_no_name() -> None:
    with pytest.raises(ParseError):
        IBIForms()


@pytest.mark.proves("AMB-58", "AMB-20")
def test_forms_share_an_item_if_one_form_is_common() -> None:
    both = IBIForms.parse(f"rep {REP} ibip {IBIP}")
    assert both.shares(IBIForms.parse(f"rep {REP.upper()}"))
    assert both.names(IBIp.parse(IBIP.lower()))
    assert not both.shares(IBIForms.parse("ibip 8JMKD3MGP8W/34PGRBT"))
    assert IBIForms.of(IBIp.parse(IBIP)).main == IBIp.parse(IBIP)
    assert both.main == UniformRepositoryName.parse(REP)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a/b/c", "uniform repository name"),
        ("x.y/abc", "uniform repository name"),
        ("nothing", "IBIp"),
        ("x/y z", "IBIp"),
    ],
)
def test_what_is_no_name_is_refused_as_the_form_that_it_resembles(text: str, what: str) -> None:
    for parse in (parse_ibi, parse_name):
        with pytest.raises(ParseError) as raised:
            parse(text)
        assert raised.value.what == what


def test_forms_are_equal_and_named_by_each_form_that_they_have() -> None:
    both, rep, ibip = (
        IBIForms.parse(text) for text in (f"rep {REP} ibip {IBIP}", f"rep {REP}", f"ibip {IBIP}")
    )
    assert len({both, rep, ibip, IBIForms.parse(f"rep {REP.upper()}")}) == 3
    assert both not in {rep, ibip}
    assert rep != str(rep)
    assert IBIForms.of(UniformRepositoryName.parse(REP)) == rep
    assert IBIForms.of(IBIp.parse(IBIP)) == ibip
    names = (UniformRepositoryName.parse(REP), IBIp.parse(IBIP))
    assert [[forms.names(name) for name in names] for forms in (both, rep, ibip)] == [
        [True, True], [True, False], [False, True],
    ]  # fmt: skip
