"""Whatever is written into a file of settings is read back, and what a person wrote around it stays."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.identifier.forms import IBIForms
from ibi.runtime.settings import ArchiveSettings, Peer, ResolverSettings
from support.oracles.state_machines import folder_in_memory

SERVICE = IBIForms.parse("rep archive.example/w/2020/01.01.00.00 ibip LK47B6W/3P5GNKB")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
hosts = st.lists(st.sampled_from(["a.example", "b.example:81", "192.0.2.7", "[2001:db8::1]:82"]), unique=True)
archives = st.builds(
    ArchiveSettings,
    address=st.sampled_from(["archive.example", "archive.example:8080"]),
    ip=st.sampled_from(["192.0.2.1", "2001:db8::1"]),
    service=st.just(SERVICE),
    key=st.from_regex(r"[0-9]{10,20}", fullmatch=True),
    secret=texts,
    admin=st.just("admin@archive.example"),
    platform_software=st.none() | st.just(SERVICE),
    aliases=hosts.map(tuple),
    relations=st.lists(texts, max_size=3).map(tuple),
    filter_answers=st.booleans(),
    for_trying=st.booleans(),
    mint_port=st.integers(1, 65535),
)
resolvers = st.builds(
    ResolverSettings,
    address=st.just("r.example"),
    service=st.just(SERVICE),
    aliases=hosts.map(tuple),
    request_rate=st.floats(0, 1000),
)
FEWER = settings(max_examples=max(1, settings().max_examples // 3))  # each writes some files
COMMENT = "# written by hand: ção 'x' [table]\n"


@FEWER
@given(first=archives | resolvers, second=st.data())
def test_settings_are_read_as_they_were_written_last_and_comments_stay(
    first: ArchiveSettings | ResolverSettings, second: st.DataObject
) -> None:
    with folder_in_memory() as data:
        first.write(data)
        assert type(first).read(data) == first
        path = data / first.FILE
        path.write_text(COMMENT + path.read_text("utf-8") + COMMENT, "utf-8")
        assert type(first).read(data) == first
        other = second.draw(archives if isinstance(first, ArchiveSettings) else resolvers)
        other.write(data)
        assert type(other).read(data) == other
        text = path.read_text("utf-8")
        assert text.startswith(COMMENT)
        assert text.count(COMMENT) == 2
        written = path.read_bytes()
        replace(other).write(data)
        assert path.read_bytes() == written


peers = st.dictionaries(
    st.from_regex(r"[a-z0-9][a-z0-9._-]{0,8}", fullmatch=True) | texts.filter(bool),
    st.builds(Peer, address=texts, token=texts),
    max_size=4,
)


@FEWER
@given(first=peers, second=peers)
def test_tables_are_read_as_they_were_written_last(first: dict[str, Peer], second: dict[str, Peer]) -> None:
    with folder_in_memory() as data:
        for tables in (first, second):
            Peer.write_tables(data, tables)
            assert Peer.read_tables(data) == tables
