"""The questions of `ibi init`: which are asked, what they propose, which answers they accept."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest

from ibi.cli.parser import Parser
from ibi.cli.setup import add_parser
from ibi.cli.setup.answers import Answers
from ibi.cli.setup.changing import Change
from ibi.cli.setup.planning import files_of
from ibi.cli.setup.questions import QUESTIONS, Draft, open_questions, option
from ibi.cli.setup.rendering import Machine
from ibi.cli.setup.surroundings import Surroundings, check_name
from ibi.errors import IbiError

HERE = Surroundings(
    host_name=lambda: "repository.example.org",
    own_address=lambda: "8.8.4.4",
    usual_folder="/var/lib/ibi",
    found=lambda name: ["8.8.8.8"] if name.endswith("example.org") else [],
    is_own=lambda ip: ip == "8.8.4.4",
    is_free=lambda _, port: port not in {8081, 443},
    folder_fault=lambda path: IbiError("{path} is full", path=path) if path.name == "full" else None,
    former=lambda _: None,
)
BY_NAME = {each.name: each for each in QUESTIONS}
ALL = {
    "archive": ["data", "kind", "domain", "ip", "proxy", "port", "admin", "account", "resolver"],
    "resolver": ["data", "kind", "domain", "proxy", "port", "admin", "account"],
    "both": [
        "data",
        "kind",
        "domain",
        "resolver_domain",
        "ip",
        "proxy",
        "port",
        "resolver_port",
        "admin",
        "account",
    ],
}


def interview(draft: Draft, **given: str) -> list[str]:
    """Answer all questions, those that are not given by what is proposed; the names of the questions."""
    names = []
    while questions := open_questions(draft):
        question = questions[0]
        names.append(question.name)
        text = given.get(question.name) or question.proposed(draft)
        draft.give(question.name, question.check(text, draft))
    return names


def drafted(**given: str) -> Draft:
    draft = Draft(HERE)
    interview(draft, **given)
    return draft


def test_each_question_has_an_option_and_an_answer() -> None:
    parser = Parser()
    add_parser(parser.add_subparsers())
    options = {each.option_strings[-1] for each in parser.subcommands()["init"][0].shown_arguments()}
    names = [each.name for each in QUESTIONS]
    assert {option(name) for name in names} <= options
    assert set(names) - {"data"} == {each.name for each in fields(Answers)} - {"for_trying"}
    assert names == ALL["both"] + ["resolver"]


@pytest.mark.parametrize("kind", ALL)
def test_each_kind_is_asked_what_it_needs(kind: str) -> None:
    assert interview(Draft(HERE), kind=kind) == ALL[kind]


def test_proposals_alone_make_an_archive() -> None:
    assert drafted().answers() == Answers(
        kind="archive",
        domain="repository.example.org",
        ip="8.8.8.8",  # where the name leads, not the machine's own
        proxy="caddy",
        port=8082,  # another program listens at 8081
        admin="admin@repository.example.org",
        account="admin",
    )


def test_what_cannot_be_used_is_not_proposed() -> None:
    draft = Draft(
        replace(HERE, host_name=lambda: "localhost", own_address=lambda: "10.0.0.1", found=lambda _: [])
    )
    draft.give("kind", "archive")
    assert BY_NAME["domain"].proposed(draft) == ""
    draft.give("domain", "archive.example.org")
    assert BY_NAME["ip"].proposed(draft) == ""


def test_a_resolver_beside_an_archive_has_a_name_and_a_port_of_its_own() -> None:
    answers = drafted(kind="3", domain="Archive.Example.org.", port="8080").answers()
    assert (answers.domain, answers.resolver_domain) == ("archive.example.org", "resolver.example.org")
    assert (answers.port, answers.resolver_port) == (8080, 8082)
    resolver, archive = answers.services()
    assert (resolver.kind, resolver.folder) == ("resolver", "resolver/resolver.example.org")
    assert (archive.address, archive.public_url) == ("archive.example.org", "https://archive.example.org")


def test_without_a_proxy_the_port_is_part_of_the_address() -> None:
    answers = drafted(kind="both", proxy="none", port="80", resolver_port="8080").answers()
    resolver, archive = answers.services()
    assert (archive.address, archive.root) == ("repository.example.org", "http://repository.example.org")
    assert (resolver.address, resolver.public_url) == ("resolver.example.org:8080", "")
    assert resolver.host == "0.0.0.0"


NO_FOLDER = "give the path of a folder without blanks and without any of: \"'\\$%;"
NO_PORT = "a port is a whole number from 1 to 65535"
LONG_NAME = (
    "the name of an account is made of at most 64 letters without accents, digits, dots, hyphens and underlines, "
    "without blanks"
)
KIND = "the answer is one of: archive, resolver, both"
BAD = [
    ("data", "/somewhere/full", "/somewhere/full is full"),
    ("data", "/srv/my ibi", NO_FOLDER),
    ("data", "/srv/100%", NO_FOLDER),
    ("data", "", NO_FOLDER),
    ("kind", "4", KIND),
    ("kind", "0", KIND),
    ("kind", "library", KIND),
    ("domain", "archive", "a whole name is needed, such as archive.example.org, and not archive"),
    ("domain", "8.8.8.8", "a name is needed, and not an IP address, which may get another owner"),
    (
        "domain",
        "archive.localhost",
        "the host name archive.localhost has no owner, so its labels are only for trying out",
    ),
    ("resolver_domain", "archive.example.org", "the Archive and the resolver need different names"),
    ("ip", "8.8.8", "this is not an IP address"),
    ("ip", "10.0.0.1", "the address 10.0.0.1 is not public, so its labels are only for trying out"),
    ("proxy", "apache", "the answer is one of: caddy, nginx, haproxy, none"),
    ("port", "443", "another program listens at port 443; give another one"),
    *(("port", text, NO_PORT) for text in ("0", "-1", "65536", "080000", "9" * 5000, "http", "８０", "")),
    ("resolver_port", "9000", "the Archive and the resolver need different ports"),
    ("resolver_port", "09000", "the Archive and the resolver need different ports"),
    ("admin", "maria", "the address of the administrator is a mail address: maria"),
    (
        "account",
        "maria silva",
        LONG_NAME,
    ),
    (
        "resolver",
        "resolver.example.org",
        "a resolver is given by its root, such as http://resolver.example; this is not: resolver.example.org",
    ),
]


def complaint(name: str, text: str, draft: Draft) -> str:
    """What a person is told whose answer cannot be used."""
    with pytest.raises(IbiError) as refused:
        BY_NAME[name].check(text, draft)
    return str(refused.value)


@pytest.mark.parametrize(("name", "text", "sentence"), BAD)
def test_a_bad_answer_gets_one_clear_sentence(name: str, text: str, sentence: str) -> None:
    draft = drafted(kind="both", domain="archive.example.org", port="9000")
    assert complaint(name, text, draft) == sentence


@pytest.mark.parametrize(
    "text",
    [
        "my archive.example.org", "https://archive.example.org/", "archive.example.org:8080", "ação.example.org",
        "x" * 80 + ".example.org", "-x.example.org", "x_y.example.org", "",
    ],
)  # fmt: skip
def test_what_is_no_name_of_a_host_is_shown_cut_off(text: str) -> None:
    assert complaint("domain", text, drafted()) == (
        f"this is not the name of a host: {text[:80]}; such a name has letters without accents, digits, hyphens and "
        "dots, as archive.example.org has"
    )


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("kind", " 1 ", "archive"),
        ("kind", "Resolver", "resolver"),
        ("proxy", "4", "none"),
        ("domain", f" {'X' * 63}.{'a' * 63}.example.ORG. ", f"{'x' * 63}.{'a' * 63}.example.org"),
        ("port", "1", "1"),
        ("port", "08080", "8080"),
        ("port", "65535", "65535"),
        ("account", "x" * 64, "x" * 64),
        ("admin", " a@example.org ", "a@example.org"),
        ("resolver", " http://resolver.example.org ", "http://resolver.example.org"),
    ],
)
def test_a_good_answer_is_kept_in_its_plain_spelling(name: str, text: str, kept: str) -> None:
    assert BY_NAME[name].check(text, drafted()) == kept


WORDS = {
    "data": "In which folder is all of it kept?",
    "kind": "What do you want to run?",
    "domain": "What is the name of the Archive, such as archive.example.org?",
    "resolver_domain": "What is the name of the resolver, such as resolver.example.org?",
    "ip": "What is the public IP address of a.example.org, which becomes part of the names of items?",
    "proxy": "Which proxy serves https in front of it?",
    "port": "At which port of this machine does the proxy find a.example.org?",
    "resolver_port": "At which port of this machine does the proxy find r.example.org?",
    "admin": "What is the administrator's mail address?",
    "account": "Under which name does the administrator sign in with a browser?",
    "resolver": "Which resolver does it take part in (http://host; empty: none yet)?",
}


@pytest.mark.parametrize(
    ("given", "other"),
    [
        ({"kind": "archive"}, {}),
        ({"kind": "both"}, {}),
        (
            {"kind": "both", "proxy": "none"},
            {
                "port": "At which port does a.example.org answer?",
                "resolver_port": "At which port does r.example.org answer?",
            },
        ),
        (
            {"kind": "resolver"},
            {"domain": "What is the name of the resolver, such as resolver.example.org?"},
        ),
    ],
)
def test_questions_name_what_they_are_about(given: dict[str, str], other: dict[str, str]) -> None:
    draft = drafted(domain="a.example.org", resolver_domain="r.example.org", **given)
    texts = {each.name: str(each.text(draft)) for each in QUESTIONS if each.applies(draft)}
    assert texts == {name: text for name, text in {**WORDS, **other}.items() if name in ALL[given["kind"]]}


@pytest.mark.parametrize(
    ("given", "free", "proposed"),
    [
        ({"kind": "archive"}, 8081, "8081"),
        ({"kind": "archive"}, 8130, "8130"),
        ({"kind": "archive"}, 8131, ""),  # only fifty are tried
        ({"kind": "resolver"}, 8080, "8080"),
        ({"kind": "resolver", "proxy": "none"}, 80, "80"),
        ({"kind": "archive", "proxy": "none"}, 8081, "8081"),
    ],
)
def test_the_first_free_port_is_proposed(given: dict[str, str], free: int, proposed: str) -> None:
    draft = Draft(
        replace(HERE, is_free=lambda _, port: port == free), values={"domain": "a.example.org", **given}
    )
    assert BY_NAME["port"].proposed(draft) == proposed


def test_an_address_of_another_machine_is_doubted_unless_a_router_is_named() -> None:
    draft = drafted()
    question = BY_NAME["ip"]
    assert question.doubt("8.8.4.4", draft) is None
    assert str(question.doubt("8.8.8.8", draft)) == (
        "8.8.8.8 is not an address of this machine; a router must pass requests for it on to this machine"
    )
    assert question.doubt("8.8.8.8", Draft(HERE, behind_nat=True)) is None


def test_for_trying_names_without_an_owner_are_allowed() -> None:
    draft = Draft(HERE, for_trying=True)
    given = {"domain": "127.0.0.1", "resolver_domain": "127.0.0.1", "ip": "127.0.0.1"}
    interview(draft, kind="both", **given, admin="a@archive.example")
    assert draft.answers().for_trying


AGAIN = Answers(
    kind="archive", domain="old.example.org", ip="8.8.8.8", proxy="nginx", port=8081,
    admin="maria@example.org", account="maria", resolver="http://resolver.example.org",
)  # fmt: skip


def test_an_earlier_run_proposes_its_answers_and_keeps_what_is_part_of_links() -> None:
    draft = Draft(replace(HERE, former=lambda _: AGAIN))
    assert interview(draft) == ["data", "kind", "domain", "ip", "proxy", "port", "admin"]
    assert draft.answers() == AGAIN
    assert complaint("kind", "resolver", draft) == (
        "an Archive, which keeps items was set up in this folder; give another folder for anything else"
    )
    assert complaint("domain", "new.example.org", draft) == (
        "it is called old.example.org, which is part of the links that it has given, and stays so"
    )
    assert BY_NAME["port"].check("8081", draft) == "8081"  # where its own service listens


ZONE = "let its zone have an address record (A or AAAA) for it; until then, there is no certificate"
RECORD = "correct its address record, or see that a router passes requests on"


@pytest.mark.parametrize(
    ("found", "ip", "verdict", "sentence", "remedy"),
    [
        ([], "8.8.8.8", "warning", "a.example.org leads nowhere yet", ZONE),
        (["9.9.9.9", "8.8.8.8"], "8.8.8.8", "ok", "a.example.org leads to 9.9.9.9, 8.8.8.8", "None"),
        (["8.8.4.4"], "", "ok", "a.example.org leads to 8.8.4.4", "None"),
        (
            ["9.9.9.9", "::1"],
            "8.8.8.8",
            "warning",
            "a.example.org leads to 9.9.9.9, ::1, which is not an address of this machine",
            RECORD,
        ),
    ],
)
def test_where_a_name_leads_is_told(
    found: list[str], ip: str, verdict: str, sentence: str, remedy: str
) -> None:
    finding = check_name(replace(HERE, found=lambda _: found), "a.example.org", ip)
    assert (finding.severity, finding.name) == (verdict, "address")
    assert (str(finding.sentence), str(finding.remedy)) == (sentence, remedy)


@pytest.mark.parametrize(
    ("proxy", "file"), [("caddy", "Caddyfile"), ("nginx", "nginx.conf"), ("haproxy", "haproxy.cfg")]
)
def test_the_files_are_those_of_the_services_and_of_the_proxy(proxy: str, file: str) -> None:
    given = {"domain": "archive.example.org", "port": "8083", "resolver_port": "8080"}
    answers = drafted(kind="both", proxy=proxy, **given).answers()
    files = files_of(answers, Machine("/usr/bin/ibi", "ibi", "/srv/my ibi"))
    assert list(files) == sorted(files)
    units = {Path(name).name for name in files if name.startswith("setup/systemd/")}
    kinds = {f"ibi-{kind}@.{suffix}" for kind in ("archive", "resolver") for suffix in ("service", "socket")}
    assert units == kinds | {"ibi.conf", "port.conf"}
    assert "127.0.0.1:8083" in files["setup/systemd/ibi-archive@archive.example.org.socket.d/port.conf"]
    written = files[f"setup/proxy/{file}"]
    assert all(word in written for word in ("archive.example.org", "127.0.0.1:8083", "127.0.0.1:8080"))
    script = files["setup/install.sh"]
    assert "find '/srv/my ibi/archive/archive.example.org' ! -user ibi -exec chown" in script
    assert script.index("restart ibi-resolver@") < script.index("restart ibi-archive@")
    assert 0 < script.index(file) < script.index("systemctl enable")


def test_one_service_without_a_proxy_has_only_its_own_files() -> None:
    files = files_of(drafted(kind="resolver", proxy="none").answers(), Machine())
    assert {Path(name).name for name in files} == {
        "install.sh", "ibi.conf", "ibi-resolver@.service", "ibi-resolver@.socket", "port.conf",
    }  # fmt: skip
    assert "0.0.0.0:80" in files["setup/systemd/ibi-resolver@repository.example.org.socket.d/port.conf"]


def test_a_diff_of_settings_shows_no_line_that_stays() -> None:
    before = 'secret = "1"\nadmin = "a@b.example"\nkey = "2"\n'
    after = before.replace("a@b", "c@d")
    assert Change("archive/a/archive.toml", before, after).diff().splitlines()[2:] == [
        "@@ -2 +2 @@", '-admin = "a@b.example"', '+admin = "c@d.example"',
    ]  # fmt: skip
    assert 'key = "2"' in Change("setup/install.sh", before, after).diff()
    assert "\t" not in Change("setup/proxy/Caddyfile", "", "a\n\tb\n").diff()
