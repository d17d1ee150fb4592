"""The shuffle buffer in plain Python, written from its description and the papers it cites."""

from __future__ import annotations

from collections.abc import Iterator

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15


def finalize(z: int) -> int:
    """splitmix64's output function."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def mix64(a: int, b: int) -> int:
    """Two 64-bit integers hashed into one."""
    return finalize(((finalize((a + _GAMMA) & _MASK) ^ b) + _GAMMA) & _MASK)


def xoshiro256pp(key: int) -> Iterator[int]:
    """xoshiro256++ seeded by splitmix64."""
    s = [finalize((key + i * _GAMMA) & _MASK) for i in range(1, 5)]
    while True:
        yield (_rotate(s[0] + s[3], 23) + s[0]) & _MASK
        t = (s[1] << 17) & _MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = _rotate(s[3], 45)


def below(bound: int, draws: Iterator[int]) -> int:
    """A uniform integer of ``[0, bound)`` by Lemire's method."""
    while True:
        product = next(draws) * bound
        if product & _MASK >= (2**64 - bound) % bound:
            return product >> 64


def shuffled(key: int, buffer_size: int, length: int) -> list[int]:
    """The whole order of a shuffle buffer."""
    draws = xoshiro256pp(key)
    slots = list(range(min(buffer_size, length)))
    order = []
    for t in range(length):
        j = below(len(slots), draws)
        order.append(slots[j])
        if t + buffer_size < length:
            slots[j] = t + buffer_size
        else:
            slots[j] = slots[-1]
            slots.pop()
    return order


def _rotate(x: int, k: int) -> int:
    x &= _MASK
    return ((x << k) | (x >> (64 - k))) & _MASK
