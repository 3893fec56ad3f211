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


BAD = [
    ("data", "/somewhere/full", "/somewhere/full is full"),
    ("data", "/srv/my ibi", "give the path of a folder without blanks and without any of: \"'\\$%;"),
    ("data", "/srv/100%", "give the path of a folder"),
    ("data", "", "give the path of a folder"),
    ("kind", "4", "the answer is one of: archive, resolver, both"),
    ("kind", "library", "the answer is one of: archive, resolver, both"),
    ("domain", "my archive.example.org", "this is not the name of a host: my archive.example.org;"),
    (
        "domain",
        "https://archive.example.org/",
        "this is not the name of a host: https://archive.example.org/;",
    ),
    ("domain", "archive.example.org:8080", "this is not the name of a host"),
    ("domain", "ação.example.org", "this is not the name of a host: ação.example.org;"),
    ("domain", "x" * 400, "this is not the name of a host: " + "x" * 80 + ";"),
    ("domain", "archive", "a whole name is needed, such as archive.example.org, and not archive"),
    ("domain", "8.8.8.8", "a name is needed, and not an IP address"),
    ("domain", "archive.localhost", "the host name archive.localhost has no owner"),
    ("resolver_domain", "archive.example.org", "the Archive and the resolver need different names"),
    ("ip", "8.8.8", ""),
    ("ip", "10.0.0.1", "the address 10.0.0.1 is not public"),
    ("proxy", "apache", "the answer is one of: caddy, nginx, haproxy, none"),
    ("port", "443", "another program listens at port 443; give another one"),
    ("port", "0", "a port is a whole number from 1 to 65535"),
    ("port", "65536", "a port is a whole number from 1 to 65535"),
    ("port", "9" * 5000, "a port is a whole number from 1 to 65535"),
    ("port", "http", "a port is a whole number from 1 to 65535"),
    ("resolver_port", "9000", "the Archive and the resolver need different ports"),
    ("admin", "maria", ""),
    ("account", "maria silva", "the name of an account is made of"),
    ("resolver", "resolver.example.org", ""),
]


@pytest.mark.parametrize(("name", "text", "sentence"), BAD)
def test_a_bad_answer_gets_one_clear_sentence(name: str, text: str, sentence: str) -> None:
    draft = drafted(kind="both", domain="archive.example.org", port="9000")
    with pytest.raises(IbiError) as refused:
        BY_NAME[name].check(text, draft)
    assert str(refused.value).startswith(sentence)
    assert "\n" not in str(refused.value)


def test_an_address_of_another_machine_is_doubted_unless_a_router_is_named() -> None:
    draft = drafted()
    question = BY_NAME["ip"]
    assert question.doubt("8.8.4.4", draft) is None
    assert "8.8.8.8 is not an address of this machine" in str(question.doubt("8.8.8.8", draft))
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
    for name, text in (("kind", "resolver"), ("domain", "new.example.org")):
        with pytest.raises(IbiError):
            BY_NAME[name].check(text, draft)
    assert BY_NAME["port"].check("8081", draft) == "8081"  # where its own service listens


@pytest.mark.parametrize(
    ("found", "ip", "verdict"),
    [([], "8.8.8.8", "leads nowhere yet"), (["8.8.8.8"], "8.8.8.8", "leads to 8.8.8.8"),
     (["8.8.4.4"], "", "leads to 8.8.4.4"), (["9.9.9.9"], "8.8.8.8", "9.9.9.9, which is not an address of this")],
)  # fmt: skip
def test_where_a_name_leads_is_told(found: list[str], ip: str, verdict: str) -> None:
    finding = check_name(replace(HERE, found=lambda _: found), "a.example.org", ip)
    assert verdict in str(finding.sentence)
    assert (finding.severity == "ok") is (found in (["8.8.8.8"], ["8.8.4.4"]))


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
