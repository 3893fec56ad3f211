"""Reads a page the way a person does: its words, links, heading and language."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """One HTML page. `links` are texts by target; `words` the pieces of text, their blanks made single."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.links: dict[str, str] = {}
        self.words: set[str] = set()
        self.language = ""
        self.heading = ""
        self.forms: list[str] = []
        self._link: str | None = None
        self._open: list[str] = []
        self._last, self._broken = "", False
        self.feed(body.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag == "html":
            self.language = known.get("lang") or ""
        if tag == "a":
            self._link = known.get("href") or ""
            self.links.setdefault(self._link, "")
        if tag == "form":
            self.forms.append(known.get("action") or "")
        self._broken = tag == "wbr"  # a word may go on in another line
        if tag not in {"meta", "link", "input", "br", "wbr", "img", "hr"}:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"</{tag}> closes nothing"
        if tag == "a":
            self._link = None

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if not text or {"style", "script"} & set(self._open):
            return
        begun = self._last if self._broken else ""
        text = begun + text
        self._broken, self._last = False, text
        self.words.add(text)
        if self._link is not None:
            self.links[self._link] = f"{self.links[self._link].removesuffix(begun).strip()} {text}".strip()
        if "h1" in self._open:
            self.heading = f"{self.heading.removesuffix(begun).strip()} {text}".strip()
