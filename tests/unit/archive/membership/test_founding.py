"""Settings of an Archive: answers checked one by one, resolvers joined and left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ibi.archive.membership.founding import (
    AnswerChecks,
    mail_text,
    register_command,
)
from ibi.archive.membership.joining import (
    LONGEST_HOST,
    Resolvers,
    key_warnings,
    new_key,
    root_url,
    split_base_url,
)
from ibi.errors import IbiError, SetupError
from ibi.protocol.messages import ArchiveTitles
from ibi.runtime.settings import JoinedResolver
from ibi.runtime.settings.institution import Institution
from support.archive.archive_fixture import settings_for

FIRST, SECOND, THIRD = "http://r1.example", "http://r2.example:8080", "http://r3.example"
KEY = "12345678901234567890"
MINTING = AnswerChecks(mints_host=True, mints_ip=True, for_trying=False)
TRYING = AnswerChecks(mints_host=True, mints_ip=True, for_trying=True)
NAMED = AnswerChecks(mints_host=False, mints_ip=False, for_trying=False)


# Answers


@pytest.mark.parametrize(
    ("answers", "question", "text"),
    [
        (MINTING, "address", "archive.example.org:8080"),
        (TRYING, "address", "archive.example"),
        (NAMED, "address", "localhost:8081"),
        (MINTING, "ip", "192.88.98.1"),
        (TRYING, "ip", "127.0.0.1"),
        (NAMED, "ip", "10.0.0.1"),
        (MINTING, "admin", "somebody@archive.example"),
        (MINTING, "resolver", ""),
        (MINTING, "resolver", "http://resolver.example"),
    ],
)
def test_an_answer_that_can_be_used_is_kept(answers: AnswerChecks, question: str, text: str) -> None:
    assert getattr(answers, question)(text) == text


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("address", ""),
        ("address", "http://archive.example.org"),
        ("address", "archive.example.org:0"),
        ("address", "archive"),
        ("address", "a.localhost"),
        ("address", "\x1b[31m"),
        ("ip", ""),
        ("ip", "archive.example.org"),
        ("ip", "10.0.0.1"),
        ("admin", ""),
        ("admin", "somebody"),
        ("admin", "a b@c"),
        ("resolver", "resolver.example"),
        ("resolver", "ftp://resolver.example"),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused_with_a_sentence(question: str, text: str) -> None:
    with pytest.raises(IbiError) as found:
        getattr(MINTING, question)(text)
    assert "\n" not in str(found.value)


@pytest.mark.proves("REG-01", "MSG-30")
def test_the_registration_names_the_service_and_the_key() -> None:
    service = settings_for("archive.example").service
    assert mail_text(service, KEY) == (
        f"IBI do serviço de Arquivo:\narchiveserviceibi = {service.main}\n\n"
        f"Chave de cadastro:\nregistrationkey = {KEY}\n"
    )
    words = f"ibi resolver register --data DIR --archive-service {service.main} --key {KEY}"
    assert register_command(service, KEY) == words


# Resolvers


def _resolvers(**more: object) -> Resolvers:
    return Resolvers(settings_for("archive.example", **more))


def test_the_first_resolver_is_told_the_key_from_the_beginning_and_each_further_one_its_own() -> None:
    joined = _resolvers().joining(FIRST, None, also=False)
    assert joined.keys == {FIRST: KEY}
    joined = joined.joining(f"{SECOND}/", None, also=True).joining(THIRD, "98765432109876543210", also=True)
    assert list(joined.keys) == [FIRST, SECOND, THIRD]
    assert len(set(joined.keys.values())) == 3
    assert joined.keys[THIRD] == "98765432109876543210"
    assert joined.settings.resolver == FIRST


def test_the_first_one_may_be_joined_as_a_further_one() -> None:
    assert _resolvers().joining(FIRST, None, also=True).keys == {FIRST: KEY}


def test_what_is_said_at_each_resolver_differs_in_the_key_alone() -> None:
    joined = _resolvers(resolver=FIRST).joining(SECOND, None, also=True)
    wanted = joined.wanted("1")
    assert wanted.on
    assert {request.query().replace(request.key, "K") for request in wanted.requests.values()} == {
        joined.settings.inclusion_request("1").query().replace(KEY, "K")
    }
    assert {url: request.key for url, request in wanted.requests.items()} == joined.keys


@pytest.mark.parametrize("off", [{"switched_on": False}, {"retired": True}])
def test_an_archive_that_is_switched_off_or_retired_wants_no_part(off: dict[str, bool]) -> None:
    wanted = _resolvers(resolver=FIRST, **off).wanted("1")
    assert not wanted.on
    assert list(wanted.requests) == [FIRST]


def test_no_resolver_learns_the_key_of_another() -> None:
    joined = _resolvers(resolver=FIRST).joining(SECOND, None, also=True)
    with pytest.raises(SetupError, match="key of its own"):
        joined.joining(SECOND, KEY, also=True)
    replaced = joined.joining(THIRD, None, also=False)
    assert replaced.keys[THIRD] not in {*joined.keys.values()}
    assert list(replaced.keys) == [THIRD, SECOND]


def test_joining_again_keeps_the_key_unless_another_is_given() -> None:
    joined = _resolvers(resolver=FIRST).joining(SECOND, None, also=True)
    for url in (FIRST, SECOND):
        for also in (True, False):
            assert joined.joining(url, None, also=also).keys[url] == joined.keys[url]
    assert joined.joining(SECOND, "1234567890", also=True).keys[SECOND] == "1234567890"
    taken = joined.joining(THIRD, None, also=True).joining(SECOND, None, also=False)
    assert (list(taken.keys), list(taken.further)) == (
        [SECOND, THIRD],
        [THIRD],
    )  # it takes the place of the first


def test_a_resolver_that_is_reached_by_https_now_keeps_its_key_and_its_place(tmp_path: Path) -> None:
    secure = "https" + FIRST.removeprefix("http")
    joined = _resolvers(resolver=FIRST).joining(SECOND, None, also=True)
    assert joined.at_the_same_host(f"{secure}/") == [FIRST]
    assert joined.at_the_same_host(FIRST) == joined.at_the_same_host(THIRD) == []
    for also in (True, False):
        moved = joined.joining(secure, None, also=also, same=FIRST)
        assert list(moved.keys.items()) == [(secure, joined.keys[FIRST]), (SECOND, joined.keys[SECOND])]
        assert (moved.settings.resolver, moved.left) == (secure, {})
        other = joined.joining(secure, None, also=also)
        assert other.keys[secure] not in joined.keys.values()
        assert (FIRST in other.keys) == also
    secure = "https" + SECOND.removeprefix("http")
    moved = joined.joining(secure, None, also=True, same=SECOND)
    assert moved.keys == {FIRST: joined.keys[FIRST], secure: joined.keys[SECOND]}
    moved.write(tmp_path)
    assert Resolvers.read(tmp_path) == moved
    alone = joined.joining(secure, None, also=False, same=SECOND)
    assert alone.keys == {secure: joined.keys[SECOND]}


def test_where_the_first_is_left_the_next_takes_its_place() -> None:
    joined = _resolvers(resolver=FIRST).joining(SECOND, None, also=True).joining(THIRD, None, also=True)
    left = joined.leaving(FIRST)
    assert (left.settings.resolver, list(left.keys)) == (SECOND, [SECOND, THIRD])
    assert left.keys[SECOND] == joined.keys[SECOND]
    assert list(left.leaving(THIRD).keys) == [SECOND]
    alone = left.leaving(SECOND).leaving(THIRD)
    assert (alone.keys, alone.settings.resolver) == ({}, "")
    assert alone.settings.key not in joined.keys.values()  # the members that are left know the old one
    with pytest.raises(SetupError, match=f"^this Archive does not take part in {FIRST}$"):
        alone.leaving(FIRST)


def test_a_resolver_that_was_left_is_joined_again_with_its_key_and_its_service(tmp_path: Path) -> None:
    joined = _resolvers(resolver=FIRST).joining(f"{SECOND}/J8LNKB5R7W/3FUQHC5", None, also=True)
    joined.leaving(SECOND).leaving(FIRST).write(tmp_path)
    left = Resolvers.read(tmp_path)
    assert (left.keys, left.wanted("1").requests) == ({}, {})
    assert {url: request.key for url, request in left.wanted("1").left.items()} == joined.keys
    again = left.joining(FIRST, None, also=False).joining(SECOND, None, also=True)
    assert (again.keys, again.services) == (joined.keys, joined.services)
    assert again.left == {}
    assert left.joining(SECOND, "1234567890", also=False).keys == {SECOND: "1234567890"}


def test_the_service_that_was_named_with_a_resolver_is_kept() -> None:
    service = "J8LNKB5R7W/3FUQHC5"
    joined = _resolvers().joining(f"{FIRST}/{service}", None, also=False).joining(SECOND, None, also=True)
    assert joined.services == {FIRST: service, SECOND: ""}
    assert joined.joining(FIRST, None, also=False).services == joined.services
    joined = joined.joining(f"{SECOND}/{service}", None, also=True)
    assert (
        joined.services
        == joined.joining(SECOND, None, also=True).services
        == {FIRST: service, SECOND: service}
    )
    assert joined.joining(SECOND, None, also=False).services == {SECOND: service}
    assert joined.leaving(FIRST).services == {SECOND: service}


def test_the_resolver_whose_place_another_takes_is_joined_again_with_its_key() -> None:
    first = _resolvers(resolver=FIRST)
    other = first.joining(SECOND, None, also=False)
    assert list(other.keys) == [SECOND]
    assert other.joining(FIRST, None, also=True).keys[FIRST] == first.keys[FIRST]


def test_resolvers_are_kept_in_two_files_that_only_their_owner_reads(tmp_path: Path) -> None:
    joined = _resolvers(resolver=FIRST).joining(SECOND, None, also=True)
    joined.write(tmp_path)
    assert Resolvers.read(tmp_path) == joined
    assert (tmp_path / JoinedResolver.FILE).stat().st_mode & 0o077 == 0
    joined.leaving(SECOND).write(tmp_path)
    assert list(Resolvers.read(tmp_path).keys) == [FIRST]


def test_one_that_stands_in_both_files_is_left_in_both() -> None:
    twice = replace(_resolvers(resolver=FIRST), further={FIRST: JoinedResolver(url=FIRST, key=KEY)})
    assert (twice.keys, twice.leaving(FIRST).keys) == ({FIRST: KEY}, {})


def test_the_root_of_a_resolver_is_read_in_one_spelling(tmp_path: Path) -> None:
    _resolvers(resolver="HTTP://R1.example/").write(tmp_path)
    (tmp_path / JoinedResolver.FILE).write_text(f'["x"]\nurl = "http://R2.example:8080/"\nkey = "{KEY}"\n')
    assert list(Resolvers.read(tmp_path).keys) == [FIRST, SECOND]


@pytest.mark.parametrize("stop", [1, 2])
def test_a_crash_between_the_two_files_joins_no_archive_twice(tmp_path: Path, stop: int) -> None:
    joined = _resolvers(resolver=FIRST).joining(SECOND, None, also=True)
    joined.write(tmp_path)
    after = joined.leaving(FIRST)
    after.settings.write(tmp_path)
    if stop == 2:
        after.write(tmp_path)
    assert Resolvers.read(tmp_path).keys == after.keys


@pytest.mark.parametrize(
    "text", ['[a]\nurl = "ftp://x"\nkey = "1234567890"\n', '[a]\nurl = "http://x"\nkey = "1"\n']
)
def test_a_resolver_that_cannot_be_one_is_refused(tmp_path: Path, text: str) -> None:
    _resolvers().write(tmp_path)
    (tmp_path / JoinedResolver.FILE).write_text(text)
    with pytest.raises(SetupError):
        Resolvers.read(tmp_path)


@pytest.mark.parametrize(
    "host",
    ["x.example:99999", "x.example:0", "x.example:port", ":80", "a" * (LONGEST_HOST + 1), "a" * 100_000,
     f"{'a' * 300}:80"],
)  # fmt: skip
def test_a_resolver_that_cannot_be_reached_is_refused_in_one_sentence(host: str) -> None:
    with pytest.raises(SetupError, match="its port is from 1 to 65535") as raised:
        root_url(f"http://{host}/")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    "host", ["x.example:65535", "[::1]:80", "x", "localhost", "a" * LONGEST_HOST, "my_resolver:1"]
)
def test_a_host_with_or_without_a_port_is_a_resolver(host: str) -> None:
    assert root_url(f"http://{host}/") == f"http://{host}"


SHORT = "a key of fewer than 20 digits can be guessed"
READ = "the key travels to {} over plain http, where it can be read"


@pytest.mark.parametrize(
    ("url", "key", "warnings"),
    [
        ("", KEY[1:], [SHORT]),
        ("", f"{KEY[:10]}-{KEY[10:]}", []),
        ("http://r.example", "1234567890", [SHORT, READ.format("http://r.example")]),
        ("http://192.88.98.1:80", KEY, [READ.format("http://192.88.98.1:80")]),
        ("http://127.0.0.1:8080", KEY, []),
        ("http://10.0.0.1", KEY, []),
        ("http://box:8080", KEY, []),
        ("https://r.example", KEY, []),
    ],
)
def test_a_key_that_can_be_guessed_or_read_gives_a_warning(url: str, key: str, warnings: list[str]) -> None:
    assert [str(warning) for warning in key_warnings(url, key)] == warnings


def test_a_new_key_has_twenty_digits() -> None:
    assert {(len(key), key.isdecimal()) for key in (new_key() for _ in range(100))} == {(20, True)}


@pytest.mark.parametrize("length", [80, 81])
def test_a_service_that_is_no_ibi_is_shown_short(length: int) -> None:
    shown = "x" * 80 + ("…" if length > 80 else "")
    problem = f"after the root of a resolver stands the IBI of its service, or nothing; {shown} is no IBI"
    with pytest.raises(SetupError, match=f"^{problem}$"):
        split_base_url(f"{FIRST}/{'x' * length}")


@pytest.mark.parametrize("length", [80, 81])
def test_a_root_that_cannot_be_is_shown_short(length: int) -> None:
    url = f"http://{'x' * (length - len('http://:0'))}:0"
    shown = url if length == 80 else f"{url[:80]}…"
    with pytest.raises(SetupError) as raised:
        root_url(url)
    assert str(raised.value) == (
        f"the host of a resolver has at most 253 characters, and its port is from 1 to 65535: {shown}"
    )


def test_an_archive_is_called_by_the_name_of_its_institution(tmp_path: Path) -> None:
    def titles(text: str) -> ArchiveTitles:
        _resolvers(resolver=FIRST).write(tmp_path)
        (tmp_path / Institution.FILE).write_text(text)
        return Resolvers.read(tmp_path).wanted("1").titles

    assert titles('name = "São João"\n') == ("São João", "")
    assert titles('name = "Institute"\nname_pt = "Instituto"\n') == ("Institute", "Instituto")


def test_one_that_has_retired_is_not_switched_on() -> None:
    assert _resolvers(switched_on=False).switching(on=True).settings.switched_on
    assert not _resolvers().switching(on=False).settings.switched_on
    with pytest.raises(SetupError, match="this Archive has retired, and stays switched off"):
        _resolvers(retired=True).switching(on=True)


def test_joining_and_leaving_change_nothing_else(tmp_path: Path) -> None:
    _resolvers(resolver=FIRST, public_url="https://a.example").write(tmp_path)
    (tmp_path / Institution.FILE).write_text('name = "Instituto"\n')
    before = Resolvers.read(tmp_path)
    for after in (
        before.joining(SECOND, None, also=True),
        before.joining(SECOND, None, also=False),
        before.joining(SECOND, None, also=True).leaving(FIRST),
        before.leaving(FIRST),
    ):
        assert (after.institution, after.settings.public_url) == (before.institution, "https://a.example")
