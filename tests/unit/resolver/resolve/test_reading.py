"""Long answers are read one at a time, and only so much of them is in hand at once."""

from __future__ import annotations

import asyncio

import pytest

from ibi.errors import ParseError, QueryNotSent, ResponseNotRead
from ibi.protocol.url_list import UrlList
from ibi.resolver.resolve import answer_reader
from ibi.resolver.resolve.answer_reader import MOST_READ, MOST_UNREAD, AnswerReader

LONG = b"\r\n".join(b"p%05d %s" % (number, b"v" * 40) for number in range(4_000))
SHORT = b"state Original\r\nurl http://a.example/x"


def test_only_so_many_long_lists_are_held_until_they_are_released() -> None:
    async def main() -> None:
        hand, reader = list[UrlList](), AnswerReader()
        for _ in range(12):
            hand.append(await reader.read(LONG))
        with pytest.raises(QueryNotSent):
            hand.extend([await reader.read(LONG) for _ in range(10)])
        assert reader.held <= MOST_READ
        assert reader.at_once(SHORT) == UrlList.read(SHORT)  # short ones are read whatever is in hand
        del hand[:2]
        hand.append(await reader.read(LONG))
        hand.clear()
        assert (reader.held, reader.unread) == (0, 0)

    asyncio.run(main())


@pytest.mark.parametrize("body", [b"a {" + b"xx " * 80_000 + b"}", b"a " + b"x" * 200_000])
def test_a_list_of_few_pairs_weighs_what_its_words_do(body: bytes) -> None:
    async def main() -> None:
        reader, hand = AnswerReader(), list[UrlList]()
        hand.append(await reader.read(body))
        assert len(body) < reader.held < 40 * len(body)
        with pytest.raises(ResponseNotRead):
            hand.extend([await reader.read(body) for _ in range(MOST_READ // reader.held)])
        assert reader.held <= MOST_READ
        hand.clear()
        assert reader.held == 0

    asyncio.run(main())


def test_a_short_answer_of_many_pairs_is_a_long_list_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_reader, "MOST_READ", 1)
    many = b" ".join(b"%x v" % number for number in range(300))
    with pytest.raises(QueryNotSent):
        AnswerReader().at_once(many)


def test_only_so_many_bytes_wait_to_be_read() -> None:
    async def main() -> None:
        reader = AnswerReader()
        body = b"\r\n".join([b"broken"] * 30_000)  # it is read like any other, and then it is no list
        tasks = asyncio.gather(*(reader.read(body) for _ in range(200)), return_exceptions=True)
        await asyncio.sleep(0)
        assert MOST_UNREAD - len(body) < reader.unread <= MOST_UNREAD
        refused = [each for each in await tasks if isinstance(each, QueryNotSent)]
        assert len(refused) == 200 - MOST_UNREAD // len(body)
        assert reader.unread == 0

    asyncio.run(main())


def test_long_lists_are_read_in_different_turns_of_the_loop() -> None:
    async def main() -> None:
        reader, done = AnswerReader(), list[int]()

        async def one() -> None:
            await reader.read(LONG)
            done.append(turn)

        tasks = asyncio.gather(*(one() for _ in range(8)))
        turn = 0
        while not tasks.done():
            turn += 1
            await asyncio.sleep(0)
        assert len(set(done)) == 8

    asyncio.run(main())


def test_a_long_answer_that_is_no_list_is_refused_and_not_held() -> None:
    async def main() -> None:
        reader = AnswerReader()
        with pytest.raises(ParseError):
            await reader.read(b"{" * 20_000)
        assert (reader.held, reader.unread) == (0, 0)

    asyncio.run(main())


@pytest.mark.parametrize(("size", "held"), [(65_535, 0), (65_536, 0), (65_537, 65_537)])
def test_a_list_of_more_than_64_kib_of_memory_is_a_long_one(size: int, held: int) -> None:
    async def main() -> None:
        reader = AnswerReader()
        answer = await reader.read(b"a " + b"x" * (size - 256 - len(b"a ")))  # a pair counts as 256 bytes
        assert (len(answer.pairs), reader.held) == (1, held)

    asyncio.run(main())


@pytest.mark.parametrize(("pairs", "held"), [(256, 0), (257, 257 * 256)])
def test_a_short_answer_of_more_than_256_pairs_is_a_long_list(pairs: int, held: int) -> None:
    reader = AnswerReader()
    answer = reader.at_once(b" ".join(b"%x v" % number for number in range(pairs)))
    assert answer is not None
    assert (len(answer.pairs), reader.held) == (pairs, held)
