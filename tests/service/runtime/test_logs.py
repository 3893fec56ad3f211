"""What is written down, and what never is: canaries in every place that a stranger's words can come from."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from ibi.errors import ParseError
from ibi.runtime import logging as logs
from ibi.runtime.logging import LONGEST, JSONLines, TextLines, scrubbed

CANARY = "canary7"
ITEM = "urlib.net/www/2014/10.22.11.53"


def throw(error: Exception) -> None:
    raise error


@pytest.fixture(params=["text", "json"])
def log(request: pytest.FixtureRequest) -> tuple[logging.Logger, StringIO, str]:
    """A logger, what it writes, and in which form."""
    written = StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JSONLines() if request.param == "json" else TextLines())
    logger = logging.Logger("ibi.of_this_test", logging.INFO)  # noqa: LOG001 - of its own: with no other handler
    logger.addHandler(handler)
    return logger, written, request.param


@pytest.mark.proves("REG-08")
@pytest.mark.parametrize(
    "words",
    [
        f"/{ITEM}?email={CANARY}@x.example",
        f"/{ITEM}?it's \"{CANARY}",
        f"/{ITEM}?a=\xa0{CANARY}",  # a byte that Python takes for a blank
        f"/{ITEM}%3f{CANARY}",
        f"b'?x={CANARY}'",
        f"a[b]={CANARY}&c={CANARY}",
        f"InclusionRequest(address='{CANARY} {CANARY}', key=\"{CANARY}\")",
        f"Authorization: Bearer {CANARY}",
        f"[SQL: SELECT 1 WHERE a = ?]\n[parameters: ('{CANARY}',\n '{CANARY}')]",
        f"$argon2id$v=19$m=8,t=1,p=1${CANARY}",
        f"the token is {CANARY}{'a' * 36}",
    ],
)
def test_no_query_no_key_and_no_token_is_written(words: str) -> None:
    if "?it's" in words:  # a blank ends a query, so nothing of it stands behind one
        words = words.replace(" ", "+")
    assert CANARY not in scrubbed(words)


@pytest.mark.proves("REG-08")
@pytest.mark.parametrize("key", ["1234567890", "12345678901234567890", "1234567890-0987654321"])
def test_keys_are_hidden_wherever_they_stand(key: str) -> None:
    for words in (f"key {key}", f"'{key}'", f"{key}:{key}", "x " * 32_000 + key):
        assert not set(re.findall(r"\d{9,}", scrubbed(words)))


@pytest.mark.parametrize(
    "address",
    ["203.0.113.7", "10.1.2.3", "2001:db8::7", "fe80::1", "::ffff:203.0.113.7", "2001:db8:1:2:3:4:5:6"],
)
@pytest.mark.parametrize(
    "around", ["{}", "from {}: refused", "('{}', 5000)", "[{}]:80", "at:{}.", "http://{}/x"]
)
def test_no_address_of_a_machine_is_written(address: str, around: str) -> None:
    text = scrubbed(around.format(address))
    assert address not in text
    assert not any(part in text for part in ("0.113", "db8", "fe80", "1.2.3"))


@pytest.mark.parametrize(
    "words",
    [
        f"included {ITEM} at archive.example:8080, confirmed: True",
        "urlib.net/www/2014/03.22.01.53 and J8LNKB5R7W/3FUQHC5",
        "ready http://127.0.0.1:8080 and http://[::1]:8080",
        "at 12:00:01 on 2026-01-31T12:00:00Z it took 0.123456 s",
        "version 3.11.7 of sid.inpe.br/mtc-m21/2012/06.05.15.34.39",
        "O Acervo não responde: é lento",
    ],
)
def test_what_an_operator_needs_stays(words: str) -> None:
    assert scrubbed(words) == words


def test_hostile_words_take_no_time_and_no_space() -> None:
    for words in (
        "a=" * 200_000,
        "='\"" * 200_000,
        "f:" * 200_000,
        "1." * 200_000,
        "?" * 200_000,
        "x" * 10**6,
    ):
        assert len(scrubbed(words)) <= LONGEST + 10


def test_of_a_very_long_text_the_beginning_is_written_and_no_half_of_a_key() -> None:
    looked_at = 16 * LONGEST
    assert scrubbed("word " * looked_at).startswith("word word ")
    assert scrubbed(f"a={'x' * (looked_at - 10)} {'1234567890' * 2}") == "a=*** ..."


def test_of_a_first_start_no_step_of_the_database_is_written() -> None:
    program = """
        import logging
        from ibi.runtime.logging import set_up
        set_up()
        set_up()  # again, as where the settings have changed
        logging.getLogger("alembic.runtime.migration").info("a step")
        logging.getLogger("alembic.runtime.migration").warning("a fault")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stderr.count("a fault") == 1
    assert "a step" not in ended.stderr


def test_a_client_cannot_forge_a_line(log: tuple[logging.Logger, StringIO, str]) -> None:
    logger, written, _ = log
    logger.info(
        "excluded %s", f"x\r\n2026-01-31 12:00:00,123 INFO ibi: forged\x1b[2J\x85\u2028\u202e{chr(0xD800)}"
    )
    try:
        throw(ValueError("y\n2026-01-31 12:00:00,123 INFO ibi: forged\x1b[2J"))
    except ValueError:
        logger.exception("a fault\nof ours")
    text = written.getvalue()
    assert text.count("forged") == 2
    assert not re.search(r"^2026-01-31 12:00:00,123", text, re.MULTILINE)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\x1b" not in text


def test_an_error_is_told_with_its_causes_and_places_but_without_its_secrets(
    log: tuple[logging.Logger, StringIO, str],
) -> None:
    logger, written, form = log

    def fail() -> None:
        secret = f"/{ITEM}?{CANARY}"
        raise KeyError(secret)

    try:
        try:
            fail()
        except KeyError as error:
            raise RuntimeError(f"key={CANARY} of 203.0.113.7") from error
    except RuntimeError:
        logger.exception("it failed: %s", f"?{CANARY}")
    text = written.getvalue()
    assert CANARY not in text
    assert "203.0.113" not in text
    for part in ("RuntimeError", "KeyError", "fail", "test_logs.py"):
        assert part in text
    if form == "json":
        [line] = text.splitlines()
        assert json.loads(line)["error"][0].startswith("RuntimeError: key=***")


@pytest.mark.parametrize("lines", [TextLines(), JSONLines()])
def test_of_a_long_chain_of_errors_the_last_ones_are_written_with_their_innermost_places(
    lines: logging.Formatter,
) -> None:
    def fail(depth: int) -> None:
        if depth:
            fail(depth - 1)
        raise ValueError("the first one")

    with pytest.raises(ValueError, match="the first one") as first:
        fail(60)
    error: Exception = first.value
    for number in range(1, 10):
        latest = RuntimeError(f"number {number}")
        latest.__cause__ = error
        error = latest
    exc_info = type(error), error, error.__traceback__
    text = lines.format(logging.makeLogRecord({"msg": "it failed", "exc_info": exc_info}))
    found = re.findall(r"RuntimeError: number (\d)|ValueError: (the first one)", text)
    assert found == [(str(number), "") for number in range(9, 1, -1)]  # eight; the first one has number 1
    exc_info = first.type, first.value, first.tb
    text = lines.format(logging.makeLogRecord({"msg": "it failed", "exc_info": exc_info}))
    places = re.findall(r"test_logs\.py:(\d+) in [\w.<>]*fail", text)
    assert len(places) == 40
    assert len(set(places[:-1])) == 1  # where it calls itself
    assert places[-1] not in places[:-1]  # where it raises


@pytest.mark.parametrize("lines", [TextLines(), JSONLines()])
@pytest.mark.parametrize("hidden", [False, True])
def test_an_error_that_arose_while_another_was_handled_is_told_with_that_one_unless_it_is_hidden(
    lines: logging.Formatter, *, hidden: bool
) -> None:
    def fail() -> None:
        try:
            throw(KeyError("a"))
        except KeyError:
            if hidden:
                raise RuntimeError("b") from None
            raise RuntimeError("b")  # noqa: B904 - this is what is tested

    with pytest.raises(RuntimeError) as caught:
        fail()
    exc_info = caught.type, caught.value, caught.tb
    text = lines.format(logging.makeLogRecord({"msg": "it failed", "exc_info": exc_info}))
    assert "RuntimeError: b" in text
    assert ("KeyError: " in text) == (not hidden)


def test_json_has_one_object_a_line_with_a_moment_and_the_facts(
    log: tuple[logging.Logger, StringIO, str],
) -> None:
    logger, written, form = log
    logger.warning("a %s b", "\n", extra={logs.FACTS: {"status": 302, "path": f"/{ITEM}?{CANARY}"}})
    if form == "json":
        found = json.loads(written.getvalue())
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("time"))
        assert found == {
            "level": "WARNING",
            "logger": "ibi.of_this_test",
            "message": "a \\n b",
            "status": 302,
            "path": f"/{ITEM}?***",
        }
    else:
        assert re.fullmatch(r"\d{4}-\S+ \S+ WARNING ibi.of_this_test: a \\n b\n", written.getvalue())


@pytest.mark.parametrize("lines", [TextLines(), JSONLines()])
def test_words_that_do_not_fit_are_written_and_not_thrown_about(lines: logging.Formatter) -> None:
    record = logging.makeLogRecord({"msg": "%d of %s", "args": (CANARY,)})
    assert "%d of %s" in lines.format(record)
    assert CANARY not in lines.format(record)


@pytest.mark.parametrize(
    "fail",
    [
        lambda: int(f"{CANARY} '{CANARY}' \\"),
        lambda: dict[str, str]()[f"\"{CANARY}\n'{CANARY}"],
        lambda: throw(ParseError("address", CANARY, "an address is {said}", said=CANARY)),
    ],
)
def test_what_a_reader_sent_is_not_told_by_the_error_that_it_makes(fail: Callable[[], object]) -> None:
    """Python quotes the values that an error is about, and ours have them as details."""
    with pytest.raises(Exception, match=CANARY) as caught:
        fail()
    record = logging.makeLogRecord({"msg": "it failed", "exc_info": (caught.type, caught.value, caught.tb)})
    for lines in (TextLines(), JSONLines()):
        assert CANARY not in lines.format(record)
        assert type(caught.value).__name__ in lines.format(record)


UNCAUGHT = f"""
import logging, sys, threading, warnings
from ibi.runtime import logging as logs

logs.set_up(sys.argv[1])

class Bad:
    def __del__(self):
        raise ValueError("?{CANARY}")

def fail():
    int("{CANARY} {CANARY}")

leaving = threading.Thread(target=sys.exit)
leaving.start()
leaving.join()
class Odd:
    def __str__(self):
        raise RuntimeError
    def __repr__(self):
        return "{CANARY}"

logging.getLogger("ibi").warning("of %s", Odd())  # cannot be written
bad = Bad()
del bad
thread = threading.Thread(target=fail)
thread.start()
thread.join()
warnings.warn("?{CANARY}")
fail()
"""


@pytest.mark.parametrize("form", logs.FORMS)
def test_uncaught_errors_are_events_too(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", UNCAUGHT, form],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    )
    assert done.returncode == 1
    assert CANARY not in done.stderr
    assert done.stderr.count("an error that nobody expected") == 3
    assert "UserWarning" in done.stderr
    if form == "json":
        assert len([json.loads(line) for line in done.stderr.splitlines()]) == 4
