"""Few copies are taken at the same time, as each may last for hours; who may name a private address; which names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from ibi.archive.operations.exchange import MOST_COPIES, CopyFields, RefreshFields, copy, refresh_copy
from ibi.errors import HoldingError, SetupError
from ibi.http.response import Refusal

NAME = "a.example/b/2010/01.01.00.00"


class Waiting:
    """The context of operations whose Archive is opened when `go` is set, and cannot be used then."""

    who = "maria"

    def __init__(self, *, is_administrator: bool = True) -> None:
        self.is_administrator = is_administrator
        self.go = threading.Event()
        self.opening = threading.Semaphore(0)

    def item_store(self) -> NoReturn:
        self.opening.release()
        assert self.go.wait(60)
        raise SetupError("the Archive is closed")


ACTS: list[Callable[[Any], object]] = [
    lambda context: copy(context, CopyFields(ibi=NAME)),
    lambda context: refresh_copy(context, RefreshFields(ibi=NAME)),
]


def test_four_copies_are_taken_at_once_and_a_fifth_is_refused() -> None:
    context, ended = Waiting(), list[str]()

    def act(number: int) -> None:
        try:
            ACTS[number % 2](context)
        except SetupError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=act, args=(number,)) for number in range(MOST_COPIES)]
    assert len(threads) == 4
    for thread in threads:
        thread.start()
    try:
        for _ in threads:
            assert context.opening.acquire(timeout=60)
        for one_more in ACTS:
            with pytest.raises(HoldingError) as refused:
                one_more(context)
            assert str(refused.value) == "other copies are being taken just now; try again in a while"
    finally:
        context.go.set()
        for thread in threads:
            thread.join()
    assert ended == ["the Archive is closed"] * 4
    for _ in range(MOST_COPIES + 1):  # each has given its place back
        with pytest.raises(SetupError):
            ACTS[0](context)


def test_only_an_administrator_may_name_a_private_address() -> None:
    context: Any = Waiting(is_administrator=False)
    with pytest.raises(Refusal) as refused:
        copy(context, CopyFields(ibi=NAME, private=True))
    assert (refused.value.status, str(refused.value.why)) == (403, "only an administrator may give private")
    context.go.set()
    with pytest.raises(SetupError):
        copy(context, CopyFields(ibi=NAME))


@pytest.mark.parametrize("text", [NAME, f"http://r.example/{NAME}", f"https://r.example/{NAME}"])
def test_an_item_is_named_by_its_ibi_or_its_persistent_url(text: str) -> None:
    context: Any = Waiting()
    context.go.set()
    with pytest.raises(SetupError, match="the Archive is closed"):
        copy(context, CopyFields(ibi=text))


@pytest.mark.parametrize("after", ["+", ":"])
def test_a_url_that_leads_to_another_item_names_none(after: str) -> None:
    context: Any = Waiting()
    context.go.set()
    with pytest.raises(HoldingError) as refused:
        copy(context, CopyFields(ibi=f"http://r.example/{NAME}{after}"))
    assert str(refused.value) == (
        f"{NAME}{after} leads to another item than {NAME}: follow it, and give the name of the item that it leads to"
    )
