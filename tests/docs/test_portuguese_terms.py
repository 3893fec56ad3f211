"""One Portuguese word for one thing: in the messages, and on the pages in Portuguese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "src/ibi/runtime/locale/pt_BR/LC_MESSAGES/ibi.po"
PAGES = [*sorted((ROOT / "docs/pt-BR").rglob("*.md")), ROOT / "README.pt-BR.md"]

TERMS = {
    r"\backnowledgments?\b": "agradecimento",
    r"\badministrators?\b": "administrador",
    r"\balerts?\b": "alert",
    r"\baudit(?:s|ed)?\b": "auditoria",
    r"\bback-?ups?\b": "cópias? de segurança",
    r"\bdeposit": "dep[oó]sit",
    r"\bedition": "ediç",
    r"\bharvest": "colet",
    r"\bhand(?:s|ed|ing)? over\b|\bhand-over": "transfer",
    r"\binclu(?:ded|sion)\b": "inclu",
    r"\blabels\b": "rótulos",
    r"\blast edition\b": "edição mais recente",
    r"\blinked item": "vinculad",
    r"\bpeers?\b": "parceir",
    r"\bpersistent links?\b": "links? permanente",
    r"\bpersistent URLs?\b": "URLs? persistente",
    r"\breceipts?\b": "recibo",
    r"\bregist(?:er|ers|ered|ration)\b": "cadastr",
    r"\bremoved\b": "remov",
    r"\brequest for changes\b": "solicitação de mudanças",
    r"\btranslations?\b(?!\.)": "traduç",
    r"\bupstream\b": "superior",
}
"""What an English message says -> what the Portuguese one must say."""

OTHER_WORDS = {
    r"\b(?:o|os|um|uns|do|dos|no|nos|ao|aos|pelo) URLs?\b": "a URL",
    r"\blinks? persistentes?\b|\bURLs? permanentes?\b": "URL persistente; link permanente",
    r"\bJSON Lines\b": "JSON lines",
    r"\backnowledgments?\b": "agradecimento",
    r"\bpedidos? de (?:mudanças|cadastro)\b": "solicitação",
    r"\bregistrad[oa]s? n[oe]\w* resolvedor|\bregistrar (?:o|um|seu) Arquivo\b": "cadastrado, cadastrar",
    r"\bdeletar|\bdeletad": "remover",
    r"\bbrowsers?\b": "navegador",
    r"(?<![eE]-)\be?mails?\b": "e-mail",
    r"\bwebsites?\b": "site",
    r"\bitens? ligad": "item vinculado",
    r"\bharvest": "coletar, coleta",
}
"""Words that must not stand beside the one of the glossary."""

# No sentences: lists of words that are typed, and of roles and scopes as they are stored.
_TYPED = re.compile(
    r"`[^`]*`|\{[^}]*\}|--[\w-]+|\bibi(?: [a-z-]+)+|https?://\S+|^(?:roles|scopes):.*", re.DOTALL
)
_OWN_MEANING = {"Connection reset by peer"}


def _messages() -> Iterator[tuple[str, str]]:
    with CATALOGUE.open("rb") as file:
        for message in read_po(file):
            if message.id:
                pairs = zip(
                    *(
                        each if isinstance(each, list | tuple) else (each,)
                        for each in (message.id, message.string)
                    ),
                    strict=False,
                )
                yield from ((str(english), str(portuguese)) for english, portuguese in pairs)


@pytest.mark.parametrize(("english", "portuguese"), TERMS.items(), ids=TERMS)
def test_a_term_has_the_same_word_in_all_messages(english: str, portuguese: str) -> None:
    about = [
        pair
        for pair in _messages()
        if pair[0] not in _OWN_MEANING and re.search(english, _TYPED.sub(" ", pair[0]))
    ]
    assert about
    assert [pair for pair in about if not re.search(portuguese, pair[1], re.IGNORECASE)] == []


def _prose(page: Path) -> str:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^    .*$|`[^`]*`|\]\([^)]*\)|<[^>]*>", " ", text, flags=re.MULTILINE)


@pytest.mark.parametrize(("other", "word"), OTHER_WORDS.items(), ids=OTHER_WORDS.values())
def test_no_other_word_stands_beside_that_of_the_glossary(other: str, word: str) -> None:
    texts = {f"message {english[:60]!r}": _TYPED.sub(" ", portuguese) for english, portuguese in _messages()}
    texts |= {
        str(page.relative_to(ROOT)): _prose(page)
        for page in PAGES
        if page.exists() and page.name != "glossary.md"
    }
    found = [f"{where}: {match[0]}" for where, text in texts.items() for match in re.finditer(other, text)]
    assert found == [], f"say: {word}"
