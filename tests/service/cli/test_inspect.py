"""`ibi inspect`, and what every command has in common, as a person or a script sees them."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from ibi import __version__
from ibi.cli import inspect, main
from ibi.identifier import wrappers
from ibi.runtime.i18n import say

WILD = Path(__file__).parents[3] / "conformance/wild/real_identifiers.jsonl"
COMMON_KEYS = {"input", "form", "canonical", "port", "datetime", "precision", "public", "peeled", "warnings"}
URL_KEYS = {"modifier", "verbs", "relation", "file_path", "original_required", "foreign_query"}
COMMANDS = ["inspect", "archive", "resolver", "resolve", "up"]


def ibi(
    *words: str, stdin: str | bytes = "", language: str = "C.UTF-8", **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "LC_ALL": language,
        **more,
    }
    raw = stdin if isinstance(stdin, bytes) else stdin.encode()
    command = [sys.executable, "-m", "ibi", *words]
    done = subprocess.run(command, input=raw, capture_output=True, env=environment, timeout=60, check=False)
    out, err = (stream.decode("utf-8", "surrogateescape") for stream in (done.stdout, done.stderr))
    assert "Traceback" not in err
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def inspected(text: str) -> dict[str, Any]:
    """What it says in JSON; here no process of its own is started, as that costs more than all the rest."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("LANGUAGE", "en")
        status = main(["inspect", "--json", "--", text])
    assert (status, err.getvalue()) == (0, "")
    facts: dict[str, Any] = json.loads(out.getvalue())
    assert facts.keys() >= COMMON_KEYS
    assert facts["input"] == text
    assert ("host" in facts) != ("ip" in facts)
    return facts


# --- what is read --------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-73")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "8JMKD3MGP7W/385N5PE",
            {"form": "ibip", "canonical": "8JMKD3MGP7W/385N5PE", "ip": "150.163.34.242", "port": 800, "public": True,
             "datetime": "2010-08-25T12:38:00Z", "precision": 60, "peeled": [], "warnings": []},
        ),
        (
            "8jmkd3mgp3w34p/3jjur2l",
            {"form": "ibip", "canonical": "8JMKD3MGP3W34P/3JJUR2L", "ip": "150.163.34.239", "port": 804},
        ),
        (
            "7URMDHLL9SSN2D89MX/38G3TS3",
            {"form": "ibip", "ip": "2001:252:0:1::2008:6", "port": 800, "precision": 1},
        ),
        (
            "sid.inpe.br/mtc-m18/2009/02.16.17.46",
            {"form": "rep", "host": "mtc-m18.sid.inpe.br", "port": 80, "public": True,
             "datetime": "2009-02-16T17:46:00Z", "precision": 60, "warnings": []},
        ),
        (
            "sid.INPE.br/MTC-m18.1905/2009/02.16.17.46.05.25",
            {"form": "rep", "canonical": "sid.inpe.br/mtc-m18.1905/2009/02.16.17.46.05.25", "port": 1905,
             "datetime": "2009-02-16T17:46:05.25Z", "precision": 0.01},
        ),
        (
            "dpi.inpe.br/banon/2004/02.16.09.30.00",
            {"canonical": "dpi.inpe.br/banon/2004/02.16.09.30.00", "datetime": "2004-02-16T09:30:00Z", "precision": 1},
        ),
    ],
)  # fmt: skip
def test_an_identifier_tells_its_form_its_host_and_its_moment(text: str, expected: dict[str, object]) -> None:
    facts = inspected(text)
    assert {key: facts[key] for key in expected} == expected
    assert not facts.keys() & URL_KEYS


@pytest.mark.proves("WILD-02")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "6RPa7umaZ/UaJFT",
            {"ip": "192.168.1.100", "port": None, "public": False, "datetime": "2008-05-16T17:13:00Z"},
        ),
        ("6qtX3pFwXQZ3r59YCT/GUQnU", {"host": "iris.sid.inpe.br", "port": 1905, "public": True}),
    ],
)
def test_a_legacy_id_is_recognised_and_keeps_its_case(text: str, expected: dict[str, object]) -> None:
    facts = inspected(text)
    assert (facts["form"], facts["canonical"]) == ("legacy", text)
    assert {key: facts[key] for key in expected} == expected
    assert "upper and lower case matter" in facts["warnings"][0]


@pytest.mark.proves("URL-05", "URL-14", "URL-15", "WILD-03")
def test_a_persistent_url_tells_what_is_asked_of_the_item() -> None:
    facts = inspected(
        "http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)/a%20b.pdf?x=1&ibiurl.requireditemstatus=Original&ibiurl.language=pt"
    )
    assert {key: facts[key] for key in URL_KEYS} == {
        "modifier": "!:(oai_dc)",
        "verbs": ["GetLastEdition", "GetMetadata(oai_dc)"],
        "relation": ".lastedition.metadata(oai_dc)",
        "file_path": "/a%20b.pdf",
        "original_required": True,
        "foreign_query": "x=1",
    }
    assert facts["peeled"] == [{"kind": "resolver address", "text": "http://urlib.net/"}]
    assert facts["warnings"] == ["the system knows no parameter ibiurl.language=pt"]


@pytest.mark.proves("URL-02", "URL-21")
def test_a_simple_persistent_url_and_the_old_spelling_of_metadata_are_urls_too() -> None:
    assert inspected("http://urlib.net/8JMKD3MGP7W/385N5PE")["modifier"] == ""
    assert inspected("8JMKD3MGP7W/385N5PE??")["relation"] == ".metadata"


@pytest.mark.proves("WILD-01")
def test_what_was_around_an_identifier_is_told_and_so_are_other_identifiers() -> None:
    facts = inspected(
        "http://mtc-m16c.sid.inpe.br/col/sid.inpe.br/mtc-m18@80/2008/03.17.15.17.24/doc/mirrorget.cgi"
        "?metadatarepository=sid.inpe.br/mtc-m16c/2022/12.16.14.30.08&choice=full"
    )
    assert facts["canonical"] == "sid.inpe.br/mtc-m16c/2022/12.16.14.30.08"
    assert facts["others"] == ["sid.inpe.br/mtc-m18@80/2008/03.17.15.17.24"]
    assert [piece["kind"] for piece in facts["peeled"]] == [
        "cgi wrapper",
        "query parameter",
        "query parameter",
    ]


@pytest.mark.parametrize(
    ("text", "public", "warning"),
    [
        pytest.param("LK47B6W/362SFKH", False, "127.0.0.1 is not public", marks=pytest.mark.proves("AMB-10")),
        pytest.param(
            "NENDTJMTKW/335L8GH", False, "192.168.1.100 is not public", marks=pytest.mark.proves("AMB-10")
        ),
        pytest.param("new/page", None, "no IP address", marks=pytest.mark.proves("AMB-11")),
        pytest.param(
            "8JMKD3MGP3W34K/385N5PE",
            True,
            "written 8JMKD3MGP3W;",
            marks=pytest.mark.proves("AMB-12", "GEN-67"),
        ),
        pytest.param(
            "sid.inpe.br/mtc-m18@80/2009/02.16.17.46",
            True,
            "port 80 is written",
            marks=pytest.mark.proves("AMB-03"),
        ),
        pytest.param(
            "sid.inpe.br/mtc-m18.999999/2009/02.16.17.46", True, "no computer has this port", marks=()
        ),
        pytest.param("localhost/archive/2009/02.16.17.46", False, "has no owner", marks=()),
        pytest.param(
            "sid.inpe.br/iris/1994/02.16.17.46",
            True,
            "older than August 1995",
            marks=pytest.mark.proves("GEN-70"),
        ),
        pytest.param(
            "rep sid.inpe.br/mtc-m18@80/2008/12.12.13.43.19 ibip 8JMKD3MGP8W/34CP87H",
            True,
            "tell different times, 2008-12-12T13:43:19Z and 2008-12-12T12:43:00Z",
            marks=pytest.mark.proves("GEN-08"),
        ),
    ],
)
def test_what_is_odd_is_remarked_on_and_read_all_the_same(
    text: str, public: bool | None, warning: str
) -> None:
    facts = inspected(text)
    assert facts["public"] is public
    assert any(warning in remark for remark in facts["warnings"])


@pytest.mark.proves("AMB-13")
@pytest.mark.parametrize(
    "date", ["2009/13.16.17.46", "2009/02.30.17.46", "2009/02.16.17.46.60", "12009/02.16.17.46"]
)
def test_a_date_that_no_calendar_has_is_null_with_a_remark(date: str) -> None:
    facts = inspected(f"sid.inpe.br/mtc-m18/{date}")
    assert facts["datetime"] is None
    assert "no calendar has this date" in facts["warnings"]


def test_two_forms_that_agree_draw_no_remark() -> None:
    assert inspected("rep urlib.net/www/2014/03.25.23.20 ibip J8LNKB5R7W/3G2EKR5")["warnings"] == []


# --- many texts, and faults ----------------------------------------------------------------------------------------


@pytest.mark.proves("WILD-01")
def test_all_of_the_wild_can_be_piped_through() -> None:
    records = [json.loads(line) for line in WILD.read_text(encoding="utf-8").splitlines()]
    texts = [text for record in records for text in record["found_as"]]
    done = ibi("inspect", "--json", "-", stdin="\n".join(texts) + "\n\n")

    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["input"] for line in done.stdout.splitlines()] == texts


def test_a_text_without_identifier_fails_with_a_caret_and_the_nearest_spelling_and_the_others_are_still_read() -> (
    None
):
    texts = ["8JMKD3MGP7W/385N5PE", "sid.inpe.br/mtc-m18/2009/O2.16.17.46", "J8LNKB5R7W/3G2EKR5"]
    done = ibi("inspect", *texts)

    assert done.returncode == 1
    assert done.stdout.count("canonical") == 2
    assert done.stderr.splitlines() == [
        "ibi: the date is month.day.hour.minute, two digits each, then perhaps .second",
        "  sid.inpe.br/mtc-m18/2009/O2.16.17.46",
        "                           ^^^^^^^^^^^",
        "the nearest valid spelling: sid.inpe.br/mtc-m18/2009/02.16.17.46",
    ]


def test_a_fault_in_json_has_its_own_line() -> None:
    done = ibi("inspect", "--json", "hello world", "8JMKD3MGP7W/385N5PE")

    fault, facts = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1
    assert (fault["input"], fault["error"]["start"], fault["error"]["suggestion"]) == ("hello world", 0, None)
    assert facts["canonical"] == "8JMKD3MGP7W/385N5PE"


@pytest.mark.proves("URL-06", "URL-10")
@pytest.mark.parametrize("modifier", ["::", ":!", "+!+", "++", "?ibiurl.verblist=GetMetadata+GetLastEdition"])
def test_a_modifier_that_means_nothing_is_a_fault(modifier: str) -> None:
    done = ibi("inspect", f"http://urlib.net/8JMKD3MGP7W/385N5PE{modifier}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "^" in done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\x1b[31m",
        "8JMKD3MGP7W/385N5P\u00c9",
        "a" * 5000,
        "\u202e",
        "-",
        "/",
        "%",
        "http://[",
        "sid.inpe.br/a/2009",
    ],
)
def test_bad_input_is_one_clear_sentence(text: str) -> None:
    done = ibi("inspect", "--", text, stdin="nothing here\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("ibi: ")
    assert "\x1b" not in done.stderr


def test_bytes_that_are_no_text_and_endless_lines_are_refused_politely() -> None:
    done = ibi("inspect", "-", stdin=b"\xff\xfe\x00\n" + b"8" * 200_000 + b"\n8JMKD3MGP7W/385N5PE\n")
    assert done.returncode == 1
    assert done.stderr.count("ibi: ") == 2
    assert "canonical  8JMKD3MGP7W/385N5PE" in done.stdout


def test_what_is_shown_to_people_moves_no_cursor() -> None:
    done = ibi("inspect", "\x1b[31m 8JMKD3MGP7W/385N5PE \u202e")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout


def test_people_read_it_in_their_language() -> None:
    english, portuguese = (
        ibi("inspect", "LK47B6W/362SFKH", language=tag) for tag in ("en_US.UTF-8", "pt_BR.UTF-8")
    )
    assert "remark     the address 127.0.0.1 is not public" in english.stdout
    assert portuguese.returncode == 0
    assert "127.0.0.1" in portuguese.stdout
    assert portuguese.stdout != english.stdout


# --- what all commands have in common ------------------------------------------------------------------------------


def test_the_version_is_told() -> None:
    assert ibi("--version").stdout == f"ibi {__version__}\n"


@pytest.mark.parametrize("command", [[], *([command] for command in COMMANDS)])
def test_every_command_explains_itself(command: list[str]) -> None:
    done = ibi(*command, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ibi")


@pytest.mark.parametrize(
    "words", [[], ["nonsense"], ["inspect"], ["inspect", "--nonsense", "x"], ["archive"], ["resolver"]]
)
def test_wrong_usage_is_status_two(words: list[str]) -> None:
    done = ibi(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: ibi" in done.stderr


def _inspecting(*options: str) -> subprocess.Popen[bytes]:
    """`ibi inspect -`, which reads what it is told."""
    return subprocess.Popen(
        [sys.executable, *options, "-m", "ibi", "inspect", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def test_a_reader_who_goes_away_early_is_no_accident() -> None:
    with _inspecting() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"8JMKD3MGP7W/385N5PE\n" * 2000)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait() == 1


def test_an_interrupt_ends_quietly() -> None:
    with _inspecting("-u") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"8JMKD3MGP7W/385N5PE\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"form")  # it is at work now
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_without_the_servers_packages_a_command_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; from ibi.cli import main; sys.exit(main(sys.argv[1:]))"
    words = ["resolver", "init", "--data", str(tmp_path / "data"), "--address", "resolver.example"]
    source = str(Path(__file__).parents[3] / "src")
    start = f"import sys; sys.path.insert(0, {source!r}); {code}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert "pip install 'ibi[node]'" in done.stderr


def test_of_several_names_in_a_text_each_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    text = "see sid.inpe.br/mtc-m18@80/2009/07.21.14.43, also 8JMKD3MGP8W/35MMLL8 and 6RPa7umaZ/UaJFT"
    assert main(["inspect", text, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["others"] == ["8JMKD3MGP8W/35MMLL8", "6RPa7umaZ/UaJFT"]
    first, second = facts["other_names"]
    assert (first["form"], first["ip"], first["datetime"]) == (
        "ibip", "150.163.34.243", "2009-07-21T14:43:00Z",
    )  # fmt: skip
    assert (second["form"], len(second["warnings"])) == ("legacy", 2)
    assert main(["inspect", text]) == 0
    shown = capsys.readouterr().out
    assert [shown.count(each) for each in ("also there", "IBIp", "150.163.34.243", "legacy")] == [2, 1, 1, 1]


def test_every_kind_of_what_stands_around_a_name_has_its_words_in_portuguese() -> None:
    listed = Path(wrappers.__file__).read_text("utf-8").split('"""')[1]
    lines = [re.sub(r"(?<=\S) {3,}.*", "", line) for line in listed.splitlines() if " ·" in line]
    kinds = {kind.strip() for line in lines for kind in line.split("·")} - {""}
    assert kinds == set(inspect.WRAPPERS)
    assert {kind for kind in kinds - {"upn"} if say(kind, "pt-BR") == kind} == set()


def test_everything_is_told_in_portuguese(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANGUAGE", "pt_BR")
    text = (
        "see http://mtc-m18.sid.inpe.br/col/sid.inpe.br/mtc-m18@80/2009/07.21.14.43, also 8JMKD3MGP8W/35MMLL8"
    )
    assert main(["inspect", text, "8JMKD3MGP8W/34PGRBS!:"]) == 0
    titles = {line.partition("  ")[0] for line in capsys.readouterr().out.splitlines()} - {""}
    assert titles == {
        "forma", "forma canônica", "host", "ip", "porta", "momento", "público", "modificador", "verbos", "relação",
        "retirado", "observação", "também no texto",
    }  # fmt: skip
