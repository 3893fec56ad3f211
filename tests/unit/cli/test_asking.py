"""A question at a terminal: what is printed, which answers are taken, and when it is given up."""

from __future__ import annotations

import io
import sys

import pytest

from ibi.cli.asking import TRIES, ask, has_terminal, own_address, usable
from ibi.errors import IbiError, SetupError

GIVEN_UP = "there was no answer that can be used; nothing was made"


def number(text: str) -> str:
    if not text.isdecimal():
        raise IbiError("{text} is no number", text=text)
    return text.lstrip("0")


def odd(answer: str) -> IbiError | None:
    return IbiError("{answer} is odd", answer=answer) if int(answer) % 2 else None


def answered(typed: str, proposal: str = "", *, doubts: bool = False) -> tuple[str, list[str]]:
    """The answer, or why there was none, and the lines of the terminal."""
    terminal = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANGUAGE", "en")
        patch.setattr(sys, "stdin", io.StringIO(typed))
        patch.setattr(sys, "stderr", terminal)
        try:
            answer = ask("How many?", proposal, number, odd) if doubts else ask("How many?", proposal, number)
        except SetupError as error:
            answer = str(error)
    return answer, terminal.getvalue().split("\n")


def test_the_first_usable_answer_is_taken_in_its_plain_spelling() -> None:
    assert answered(" 007 \n8\n") == ("7", ["How many? "])
    assert answered("x\n\n8\n") == (
        "8",
        ["How many? x is no number", "How many?  is no number", "How many? "],
    )


def test_an_empty_answer_stands_for_the_proposal() -> None:
    assert answered("\n", "5") == ("5", ["How many? [5] "])
    assert answered("6\n", "5") == ("6", ["How many? [5] "])


def test_a_doubtful_answer_must_be_given_twice() -> None:
    again = "Give the same answer again if it is right nevertheless."
    assert answered("7\n7\n", doubts=True) == ("7", ["How many? 7 is odd", again, "How many? "])
    assert answered("7\n9\n7\n8\n", doubts=True)[0] == "8"
    assert answered("7\n07\n", doubts=True)[0] == "7"


def test_a_script_that_goes_on_typing_and_a_terminal_that_is_closed_end_it() -> None:
    assert answered("x\n" * (TRIES - 1) + "8\n")[0] == "8"
    assert answered("x\n" * TRIES + "8\n")[0] == GIVEN_UP
    assert answered("x\n") == (GIVEN_UP, ["How many? x is no number", "How many? ", ""])


@pytest.mark.parametrize(("stdin", "stderr"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_person_is_there_if_both_ends_are_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stdin: bool, stderr: bool
) -> None:
    for name, is_one in (("stdin", stdin), ("stderr", stderr)):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda is_one=is_one: is_one, raising=False)
        monkeypatch.setattr(sys, name, stream)
    assert has_terminal() is (stdin and stderr)


def test_only_what_can_be_used_is_proposed() -> None:
    assert (usable(number, "07"), usable(number, "x")) == ("7", "")


@pytest.mark.parametrize(("somewhere", "own"), [("127.0.0.1", "127.0.0.1"), ("127.0.0.256", "")])
def test_the_address_of_this_machine(monkeypatch: pytest.MonkeyPatch, somewhere: str, own: str) -> None:
    monkeypatch.setattr("ibi.cli.asking._SOMEWHERE", (somewhere, 9))
    assert own_address() == own
