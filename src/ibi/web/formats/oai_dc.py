"""Write oai_dc for harvesters (OAI-PMH 2.0, 2.5; pure).

It follows the OpenAIRE Guidelines for Literature Repositories 3, which build on the DRIVER Guidelines
2.0; LA Referencia uses both. The depositor's values are kept in order. Before them come the values that
aggregators look for: the persistent URL and the file, the kind, the access.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item import ELEMENTS, Access
from ibi.archive.model.record_values import author, contributor, day_of
from ibi.archive.oai.envelope import NOT_XML, OAI_DC_HEAD, xml_text, xml_value
from ibi.web.formats.datacite import ACCESS_RIGHTS, SEMANTICS
from ibi.web.formats.record import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ibi.archive.model.formats import DescribedItem

    Statement = tuple[str, str | None]


_CODES: Final = """
aaaar ababk aeave afafr akaka amamh anarg arara asasm avava ayaym azaze babak bebel bgbul bibis bmbam bnben bobod
brbre bsbos cacat ceche chcha cocos crcre csces cuchu cvchv cycym dadan dedeu dvdiv dzdzo eeewe elell eneng eoepo
esspa etest eueus fafas ffful fifin fjfij fofao frfra fyfry gagle gdgla glglg gngrn guguj gvglv hahau heheb hihin
hohmo hrhrv hthat huhun hyhye hzher iaina idind ieile igibo iiiii ikipk ioido isisl itita iuiku jajpn jvjav kakat
kgkon kikik kjkua kkkaz klkal kmkhm knkan kokor krkau kskas kukur kvkom kwcor kykir lalat lbltz lglug lilim lnlin
lolao ltlit lulub lvlav mgmlg mhmah mimri mkmkd mlmal mnmon mrmar msmsa mtmlt mymya nanau nbnob ndnde nenep ngndo
nlnld nnnno nonor nrnbl nvnav nynya ococi ojoji omorm orori ososs papan pipli plpol pspus ptpor quque rmroh rnrun
roron rurus rwkin sasan scsrd sdsnd sesme sgsag sisin skslk slslv smsmo snsna sosom sqsqi srsrp ssssw stsot susun
svswe swswa tatam tetel tgtgk ththa titir tktuk tltgl tntsn toton trtur tstso tttat twtwi tytah uguig ukukr ururd
uzuzb veven vivie vovol wawln wowol xhxho yiyid yoyor zazha zhzho zuzul
"""
_THREE: Final = {word[:2]: word[2:] for word in _CODES.split()}
_TAG: Final = re.compile(r"([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{2,8})*", re.ASCII)


def three_letters(text: str) -> str:
    """Return the ISO 639-3 code of a language tag: "por" of "pt-BR" and of "por"; any other text as it is."""
    found = _TAG.fullmatch(text)
    if found is None:
        return text
    code = found[1].lower()
    return _THREE.get(code, code if len(code) == 3 else text)  # noqa: PLR2004 - it has three letters already


_EMBARGO: Final = "info:eu-repo/date/embargoEnd/"
_TYPES: Final = {
    "JournalArticle": "article", "Preprint": "preprint", "Book": "book", "BookChapter": "bookPart",
    "ConferencePaper": "conferenceObject", "Poster": "conferenceObject", "Presentation": "lecture",
    "Report": "report", "doctoral": "doctoralThesis", "master": "masterThesis", "bachelor": "bachelorThesis",
}  # fmt: skip
"""Genre of a thesis, or DataCite's name of the kind -> type of the guidelines; for all others "other"."""
_OTHER_TYPES: Final = ("review", "workingPaper", "annotation", "contributionToPeriodical", "patent", "other")
_KNOWN_TYPES: Final = frozenset(f"{SEMANTICS}{word}" for word in (*_TYPES.values(), *_OTHER_TYPES))


_PEOPLE: Final = {"creator": author, "contributor": contributor}


def write(item: DescribedItem) -> str:
    """Write the item as one element oai_dc:dc for harvesters, which declares its own namespaces and schema.

    `archive.model.item.write_oai_dc` writes only the depositor's values, without those for aggregators.
    """
    before, after = _before(item), _after(item)
    lines = [OAI_DC_HEAD]
    for name in ELEMENTS:
        own: Iterable[Statement] = item.metadata.get(name, ())
        if name == "language":
            own = ((three_letters(value.strip()), None) for value, _ in own)
        elif name == "date":
            own = [(_iso(value, language or item.holding.language or ""), None) for value, language in own]
        elif name in _PEOPLE:
            own = [(_PEOPLE[name](value).name, language) for value, language in own]
        first, last = ([(value, None) for value in more.get(name, ())] for more in (before, after))
        for value, language in dict.fromkeys((*first, *own, *last)):
            text = xml_text(NOT_XML.sub("", value).strip())
            if text:
                tag = f" xml:lang={xml_value(language)}" if language else ""
                lines.append(f"<dc:{name}{tag}>{text}</dc:{name}>")
    return "".join((*lines, "</oai_dc:dc>"))


def _before(item: DescribedItem) -> dict[str, Sequence[str]]:
    """Return element -> values for aggregators before the depositor's; empty values are left out later.

    They are the persistent URL, the URL of an open file, a type of the guidelines, access and licence,
    and the name of the institution if the depositor names no publisher.
    """
    holding = item.holding
    access = holding.access_on(item.day)
    file = holding.target_file
    address = f"{item.base}/col/{holding.forms.main}/doc/{file.name}" if file else holding.url
    types = [value.strip() for value, _ in item.metadata.get("type", ())]
    kind = kind_of(types)
    word = _TYPES.get(kind.genre) or _TYPES.get(kind.datacite, "other")
    return {
        "identifier": (item.url, address if access is Access.OPEN else ""),
        # The item may already have a type of the guidelines, but not as its first type.
        "type": (next((value for value in types if value in _KNOWN_TYPES), f"{SEMANTICS}{word}"),),
        "language": (three_letters(holding.language or ""),),
        "rights": (ACCESS_RIGHTS[access], holding.licence, holding.rights),
        "publisher": () if item.metadata.get("publisher") else (item.institution,),
    }


def _after(item: DescribedItem) -> dict[str, Sequence[str]]:
    """Return element -> values after the depositor's: year if undated, end of an embargo, media types."""
    holding = item.holding
    access = holding.access_on(item.day)
    undated = "date" not in item.metadata
    year = (holding.forms.main.date.text or holding.timestamp)[:4] if undated else ""
    embargo = f"{_EMBARGO}{holding.embargo}" if access is Access.EMBARGOED else ""
    files = holding.files if holding.file_list_public and access is Access.OPEN else ()
    return {"date": (year, embargo), "format": [file.media_type.partition(";")[0] for file in files]}


def _iso(text: str, language: str) -> str:
    """Write a date in ISO form; a text that begins with the year, or has no month, stays as it is."""
    day = day_of(text, language)
    return str(day) if day and day.month and not text[:4].isdecimal() else text
