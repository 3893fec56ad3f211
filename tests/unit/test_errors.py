"""Errors carry one sentence, and texts at fault their caret."""

from ibi.errors import IbiError, ParseError


def test_a_problem_is_filled_from_its_details() -> None:
    assert str(IbiError("the port {port} is taken", port=8080)) == "the port 8080 is taken"


def test_braces_in_a_problem_without_details_are_only_braces() -> None:
    assert str(IbiError("a stray { in the answer")) == "a stray { in the answer"


def test_the_caret_stands_below_the_fault() -> None:
    fault = ParseError("IBIp", "8JMKD3MGP0W/34PGRBS", "no such digit", 9, 10)
    assert fault.caret() == "8JMKD3MGP0W/34PGRBS\n         ^"


def test_a_caret_below_a_long_text_shows_the_surroundings_of_the_fault() -> None:
    text, pointer = (
        ParseError("IBIp", "A" * 5000 + "?" + "B" * 5000, "no such digit", 5000, 5001).caret().split("\n")
    )
    assert len(text) <= 120
    assert text[pointer.index("^")] == "?"


def test_characters_that_no_terminal_should_see_are_masked() -> None:
    assert "\x1b" not in ParseError("IBIp", "a\x1b[31mb", "no").caret()


def test_a_fault_seen_in_a_larger_text_keeps_sentence_and_place() -> None:
    fault = ParseError("IBIp", "abc", "at most {limit}", 1, 2, limit=3).within("persistent URL", "/abc", 1)
    assert (fault.what, fault.start, fault.end, str(fault)) == ("persistent URL", 2, 3, "at most 3")


def test_a_parse_error_is_a_value_error_too() -> None:
    assert issubclass(ParseError, ValueError)
