"""A small OAI-PMH repository on a socket of this machine, which can also misbehave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape, quoteattr

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">'
    "<responseDate>{moment}</responseDate><request>http://repository.example/oai</request>"
)
DC = (
    '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/">{}</oai_dc:dc>'
)


@dataclass
class Entry:
    """A record of the repository: `statements` are (element, text, language)."""

    identifier: str
    datestamp: str
    statements: list[tuple[str, str, str]] = field(default_factory=list)
    deleted: bool = False
    part: str = ""

    def xml(self) -> str:
        status = ' status="deleted"' if self.deleted else ""
        header = (
            f"<header{status}><identifier>{escape(self.identifier)}</identifier>"
            f"<datestamp>{self.datestamp}</datestamp></header>"
        )
        if self.deleted:
            return f"<record>{header}</record>"
        metadata = "".join(
            f"<dc:{element}{f' xml:lang={quoteattr(tag)}' if tag else ''}>{escape(text)}</dc:{element}>"
            for element, text, tag in self.statements
        )
        return f"<record>{header}<metadata>{DC.format(metadata)}</metadata></record>"


def article(number: int, moment: str = "2020-01-01T00:00:00Z", title: str = "") -> Entry:
    """A record like those of a repository of articles."""
    return Entry(
        f"oai:repository.example:{number}",
        moment,
        [
            ("title", title or f"Título {number}", "pt"),
            ("creator", "Banon, Gerald Jean Francis", ""),
            ("identifier", f"http://repository.example/handle/{number}", ""),
            ("identifier", "10.1234/abc", ""),
            ("language", "por", ""),
        ],
    )


def thesis(number: int, moment: str = "2022-03-01T12:00:00Z") -> Entry:
    """A record as DSpace gives it: when it came in before the date of the work, and two URLs."""
    return Entry(
        f"oai:dspace.example.org:123456789/{number}",
        moment,
        [
            ("title", f"A maré e o mangue {number}", ""),
            ("creator", "Silva, Maria", ""),
            ("contributor", "Souza, João", ""),
            ("subject", "Oceanografia", ""),
            ("description", "Estudo do mangue.", ""),
            ("date", "2022-02-28T09:00:00Z", ""),
            ("date", "2022-02-28T09:00:00Z", ""),
            ("date", "2021", ""),
            ("type", "Dissertação", ""),
            ("identifier", f"SILVA, M. A maré e o mangue {number}. 2021. Dissertação (Mestrado)", ""),
            ("identifier", f"http://dspace.example.org/handle/123456789/{number}", ""),
            ("language", "pt_BR", ""),
            ("rights", "Acesso Aberto", ""),
            ("rights", "http://creativecommons.org/licenses/by/4.0/", ""),
            ("publisher", "Universidade do Vale", ""),
        ],
    )


def journal_article(number: int, moment: str = "2022-03-05T12:00:00Z") -> Entry:
    """A record as OJS gives it: in two languages, with an abstract in HTML, a DOI, volume, number and pages."""
    root = f"http://revista.example.org/index.php/mar/article/view/{number}"
    return Entry(
        f"oai:revista.example.org:article/{number}",
        moment,
        [
            ("title", f"Peixes do estuário {number}", "pt-BR"),
            ("title", f"Fish of the estuary {number}", "en-US"),
            ("creator", "Lima, Ana", ""),
            ("subject", "Oceanografia", "pt-BR"),
            ("description", "<p>Um <em>censo</em> de peixes.</p><p>Terra &amp; mar.</p>", "pt-BR"),
            ("publisher", "Universidade do Vale", "pt-BR"),
            ("date", "2021-03-01", ""),
            ("type", "info:eu-repo/semantics/article", ""),
            ("type", "Artigo avaliado pelos pares", "pt-BR"),
            ("type", "info:eu-repo/semantics/publishedVersion", ""),
            ("format", "application/pdf", ""),
            ("identifier", root, ""),
            ("identifier", f"10.5555/mar.{number}", ""),
            ("source", f"Revista do Mar; v. 12 n. 3 (2021): Estuários; {number}-67", "pt-BR"),
            ("source", f"Revista do Mar; Vol. 12 No. 3 (2021): Estuaries; {number}-67", "en-US"),
            ("source", "1234-5679", ""),
            ("language", "por", ""),
            ("relation", f"{root}/67", ""),
            ("rights", "Copyright (c) 2021 Ana Lima", "pt-BR"),
            ("rights", "https://creativecommons.org/licenses/by/4.0", ""),
        ],
        part="mar:ART",
    )


class Repository:
    """Answers ListRecords; pages of `size` records. `queries` and `headers` are those it got.

    `before` may answer in its place: it gets the query and gives (status, headers, body) or None.
    """

    def __init__(self, entries: list[Entry], size: int = 3) -> None:
        self.entries = entries
        self.size = size
        self.moment = "2021-01-01T00:00:00Z"
        self.queries: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.before: Callable[[dict[str, str]], tuple[int, dict[str, str], bytes] | None] = lambda _: None
        self.url = ""

    def answer(self, query: dict[str, str]) -> bytes:
        if query.get("verb") != "ListRecords":
            return self.error("badVerb", "no such verb")
        since, part, start = query.get("from", ""), query.get("set", ""), 0
        if "resumptionToken" in query:
            try:
                start_text, since, part = query["resumptionToken"].split("|")
                start = int(start_text)
            except ValueError:
                return self.error("badResumptionToken", "no such token")
        elif query.get("metadataPrefix") != "oai_dc":
            return self.error("cannotDisseminateFormat", "only oai_dc")
        chosen = [
            each for each in self.entries if each.datestamp >= since and (not part or each.part == part)
        ]
        page = chosen[start : start + self.size]
        if not page:
            return self.error("noRecordsMatch", "nothing")
        end = start + self.size
        token = ""
        if end < len(chosen):
            token = f"<resumptionToken>{end}|{since}|{part}</resumptionToken>"
        elif start:
            token = "<resumptionToken/>"
        return self.page("".join(each.xml() for each in page) + token)

    def page(self, inside: str) -> bytes:
        return f"{HEAD.format(moment=self.moment)}<ListRecords>{inside}</ListRecords></OAI-PMH>".encode()

    def error(self, code: str, words: str) -> bytes:
        return f'{HEAD.format(moment=self.moment)}<error code="{code}">{words}</error></OAI-PMH>'.encode()


@contextmanager
def answering(repository: Repository) -> Iterator[Repository]:
    """Let it answer on a socket of this machine until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            repository.queries.append(query)
            repository.headers.append({name.lower(): value for name, value in self.headers.items()})
            status, headers, body = repository.before(query) or (200, {}, repository.answer(query))
            self.send_response(status)
            for name, value in {
                "Content-Type": "text/xml",
                "Content-Length": str(len(body)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    repository.url = f"http://127.0.0.1:{server.server_address[1]}/oai"
    try:
        yield repository
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
