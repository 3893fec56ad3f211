"""How an answer begins, and what a service that stops still does at once."""

from __future__ import annotations

from ibi.http.server.config import Config

DATE = b"Sun, 22 Nov 2026 09:00:0%d GMT"


def test_an_answer_begins_with_its_status_and_the_headers_of_this_second() -> None:
    config = Config("a:app", log_config=None)
    for second in (1, 2, 1):
        headers = [(b"date", DATE % second), (b"server", b"x")]
        for _ in range(2):
            for status, line in ((200, b"HTTP/1.1 200 OK"), (404, b"HTTP/1.1 404 Not Found")):
                expected = line + b"\r\ndate: " + DATE % second + b"\r\nserver: x\r\n"
                assert config.first_lines(status, headers) == expected
                assert config.known_first_lines[status] == expected
        assert config.first_lines_of is headers
        assert config.known_first_lines.keys() == {200, 404}
    assert Config("a:app", log_config=None).first_lines_of is None


def test_a_service_that_stops_leaves_all_requests_to_the_application() -> None:
    config = Config("a:app", log_config=None)
    assert (config.stopping, config.largest_body) == (False, 0)
    hooks = {"at_once": lambda *_: None, "repeat": lambda *_: None, "later": lambda *_: False}
    for name, hook in hooks.items():
        setattr(config, name, hook)
    config.stop()
    assert {name: getattr(config, name) for name in ("stopping", *hooks)} == {
        "stopping": True, "at_once": None, "repeat": None, "later": None,
    }  # fmt: skip
