"""The forms of a page, as a browser reads them: their names, and what it sends if nothing is typed."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class HtmlForm:
    """One form. `names`: of all its fields and buttons; `sent`: what is sent of an untouched form, without buttons.

    `buttons`: name and value of each button that has a name.
    """

    action: str
    names: set[str] = field(default_factory=set)
    sent: list[tuple[str, str]] = field(default_factory=list)
    buttons: list[tuple[str, str]] = field(default_factory=list)

    def one(self, name: str) -> str | None:
        """The value that an untouched form sends for a field; None if it sends none."""
        return next((value for each, value in self.sent if each == name), None)


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[HtmlForm] = []
        self._select = ""
        self._options: list[tuple[str, bool]] = []
        self._area = ""
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        name, value = known.get("name") or "", known.get("value") or ""
        if tag == "form":
            self.forms.append(HtmlForm(known.get("action") or ""))
        elif tag == "option" and self._select:
            self._options.append((value, "selected" in known))
        elif name and self.forms and tag in {"input", "select", "textarea", "button"}:
            self.forms[-1].names.add(name)
            self._field(tag, name, value, known)

    def _field(self, tag: str, name: str, value: str, known: dict[str, str | None]) -> None:
        kind = known.get("type")
        if tag == "select":
            self._select, self._options = name, []
        elif tag == "textarea":
            self._area, self._text = name, ""
        elif tag == "button":
            self.forms[-1].buttons.append((name, value))
        elif tag == "input" and kind != "file" and (kind != "checkbox" or "checked" in known):
            self.forms[-1].sent.append((name, value))

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "select" and self._options:
            chosen = next((value for value, is_chosen in self._options if is_chosen), self._options[0][0])
            self.forms[-1].sent.append((self._select, chosen))
            self._select = ""
        elif tag == "textarea":
            self.forms[-1].sent.append((self._area, self._text.removeprefix("\n")))


def forms_of(text: str) -> list[HtmlForm]:
    """The forms of a page, in its order."""
    reader = _Forms()
    reader.feed(text)
    return reader.forms
