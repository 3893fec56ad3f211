"""An order for labels is read strictly, and its answer is written piece by piece, so that others have their turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from ibi.http.request import Request
from ibi.http.response import Refusal
from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import Batch
from ibi.identifier.generator import LabelGenerator
from ibi.minting import WaitingRoom
from ibi.minting.batcher import LabelBatcher
from ibi.minting.order import (
    LONGEST_BODY,
    LONGEST_COLLECTION,
    MOST_LABELS,
    LabelOrder,
    read_body,
    write_labels,
)
from support.machine import FalseMachine

GENERATOR = LabelGenerator("mint.example.org", ip="150.163.34.243")
NAMES = LabelGenerator("mint.example.org")

COUNT = "count must be a whole number from 1 to 10000"
FORMS = "forms must be one of: both, rep, ibip"
COLLECTION = "collection must be a text of at most 200 characters"
NO_JSON = "the body is not JSON"
NO_OBJECT = 'the body must be a JSON object like {"count": 10}'
FIELDS = "there are: count, forms, collection"


def request(query: str = "", **headers: str) -> Request:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Request("POST", "/-/api/mint", query, named)


def refusal(act: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(Refusal) as refused:
        act()
    return refused.value.status, str(refused.value)


@pytest.mark.parametrize(
    ("body", "order"),
    [
        ("", LabelOrder()),
        (" \r\n", LabelOrder()),
        ("{}", LabelOrder()),
        (' {"count": 1} ', LabelOrder(1)),
        (f'{{"count": {MOST_LABELS}}}', LabelOrder(MOST_LABELS)),
        *((f'{{"forms": "{forms}"}}', LabelOrder(1, forms)) for forms in ("both", "rep", "ibip")),
        ('{"collection": "t"}', LabelOrder(1, None, "t")),
        (json.dumps({"collection": "é " * 100}), LabelOrder(1, None, "é " * 100)),
        ('{"collection": "a", "count": 2, "forms": "rep"}', LabelOrder(2, "rep", "a")),
    ],
)
@pytest.mark.parametrize(
    ("accept", "as_text"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", True),
        ("TEXT/Plain;q=0.5, */*", True),
        ("text/plain, application/json", False),
        ("text/plain, application/problem+JSON", False),
    ],
)
def test_a_good_order_is_read(body: str, order: LabelOrder, accept: str, as_text: bool) -> None:
    read = LabelOrder.read(request(accept=accept) if accept else request(), body.encode())
    assert read == LabelOrder(order.count, order.forms, order.collection, as_text)


def unknown(name: str) -> str:
    return f"there is no field {name}; {FIELDS}"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        *((body, NO_JSON) for body in ("x", '{"count": 1', "[" * 3000, "\ufeff{}", '{"count": ' + "9" * 4300 + "1}")),
        *((body, NO_OBJECT) for body in ("[]", "5", '"count"', "null", "true")),
        *(
            (f'{{"count": {count}}}', COUNT)
            for count in (0, -1, MOST_LABELS + 1, 1.0, "true", '"1"', "null", "NaN", "1e3", "[1]", "{}")
        ),
        *((f'{{"forms": {forms}}}', FORMS) for forms in ('"REP"', '""', "null", "5")),
        *(
            (f'{{"collection": {name}}}', COLLECTION)
            for name in ('""', "5", "null", '["a"]', '"a\\nb"', '"\\ud800"', f'"{"x" * (LONGEST_COLLECTION + 1)}"')
        ),
        ('{"Count": 1}', unknown("Count")),
        ('{"": 1}', unknown("")),
        ('{"count": 1, "number": 1}', unknown("number")),
        ('{"' + "x" * 40 + '": 1}', unknown("x" * 40)),
        ('{"' + "x" * 41 + '": 1}', unknown("x" * 40)),
        ('{"\\ud800\\u00e9{x}": 1}', unknown("\\ud800\\xe9{x}")),
        ('{"count": 1, "count": 1}', "the field count is there twice"),
        ('{"forms": "rep", "count": 1, "forms": "rep"}', "the field forms is there twice"),
    ],
)  # fmt: skip
def test_a_bad_order_is_one_sentence(body: str, sentence: str) -> None:
    assert refusal(lambda: LabelOrder.read(request(), body.encode())) == (400, sentence)


def test_what_is_no_text_or_stands_in_the_address_is_no_order() -> None:
    assert refusal(lambda: LabelOrder.read(request(), b"\xff")) == (400, NO_JSON)
    in_address = "the request belongs in the body, not in the address"
    assert refusal(lambda: LabelOrder.read(request("count=5"), b"")) == (400, in_address)
    assert refusal(lambda: LabelOrder.read(request("count=5"), b"{}")) == (400, in_address)


def body_of(content: bytes, **headers: str) -> bytes:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content}

    return asyncio.run(read_body(request(**headers), receive))


def test_a_body_is_json_of_a_limited_length_or_nothing() -> None:
    order = b"{}".ljust(LONGEST_BODY)
    assert body_of(order, content_type="Application/JSON; charset=utf-8") == order
    assert body_of(b"") == body_of(b"", content_type="text/plain") == b""
    not_json = 415, "the body must be plain JSON: Content-Type: application/json"
    assert refusal(lambda: body_of(b"{}")) == not_json
    assert refusal(lambda: body_of(b"{}", content_type="text/plain")) == not_json
    too_long = 413, "the body is too long: at most 4096 bytes are read"
    assert refusal(lambda: body_of(order + b" ", content_type="application/json")) == too_long


# --- who can carry it out -------------------------------------------------------------------------------------------


def batcher_of(generator: LabelGenerator, granularity: int) -> LabelBatcher:
    return LabelBatcher(WaitingRoom("/nowhere", FalseMachine().machine), generator, granularity)


def test_an_order_is_carried_out_by_those_that_have_its_forms_and_enough_labels_in_time() -> None:
    slow, names, fine = (
        batcher_of(GENERATOR, TICKS), batcher_of(NAMES, TICKS // 10), batcher_of(GENERATOR, TICKS // 100),
    )  # fmt: skip
    every = [slow, names, fine]
    for forms in (None, "rep"):
        assert LabelOrder(10, forms).able(every) == every
        assert LabelOrder(11, forms).able(every) == LabelOrder(100, forms).able(every) == [names, fine]
        assert LabelOrder(101, forms).able(every) == LabelOrder(1000, forms).able(every) == [fine]
    for forms in ("both", "ibip"):
        assert LabelOrder(10, forms).able(every) == [slow, fine]
        assert LabelOrder(11, forms).able(every) == [fine]


@pytest.mark.parametrize(("forms", "most"), [(None, 100), ("rep", 100), ("both", 10), ("ibip", 10)])
def test_an_order_that_no_one_can_carry_out_is_told_how_large_it_may_be(forms: str | None, most: int) -> None:
    batchers = [batcher_of(GENERATOR, TICKS), batcher_of(NAMES, TICKS // 10)]
    sentence = f"count may be at most {most} here: more cannot be given in 10 seconds"
    assert refusal(lambda: LabelOrder(most + 1, forms).able(batchers)) == (400, sentence)


@pytest.mark.parametrize("forms", ["both", "ibip"])
def test_where_no_one_has_an_address_an_order_of_ibips_is_refused(forms: str) -> None:
    sentence = "there is no IP address here to make IBIps from; ask for the form rep"
    assert refusal(lambda: LabelOrder(1, forms).able([batcher_of(NAMES, TICKS)])) == (400, sentence)


# --- what is written ------------------------------------------------------------------------------------------------

MOMENT = 1_700_000_000 * TICKS  # 2023-11-14T22:13:20Z
MOMENTS = (
    "2023-11-14T22:13:20Z",
    "2023-11-14T22:13:20.05Z",
    "2023-11-14T22:13:20.5Z",
    "2023-11-14T22:13:21Z",
)
BATCHES = [
    Batch((MOMENT, MOMENT + TICKS // 20), range(0)),
    Batch((), range(MOMENT + TICKS // 2, MOMENT + TICKS + 1, TICKS // 2)),
]


@pytest.mark.parametrize("generator", [GENERATOR, NAMES])
@pytest.mark.parametrize("forms", [None, "both", "rep", "ibip"])
def test_each_label_is_written_in_the_forms_that_were_ordered(
    generator: LabelGenerator, forms: str | None
) -> None:
    def written(*, as_text: bool) -> str:
        return asyncio.run(write_labels(generator, BATCHES, LabelOrder(4, forms, None, as_text))).decode()

    labels = [generator.label(date) for batch in BATCHES for date in batch]
    has_rep, has_ibip = forms != "ibip" or generator.ip is None, forms != "rep" and generator.ip is not None
    rows = [(str(each.rep) if has_rep else None, str(each.ibip) if has_ibip else None) for each in labels]
    expected = [
        {"rep": rep, "ibip": ibip, "datetime": moment}
        for (rep, ibip), moment in zip(rows, MOMENTS, strict=True)
    ]
    assert written(as_text=False) == json.dumps({"labels": expected}, separators=(",", ":"))
    assert written(as_text=True) == "".join(" ".join(filter(None, row)) + "\n" for row in rows)


def test_no_labels_are_an_empty_list() -> None:
    assert asyncio.run(write_labels(GENERATOR, [], LabelOrder())) == b'{"labels":[]}'


def test_other_tasks_have_their_turns_while_many_labels_are_written() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> bytes:
        nonlocal turns
        other = asyncio.create_task(others())
        await asyncio.sleep(0)
        turns = 0
        batch = Batch((), range(1_700_000_000 * TICKS, 1_700_003_500 * TICKS, TICKS))
        body = await write_labels(GENERATOR, [batch], LabelOrder(len(batch)))
        other.cancel()
        return body

    labels = json.loads(asyncio.run(run()))["labels"]
    assert (len(labels), len({each["rep"] for each in labels})) == (3500, 3500)
    assert turns == 3  # one after each piece of a thousand labels that is not the last
