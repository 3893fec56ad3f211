"""Which answer satisfies, and where it leads."""

from string import ascii_lowercase

import pytest

from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.pair_list import PairList
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.query_string import with_query
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.url_list import UrlList, WantedEntry, find_wanted, without_bare_translation
from ibi.resolver.model.archive import Archive
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.selection import (
    MOST_ALTERNATIVES,
    Offer,
    alternatives,
    contradicting,
    next_requests,
    places_of,
    removed_on,
    safe_place,
)

ITEM_IBI = parse_ibi("LK47B6W/362SFKH")
SERVICE = parse_ibi("example.org/a/2020/01.01.00.00")


HOLDER = Archive(SERVICE, "a.example")


def choose(answer: UrlList, modifier: str, header: str = "") -> str | None:
    usable = [each for each in answer.offered() if Policy().is_safe(HOLDER, answer.url(each))]
    found = find_wanted(answer, Relation.from_modifier(modifier), LanguagePreference.parse(header), usable)
    return found.entry.url if found else None


TRANSLATIONS = UrlList(
    {
        "ibi": ("ibip", "LK47B6W/362SFKH"),
        "ibi.translation(en)": ("ibip", "lk47b6w/362sfkh"),
        "ibi.translation(pt)": ("ibip", "LK47B6W/362SFKJ"),
        "url": "http://a.example/item",
        "url.translation(en)": "http://a.example/en",
        "url.translation(pt)": "http://a.example/pt",
    }
)


@pytest.mark.proves("RES-07", "URL-11", "AMB-46")
def test_a_bare_translation_follows_the_preference_then_the_item_itself() -> None:
    assert choose(TRANSLATIONS, "+", "pt-BR,en;q=0.5") == "http://a.example/pt"
    assert choose(TRANSLATIONS, "+", "de") == "http://a.example/en"


@pytest.mark.proves("RES-07", "SVC-07")
def test_a_translation_without_language_comes_before_the_item_itself() -> None:
    answer = UrlList({**TRANSLATIONS.pairs, "url.translation": "http://a.example/any"})
    assert choose(answer, "+", "de") == "http://a.example/any"
    assert choose(answer, "+", "pt") == "http://a.example/pt"


def test_without_any_of_these_nothing_is_chosen() -> None:
    pairs = {name: value for name, value in TRANSLATIONS.pairs.items() if not name.startswith("ibi.")}
    assert choose(UrlList(pairs), "+", "de") is None


@pytest.mark.proves("URL-12", "URL-13", "AMB-47")
def test_a_language_that_is_named_is_not_replaced_by_another_one() -> None:
    answer = UrlList(
        {"url.translation(pt-BR)": "http://a.example/br", "url.translation(en)": "http://a.example/en"}
    )
    assert choose(answer, "+(pt)", "en") == "http://a.example/br"
    assert choose(answer, "+(pt-PT)", "en") is None
    assert choose(TRANSLATIONS, "+(en)", "pt") == "http://a.example/en"


def test_two_bare_translations_are_chosen_one_after_the_other() -> None:
    answer = UrlList(
        {
            f"url.translation({one}).metadata.translation({two})": f"http://a.example/{one}/{two}"
            for one in ("en", "pt")
            for two in ("en", "fr")
        }
    )
    assert choose(answer, "+:+", "pt,fr;q=0.5,en;q=0.1") == "http://a.example/pt/fr"


@pytest.mark.proves("RES-06", "CON-03")
def test_the_plain_url_is_never_the_answer_to_a_modified_one() -> None:
    assert choose(UrlList({"url": "http://a.example/item"}), "!") is None
    assert choose(UrlList({"url.metadata": "http://a.example/m"}), ":(oai_dc)") is None


def test_a_related_item_that_was_removed_is_not_offered() -> None:
    assert choose(UrlList({"url": "http://a.example/x", "state": "Deleted"}), "") is None


@pytest.mark.proves("RES-09", "AMB-53")
def test_what_is_known_of_the_way_is_asked_next_with_the_verbs_that_are_left() -> None:
    answer = UrlList(
        {
            "ibi": ("ibip", "LK47B6W/362SFKH"),
            "ibi.lastedition": ("ibip", "LK47B6W/2"),
            "ibi.lastedition.translation(pt)": ("ibip", "LK47B6W/3"),
            "ibi.nextedition": ("ibip", "LK47B6W/4"),
        }
    )
    relation = Relation.from_modifier("!+(pt):")
    offers = list(next_requests(answer, relation, LanguagePreference(), file_list=True))
    assert [(str(forms), str(verbs)) for forms, verbs in offers] == [
        ("ibip LK47B6W/3", "GetMetadata GetFileList"),
        ("ibip LK47B6W/2", "GetTranslation(pt) GetMetadata GetFileList"),
    ]  # and not the next edition, as the last one is known (RES-09 (a))


@pytest.mark.proves("RES-09", "AMB-53")
def test_the_next_edition_is_asked_with_all_verbs_where_the_last_one_is_not_known() -> None:
    answer = UrlList(
        {
            "ibi": ("ibip", "LK47B6W/362SFKH"),
            "ibi.translation(pt)": ("ibip", "LK47B6W/3"),
            "ibi.nextedition": ("ibip", "LK47B6W/4"),
        }
    )
    offers = next_requests(answer, Relation.from_modifier("!+(pt):"), LanguagePreference(), file_list=True)
    assert [(str(forms), str(verbs)) for forms, verbs in offers] == [
        ("ibip LK47B6W/4", "GetLastEdition GetTranslation(pt) GetMetadata GetFileList"),
    ]


@pytest.mark.parametrize(
    ("modifier", "name", "left"),
    [
        (":(oai_dc)", ".metadata(oai_dc)", "GetMetadata(oai_dc)"),
        (":(oai_dc)+(en)", ".metadata(oai_dc)", "GetMetadata(oai_dc)+GetTranslation(en)"),
        (":(oai_dc)+(en)", ".metadata(oai_dc).translation(en)", "GetMetadata(oai_dc)"),
        ("!:(oai_dc)", ".lastedition", "GetMetadata(oai_dc)"),
        (":", ".metadata", ""),
    ],
)
def test_a_format_that_was_asked_for_stays_in_every_request(modifier: str, name: str, left: str) -> None:
    answer = UrlList({f"ibi{name}": ("ibip", "LK47B6W/4")})
    [(_, verbs)] = next_requests(
        answer, Relation.from_modifier(modifier), LanguagePreference(), file_list=False
    )
    assert "+".join(verbs.verbs) == left


def test_the_next_edition_of_the_item_is_no_edition_of_its_translation() -> None:
    answer = UrlList({"ibi.nextedition": ("ibip", "LK47B6W/4")})
    assert not list(
        next_requests(answer, Relation.from_modifier("+!"), LanguagePreference(), file_list=False)
    )


@pytest.mark.proves("AMB-46")
def test_the_last_bare_translation_is_given_up_first() -> None:
    for modifier, fewer in (("+:+", "+:"), ("+:", ":"), ("!+(pt):+", "!+(pt):"), ("+", "")):
        given_up = without_bare_translation(Relation.from_modifier(modifier))
        assert given_up is not None
        assert given_up.modifier == fewer
    assert without_bare_translation(Relation.from_modifier("+(pt):")) is None


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/x",
        "https://a.example:8443",
        "HTTP://a.example/Relat%f3rio%20Final.pdf?choice=oai_dc#page",
        "http://150.163.34.243/x",
        "http://[2804:14c:0:0:0:0:0:1]/x",
        "http://mtc-m16d.sid.inpe.br/col/iconet.com.br/banon/2009/09.09.22.01/doc/@relatorio.pdf",
    ],
)
def test_ordinary_urls_are_safe(url: str) -> None:
    assert safe_place(url) is not None


@pytest.mark.proves("RES-12")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "//a.example/x",
        "/x",
        "",
        "ftp://a.example/",
        "http://user@a.example/",
        "http://evil\\@a.example/",
        "http://a.example/\r\nSet-Cookie: x",
        "http://a.example/a b",
        "http://a.example/\x00",
        "http://é.example/",
        "http://a.example/é",
        "http:///x",
        "http://./",
        "http://-/",
        "http://~/",
        "http://a..example/",
        "http://a.example../",
        "http://a.example:x/",
        "http://a.example:0/",
        "http://a.example:99999/",
        "http://a.example/" + "x" * 9000,
    ],
)
def test_tricks_are_not_safe_even_where_private_addresses_are_allowed(url: str) -> None:
    assert safe_place(url) is None
    assert safe_place(url, allow_private=True) is None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "127.1", "2130706433", "0x7f000001",
        "0177.0.0.1", "0x7f.1", "127.0.0.1.", "[::1]", "[fe80::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]",
        "[1::2::3]", "localhost", "printer.local", "a.localhost",
    ],
)  # fmt: skip
def test_a_redirect_leads_to_no_private_address_in_whatever_notation(host: str) -> None:
    assert safe_place(f"http://{host}/x") is None
    assert safe_place(f"http://{host}/x", allow_private=True) is not None


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "[::1]", "LOCALHOST.", "0.0.0.0"]
)  # fmt: skip
def test_no_url_leads_back_to_the_resolver_in_whatever_notation(host: str) -> None:
    own = places_of([("localhost", 8080), ("urlib.net", 80)])
    policy = Policy(private_urls=True, own=own)
    assert not policy.is_safe(HOLDER, f"http://{host}:8080/x")
    assert policy.is_safe(HOLDER, f"http://{host}:8081/x")
    assert not policy.is_safe(HOLDER, "https://URLIB.NET./x")
    assert policy.is_safe(HOLDER, "https://www.urlib.net/x")


HERE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")


@pytest.mark.parametrize(
    ("own", "places"),
    [
        ([], []),
        ([("urlib.net", 8080)], [("urlib.net", 8080)]),
        ([("urlib.net", 80)], [("urlib.net", 80), ("urlib.net", 443)]),
        ([("urlib.net", 443)], [("urlib.net", 80), ("urlib.net", 443)]),
        ([("1.2.3.4.5", 81), ("1.2.3.999", 81)], [("1.2.3.4.5", 81), ("1.2.3.999", 81)]),  # no addresses
        ([("127.1", 8080), ("a", 81)], [("a", 81), *((host, 8080) for host in HERE)]),
        ([("0.0.0.0", 443)], [(host, port) for host in HERE for port in (80, 443)]),
    ],
)
def test_a_service_answers_at_its_own_places_and_where_it_is_on_this_machine_at_all_names_of_it(
    own: list[tuple[str, int]], places: list[tuple[str, int]]
) -> None:
    assert places_of(own) == frozenset(places)


def test_an_archive_bound_to_its_hosts_leads_nowhere_else() -> None:
    bound = Archive(SERVICE, "a.example", url_hosts=("a.example",))
    assert Policy().is_safe(bound, "http://A.EXAMPLE:80/x")
    assert not Policy().is_safe(bound, "http://b.example/x")
    assert Policy().is_safe(HOLDER, "http://b.example/x")
    assert not Policy().is_safe(HOLDER, None)


@pytest.mark.proves("AMB-48", "CON-05")
def test_the_items_own_pairs_are_appended_raw() -> None:
    assert with_query("http://a/x", "") == "http://a/x"
    assert with_query("http://a/x", "q=a%26b") == "http://a/x?q=a%26b"
    assert with_query("http://a/x?c=1#p", "q=1&r") == "http://a/x?c=1&q=1&r#p"
    assert with_query("http://a/x?", "q=1") == "http://a/x?q=1"


@pytest.mark.proves("AMB-54")
def test_the_hardened_policy_believes_only_answers_about_the_item_in_the_archives_own_name() -> None:
    request = UrlRequest(("192.0.2.1",), ITEM_IBI)
    own = {"ibi.archiveservice": ("rep", str(SERVICE)), "ibi": ("ibip", str(ITEM_IBI).lower())}
    assert Policy().disbelief(HOLDER, request, UrlList(own)) is None
    foreign = {**own, "ibi.archiveservice": ("rep", "example.org/b/2020/01.01.00.00")}
    other = {**own, "ibi": ("ibip", "LK47B6W/362SFKJ")}
    for pairs in (foreign, other, {"url": "http://a.example/x"}):
        assert Policy().disbelief(HOLDER, request, UrlList(pairs)) is not None
        assert Policy(strict=True).disbelief(HOLDER, request, UrlList(pairs)) is None


def test_an_answer_cannot_repeat_an_older_opaque_id() -> None:
    request = UrlRequest(("192.0.2.1",), parse_name("6RPa7umaZ/UaJFT"))
    answer = UrlList({"ibi.archiveservice": ("rep", str(SERVICE)), "ibi": ("ibip", "LK47B6W/2")})
    assert Policy().disbelief(HOLDER, request, answer) is None


@pytest.mark.proves("RES-13")
def test_an_archive_cannot_fill_an_alert_with_languages_nor_with_long_ones() -> None:
    url = PersistentURL.parse("/LK47B6W/362SFKH:(marc)")
    too_long, longest = "x" * 65, "y" * 64  # characters of a format
    names = [too_long, longest, *(f"f{number}" for number in range(2 * MOST_ALTERNATIVES))]
    answer = UrlList({f"url.metadata({name})": "http://a.example/x" for name in names})
    found = alternatives([answer], url, f"http://urlib.net{url.text}")
    assert [*found] == names[1 : MOST_ALTERNATIVES + 1]


@pytest.mark.proves("RES-13")
def test_for_an_alert_not_all_that_many_archives_tell_is_looked_at() -> None:
    url, wanted = PersistentURL.parse("/LK47B6W/362SFKH:(marc)"), {"url.metadata(marc)": "mailto:a"}
    liar = UrlList(
        {f"url.translation({one}{two})": "x" for one in ascii_lowercase for two in ascii_lowercase}
    )
    honest = UrlList(wanted | {"url.metadata(oai_dc)": "http://a.example/x"})
    persistent = f"http://urlib.net{url.text}"
    assert [*alternatives([liar, liar, honest], url, persistent)] == ["oai_dc"]
    assert alternatives([*[liar] * 3, honest], url, persistent) == {}


@pytest.mark.parametrize(
    ("timestamps", "moment"),
    [
        (["", "2015-01-02T03:04:05Z"], "2015-01-02T03:04:05Z"),
        (["x" * 41, "x" * 40], "x" * 40),
        (["x" * 41], ""),
        (["x"], "x"),
        ([], ""),
    ],
)
def test_a_removal_has_the_first_moment_that_can_be_one(timestamps: list[str], moment: str) -> None:
    assert removed_on(UrlList({"timestamp": each} if each else {}) for each in timestamps) == moment


NAMED, OTHER = ("ibip", "LK47B6W/2"), ("ibip", "LK47B6W/3")


@pytest.mark.proves("RES-10", "ARC-03")
@pytest.mark.parametrize(
    ("one", "other", "contradict"),
    [
        # Of two translations, which are other items.
        ({"translation(pt)": NAMED}, {"translation(en)": OTHER}, False),
        ({"translation(pt)": NAMED}, {"translation(en)": NAMED}, True),
        ({"translation(pt)": NAMED}, {"translation(en)": None}, True),
        ({"translation(pt)": None}, {"translation(en)": NAMED}, True),
        ({"translation(pt)": None}, {"translation(en)": None}, True),
        ({"translation(pt)": NAMED}, {"translation(pt)": OTHER}, True),
        # Of the item itself, and of what is related to it.
        ({"": ITEM_IBI}, {"metadata": None}, True),
        ({"": ITEM_IBI}, {"metadata": NAMED}, False),
        ({"metadata": None}, {"": ITEM_IBI}, True),
        ({"": ITEM_IBI}, {"lastedition": NAMED, "lastedition.metadata": None}, False),
        ({"": ITEM_IBI}, {"lastedition": ("ibip", str(ITEM_IBI)), "lastedition.metadata": None}, True),
        ({"": ITEM_IBI}, {"lastedition.metadata": ("ibip", str(ITEM_IBI))}, True),
        (
            {"": ITEM_IBI},
            {"lastedition": ("ibip", str(ITEM_IBI)), "lastedition.metadata": NAMED},
            False,
        ),
    ],
)
def test_two_originals_contradict_if_they_may_be_of_one_item(
    one: dict[str, object], other: dict[str, object], contradict: bool
) -> None:
    claims = []
    for number, names in enumerate((one, other)):
        pairs: PairList = {"ibi": ("ibip", str(ITEM_IBI))}
        for word, name in names.items():
            if isinstance(name, tuple):
                pairs[f"ibi.{word}"] = name
        relation = Relation.from_qualifier(f".{[*names][-1]}") if [*names][-1] else ITEM
        answer = UrlList(pairs)
        holder = Archive(parse_ibi(f"example.org/{number}/2020/01.01.00.00"), "a.example")
        claims.append(Offer(holder, answer, WantedEntry(relation, answer.entry(relation))))
    assert contradicting(claims) == (claims if contradict else [])
    assert contradicting([claims[0], claims[1]._replace(archive=claims[0].archive)]) == []
