"""`ibi init`: one command that sets up an Archive, a resolver, or both, from the answers to some questions.

    questions     what is asked, what is proposed, and which answers can be used
    answers       the answers, as they are kept, and the services that they describe
    surroundings  the facts of this machine that questions need
    planning      from answers to files, by the templates of `rendering`
    making        the first run: all or nothing
    changing      a further run: what would change

Entry points: `add_parser` and `run`.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.cli.asking import ask, has_terminal
from ibi.cli.common import argument, flag, quiet_option, remark, remark_line, tell, tell_line
from ibi.cli.progress import Progress
from ibi.errors import IbiError, SetupError
from ibi.runtime.i18n import printable, say

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ibi.app.doctor import Finding
    from ibi.cli.parser import Parser
    from ibi.cli.setup.answers import Answers
    from ibi.cli.setup.changing import Changes
    from ibi.cli.setup.making import Made, MadeService
    from ibi.cli.setup.questions import Draft, Question

_ABOUT: Final = """\
What no option says is asked at a terminal; nothing is made before all answers are there. A further run in the same
folder shows what other answers would change, and changes it only if that is wanted.

    DIR/archive/DOMAIN      the data directory of the Archive
    DIR/resolver/DOMAIN     that of the resolver
    DIR/setup/systemd       units
    DIR/setup/proxy         the configuration of the proxy
    DIR/setup/install.sh    puts both into their places and starts all, as root
    DIR/setup/answers.toml  the answers
"""
_YES: Final = frozenset({"y", "yes", "s", "sim"})
_NO: Final = frozenset({"n", "no", "não", "nao"})


def add_parser(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `init` to the commands."""
    text = "set up an Archive, a resolver or both: settings, units, proxy, first account"
    parser = commands.add_parser("init", help=text, description=text, epilog=_ABOUT)
    argument(parser, "--data DIR", "the folder in which all of it is kept")
    argument(parser, "--kind", "what to run: archive, resolver or both")
    argument(parser, "--domain HOST", "the host name of the Archive; of the resolver if there is no Archive")
    argument(parser, "--resolver-domain HOST", "the host name of the resolver beside an Archive")
    argument(parser, "--ip IP", "the public IP address of the Archive's server")
    argument(parser, "--proxy", "what serves https in front of it: caddy, nginx, haproxy or none")
    text = "where it listens: behind a proxy, at this machine only (default: 8081, a resolver: 8080)"
    argument(parser, "--port N", text)
    argument(parser, "--resolver-port N", "where the resolver beside an Archive listens")
    argument(parser, "--admin MAIL", "the administrator's mail address")
    argument(parser, "--account NAME", "the name under which the administrator signs in with a browser")
    argument(
        parser, "--resolver URL", "the root URL of the resolver that the Archive takes part in; '' for none"
    )
    argument(
        parser, "--key", "the registration key that was agreed with it; without it, a strong one is made"
    )
    flag(
        parser, "--behind-nat", "the IP address is that of a router, which passes requests on to this machine"
    )
    flag(parser, "--for-trying", "allow names and addresses that no one owns")
    flag(parser, "--yes", "take what is proposed for all that no option says")
    flag(parser, "--apply", "in a further run: make the changes")
    flag(parser, "--json", "one JSON document")
    quiet_option(parser)
    parser.set_defaults(run=run, wrong=parser.error)


def run(args: argparse.Namespace) -> int:
    """Collect the answers, and make or change what they describe. Raises IbiError."""
    from ibi.cli.setup.planning import files_of
    from ibi.cli.setup.questions import Draft
    from ibi.cli.setup.rendering import Machine
    from ibi.cli.setup.surroundings import program, service_user, this_surroundings

    draft = Draft(this_surroundings(), for_trying=args.for_trying, behind_nat=args.behind_nat)
    try:
        _collect(args, draft)
        folder, answers = Path(draft.values["data"]), draft.answers()
        files = files_of(answers, Machine(program(), service_user(), str(folder)))
        if draft.former is not None:
            return _change(args, folder, draft.former, answers, files)
        return _make(args, folder, answers, files)
    except KeyboardInterrupt:
        tell("nothing was made")
        raise


def _collect(args: argparse.Namespace, draft: Draft) -> None:
    """Give the draft an answer to each question: of an option, by --yes, or of the person at the terminal."""
    from ibi.cli.setup.questions import QUESTIONS, open_questions, option

    while questions := open_questions(draft):
        question = questions[0]
        given = getattr(args, question.name)
        draft.give(question.name, _answer(args, draft, question, given, questions))
    for each in QUESTIONS:
        if getattr(args, each.name) is not None and not each.applies(draft):
            args.wrong(say("{text} does not belong here", text=option(each.name)))
    if args.key and (draft.former is not None or not draft.has("kind", "archive")):
        args.wrong(say("{text} does not belong here", text="--key"))


def _answer(
    args: argparse.Namespace, draft: Draft, question: Question, given: str | None, left: Sequence[Question]
) -> str:
    """Return the answer to one question."""
    from ibi.cli.setup.questions import option

    if given is not None:
        try:
            return _checked(question, given, draft)
        except IbiError as error:
            problem = IbiError("{text}: {reason}", text=option(question.name), reason=error)
            if not has_terminal():
                raise problem from None
            tell(problem)
    proposal = question.proposed(draft)
    if args.yes and given is None and (proposal or question.is_optional):
        return _checked(question, proposal, draft)
    if not has_terminal():
        lacking = [question] if args.yes else [each for each in left if getattr(args, each.name) is None]
        names = " ".join(option(each.name) for each in lacking)
        args.wrong(say("without a terminal, options must say: {names}", names=names))
    return ask(
        _shown(question, draft),
        proposal,
        lambda text: question.check(text, draft),
        lambda text: question.doubt(text, draft),
    )


def _checked(question: Question, text: str, draft: Draft) -> str:
    """Return an answer that no person can be asked about again. Raises IbiError."""
    answer = question.check(text, draft)
    problem = question.doubt(answer, draft)
    if problem is not None:
        raise IbiError("{reason}; if one does, give --behind-nat", reason=problem)
    return answer


def _shown(question: Question, draft: Draft) -> str:
    """Return a question as it is asked, with its choices, in the reader's language."""
    lines = [say(question.text(draft))]
    lines += [
        f"  {number}  {say(words)} ({name})"
        for number, (name, words) in enumerate(question.choices.items(), start=1)
    ]
    return "\n".join(lines)


def _confirmed(question: str) -> bool:
    """Ask whether something is wanted; the proposal is no."""

    def check(text: str) -> str:
        if text.lower() not in _YES | _NO:
            raise IbiError("the answer is one of: {words}", words=say("yes, no"))
        return text.lower()

    return ask(question, say("no"), check) in _YES


def _make(args: argparse.Namespace, folder: Path, answers: Answers, files: dict[str, str]) -> int:
    from ibi.cli.setup.making import make

    if not args.yes and has_terminal():
        remark("All of this will be made in {folder}:", folder=folder)
        for name in (*(each.folder for each in answers.services()), *files):
            remark_line(f"  {name}")
        if not _confirmed(say("Shall it be made?")):
            raise SetupError("nothing was made")
    with Progress(say("setting up {path}", path=folder)):
        made = make(folder, answers, files, args.key or "")
    if args.json:
        print(json.dumps(_described(folder, answers, made), ensure_ascii=False))
        return 0
    for warning in made.warnings:
        tell(warning)
    for each in made.services:
        remark(
            "the password of {name} at {url} is shown only now:", name=answers.account, url=each.planned.root
        )
        print(
            f"{each.planned.kind}  {each.planned.root}/-/admin  {answers.account}  {each.password}",
            flush=True,
        )
    _tell_registration(answers, made)
    _tell_findings(answers, made)
    _tell_next_steps(folder, answers)
    return 0


def _described(folder: Path, answers: Answers, made: Made) -> dict[str, object]:
    """Return what was made as an object of a JSON document."""
    from ibi.cli.doctor import described

    return {
        "data": str(folder),
        "services": [
            {
                "kind": each.planned.kind,
                "data": str(each.data),
                "service_ibi": str(each.settings.service.main),
                "address": each.settings.address,
                "root": each.planned.root,
                "account": answers.account,
                "password": each.password,
                "findings": [described(finding) for finding in _findings(answers, each)],
            }
            for each in made.services
        ],
        "install": f"sh {shlex.quote(str(folder / 'setup' / 'install.sh'))}",
    }


def _findings(answers: Answers, made: MadeService) -> list[Finding]:
    """Return what the doctor finds in a data directory that is not served yet, and where its name leads."""
    from ibi.app.doctor.doctor import Checkup, CheckupOptions
    from ibi.cli.setup.answers import BOTH
    from ibi.cli.setup.surroundings import check_name, this_surroundings
    from ibi.minting.machine import this_machine

    found = Checkup(made.data, this_machine(), CheckupOptions()).findings(served=False)
    name = check_name(this_surroundings(), made.planned.name, answers.ip)
    # The resolver beside an Archive does not run yet, either.
    return [name, *(each for each in found if answers.kind != BOTH or each.name != "resolver")]


def _tell_registration(answers: Answers, made: Made) -> None:
    """Print what the administrator of a resolver elsewhere must know of a new Archive."""
    from ibi.cli.archive.founding import print_registration
    from ibi.cli.setup.answers import ARCHIVE
    from ibi.runtime.settings import ArchiveSettings

    settings = made.services[0].settings
    if answers.kind == ARCHIVE and isinstance(settings, ArchiveSettings):
        print_registration(settings, settings.key, as_json=False)


def _tell_findings(answers: Answers, made: Made) -> None:
    from ibi.app.doctor import Severity
    from ibi.cli.doctor import line

    for each in made.services:
        remark("The checkup of {path} found:", path=each.data)
        for finding in _findings(answers, each):
            print_line = remark_line if finding.severity is Severity.OK else tell_line
            print_line(f"  {line(finding)}")


def _tell_next_steps(folder: Path, answers: Answers) -> None:
    from ibi.cli.setup.surroundings import is_hidden_from_units

    if is_hidden_from_units(folder):
        problem = "the units of systemd keep services out of {path}: choose a folder such as /var/lib/ibi or /srv/ibi"
        tell(problem, path=folder)
    command = f"sudo sh {shlex.quote(str(folder / 'setup' / 'install.sh'))}"
    remark("Put all into its place and start it with: {command}", command=command)
    remark("Then check that all is in order with:")
    for each in answers.services():
        remark_line(f"  ibi doctor --data {shlex.quote(str(folder / each.folder))}")


def _change(
    args: argparse.Namespace, folder: Path, former: Answers, answers: Answers, files: dict[str, str]
) -> int:
    """Show what would change, and change it if that is wanted."""
    from ibi.cli.setup.changing import apply, find_changes

    changes = find_changes(folder, former, answers, files)
    apply_them = bool(list(changes)) and (args.apply or _wants(args, changes))
    shown = [{"path": each.path, "diff": each.diff()} for each in changes]
    if apply_them:
        apply(folder, answers, changes)
    if args.json:
        print(json.dumps({"data": str(folder), "changes": shown, "applied": apply_them}, ensure_ascii=False))
        return 0
    if not list(changes):
        remark("{folder} is set up as the answers say; there is nothing to change", folder=folder)
    elif not apply_them:
        tell("nothing was changed; --apply makes these changes")
    else:
        for note in [note for each in changes.services for note in each.notes]:
            tell(note)
        command = f"sudo sh {shlex.quote(str(folder / 'setup' / 'install.sh'))}"
        remark("Put all into its place and start it with: {command}", command=command)
    return 0


def _wants(args: argparse.Namespace, changes: Changes) -> bool:
    """Show the changes, unless in JSON, and ask whether they are wanted, if a person is there."""
    if not args.json:
        for each in changes:
            print(printable(each.diff()), flush=True)
    return (
        not args.yes and has_terminal() and not args.json and _confirmed(say("Shall these changes be made?"))
    )
