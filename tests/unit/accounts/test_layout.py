"""What a page of confirmation has named is written in the form in one way."""

from hashlib import sha256

from ibi.accounts.layout import confirmation


def test_a_confirmation_tells_names_and_their_order_apart() -> None:
    assert confirmation("a", "b c") == sha256(b'["a", "b c"]').hexdigest()[:32]
    assert len({confirmation("a", "b c"), confirmation("b c", "a"), confirmation("a b", "c")}) == 3
