"""Challenge and response with a token: what proves something, and what does not."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumline._authentication import (
    NONCE_BYTES,
    PROOF_BYTES,
    ConnectionKey,
    new_nonce,
    same_token,
    token_digest,
)

_NONCES = (b"l" * NONCE_BYTES, b"c" * NONCE_BYTES)


def key(
    listens: bool,
    token: str = "token",
    protocol: bytes = b"test 1",
    nonces: tuple[bytes, bytes] = _NONCES,
) -> ConnectionKey:
    return ConnectionKey(token, protocol, *nonces, listens=listens)


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=40))), st.text(min_size=1))
def test_both_sides_believe_what_the_other_signs_in_order(
    said: list[tuple[bool, bytes]], token: str
) -> None:
    nonces = new_nonce(), new_nonce()
    listener, connector = (key(listens, token, nonces=nonces) for listens in (True, False))
    for by_listener, text in said:
        speaker, hearer = (listener, connector) if by_listener else (connector, listener)
        assert hearer.verify(speaker.sign(text), text)


def test_the_proofs_are_those_of_the_description() -> None:
    """So another implementation can follow it, and a change of the protocol is noticed."""
    secret = hmac.new(b"token", b"test 1|" + b"|".join(_NONCES), hashlib.sha256).digest()
    connector = key(listens=False)
    for number, text in enumerate((b"", b"hello")):
        expected = hmac.new(secret, b"connector|%d|%s" % (number, text), hashlib.sha256).digest()
        assert connector.sign(text) == expected
    assert len(expected) == PROOF_BYTES
    assert token_digest("token", b"x") == hmac.new(b"token", b"x", hashlib.sha256).digest()


def test_a_replay_proves_nothing() -> None:
    connector, listener = key(listens=False), key(listens=True)
    proof = connector.sign(b"one")
    assert listener.verify(proof, b"one")
    assert not listener.verify(proof, b"one"), "it was said once"
    for place in (0, 1):
        nonces = list(_NONCES)
        nonces[place] = new_nonce()
        another = key(listens=True, nonces=(nonces[0], nonces[1]))
        assert not another.verify(proof, b"one"), "another connection"
    assert not key(listens=True, nonces=_NONCES[::-1]).verify(proof, b"one")


def test_texts_are_believed_in_order_only() -> None:
    connector, listener = key(listens=False), key(listens=True)
    first, second = connector.sign(b"text"), connector.sign(b"text")
    assert first != second
    assert not listener.verify(second, b"text")
    assert listener.verify(first, b"text") and listener.verify(second, b"text")


def test_a_reflected_proof_proves_nothing() -> None:
    """Who sends back what a side said shows no knowledge of the token."""
    for listens in (True, False):
        proof = key(listens).sign(b"one")
        assert not key(listens).verify(proof, b"one")


@pytest.mark.parametrize("token", ["", "toke", "token ", "Token", "token2"])
def test_another_token_proves_nothing(token: str) -> None:
    assert not key(listens=True).verify(key(listens=False, token=token).sign(b"one"), b"one")


def test_a_proof_for_another_protocol_proves_nothing() -> None:
    proof = key(listens=False, protocol=b"test 2").sign()
    assert not key(listens=True).verify(proof)


@given(st.binary(max_size=2 * PROOF_BYTES))
def test_forged_proofs_are_refused_whatever_their_length(forged: bytes) -> None:
    listener = key(listens=True)
    assert not listener.verify(forged, b"one")
    genuine = key(listens=False).sign(b"one")
    for wrong in (genuine[:-1], b"", genuine + b"\0", genuine * 2, genuine[::-1]):
        assert not listener.verify(wrong, b"one")
    assert not listener.verify(genuine, b"two")
    assert listener.verify(genuine, b"one")


@pytest.mark.parametrize("length", [0, NONCE_BYTES - 1, NONCE_BYTES + 1])
def test_truncated_and_oversized_nonces_are_refused(length: int) -> None:
    """Else bytes could move from one nonce to the other without a change of the key."""
    for nonces in ((bytes(length), _NONCES[1]), (_NONCES[0], bytes(length))):
        with pytest.raises(ValueError, match=f"a nonce has {NONCE_BYTES} bytes, got {length}"):
            key(listens=True, nonces=nonces)


def test_nonces_do_not_repeat() -> None:
    nonces = {new_nonce() for _ in range(1000)}
    assert len(nonces) == 1000 and {len(nonce) for nonce in nonces} == {NONCE_BYTES}


def test_a_token_that_is_no_text_works_too() -> None:
    """The environment's bytes that are not UTF-8 come as surrogates."""
    token = b"\xff\xfe secret".decode(errors="surrogateescape")
    assert same_token(token, token) and not same_token(token, token + " ")
    assert key(True, token).verify(key(False, token).sign(b"one"), b"one")
    assert not key(True, token).verify(key(False, "\N{REPLACEMENT CHARACTER}").sign(b"one"), b"one")
