"""The names of an item: one form of IBI or both (GEN-07: two forms of a name), or an older opaque id."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from ibi.errors import ParseError
from ibi.identifier.ibip import IBIp
from ibi.identifier.legacy import LegacyId
from ibi.identifier.repository import UniformRepositoryName

if TYPE_CHECKING:
    from collections.abc import Sequence

IBI = UniformRepositoryName | IBIp
"""An IBI in either form."""

Name = UniformRepositoryName | IBIp | LegacyId
"""Any name of an item: an IBI in either form, or an older opaque id."""


def parse_ibi(text: str) -> IBI:
    """Read an IBI in either form. Raises the ParseError of the form that the text resembles."""
    if text.count("/") > 1 or "." in text.partition("/")[0]:
        return UniformRepositoryName.parse(text)
    return IBIp.parse(text)


def parse_name(text: str) -> Name:
    """Read an IBI, or else an older opaque id. Raises the ParseError of `parse_ibi` if it is neither."""
    try:
        return parse_ibi(text)
    except ParseError:
        try:
            return LegacyId.parse(text)
        except ParseError:
            pass
        raise


@final
class IBIForms:
    """The IBI of one item as a uniform repository name, an IBIp, or both; immutable.

    Written "rep <name>", "ibip <label>" or "rep <name> ibip <label>", in this order (SVC-04: values of pairs).
    """

    __slots__ = ("ibip", "rep")

    rep: UniformRepositoryName | None
    ibip: IBIp | None

    def __init__(self, rep: UniformRepositoryName | None = None, ibip: IBIp | None = None) -> None:
        if rep is None and ibip is None:
            raise ParseError("IBI forms", "", "an item has a rep, an ibip, or both")
        self.rep = rep
        self.ibip = ibip

    @classmethod
    def of(cls, ibi: IBI) -> IBIForms:
        """Return the forms of an item of which only this form is known."""
        return cls(rep=ibi) if isinstance(ibi, UniformRepositoryName) else cls(ibip=ibi)

    @classmethod
    def known(cls, rep: str, ibip: str | None) -> IBIForms:
        """Make forms of texts that are known to be valid, such as our own spelling; nothing is checked."""
        return cls(UniformRepositoryName.known(rep), None if ibip is None else IBIp.known(ibip))

    @classmethod
    def parse(cls, text: str) -> IBIForms:
        """Read forms from words separated by single blanks. Raises ParseError."""
        return cls.from_words(text.split(" "))

    @classmethod
    def from_words(cls, words: Sequence[str]) -> IBIForms:
        """Read forms from the words of a pair's value, in either order. Raises ParseError."""
        kinds = tuple(words[::2])
        if len(words) % 2 or kinds not in {("rep",), ("ibip",), ("rep", "ibip"), ("ibip", "rep")}:
            problem = "the forms of an IBI are written: rep <name>, ibip <label>, or both"
            raise ParseError("IBI forms", " ".join(words), problem)
        texts = dict(zip(kinds, words[1::2], strict=True))
        rep, ibip = texts.get("rep"), texts.get("ibip")
        return cls(
            UniformRepositoryName.parse(rep) if rep is not None else None,
            IBIp.parse(ibip) if ibip is not None else None,
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The words of a pair's value: ("rep", name, "ibip", label), or one half of it."""
        rep = ("rep", self.rep.text) if self.rep else ()
        return (*rep, "ibip", self.ibip.text) if self.ibip else rep

    @property
    def main(self) -> IBI:
        """The form to use in requests: the uniform repository name if there is one, else the IBIp."""
        ibi = self.rep or self.ibip
        assert ibi is not None  # noqa: S101 - the constructor saw to it
        return ibi

    @property
    def canonicals(self) -> frozenset[str]:
        """The canonical spelling of each form."""
        return frozenset([form.canonical for form in (self.rep, self.ibip) if form])

    def names(self, name: Name) -> bool:
        """Return whether one of the forms is this name."""
        # Texts are compared, which is faster: no canonical spelling belongs to two kinds of names.
        canonical = name.canonical
        return canonical in (self.rep and self.rep.canonical, self.ibip and self.ibip.canonical)

    def shares(self, other: IBIForms) -> bool:
        """Return whether both name the same item, as far as forms show: they have one in common (AMB-58)."""
        return bool(self.canonicals & other.canonicals)

    def __str__(self) -> str:
        return " ".join(self.words)

    def __repr__(self) -> str:
        return f"IBIForms.parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IBIForms) and (self.rep, self.ibip) == (other.rep, other.ibip)

    def __hash__(self) -> int:
        return hash((self.rep, self.ibip))
