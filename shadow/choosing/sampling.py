"""Which requests an arm gets: one number a key, the same for every arm, so that rates nest.

A key is the request's own (its pair), a header's value, or its conversation. An arm is given a
request iff the number is below its rate: so 5 % lie within 10 %, another process and another day
decide alike, and two experiments choose independently.
"""

from __future__ import annotations

import random
from hashlib import blake2b
from typing import Final

_SCALE: Final = 2.0**-53
_random = random.SystemRandom()
_pairs = random.Random(_random.getrandbits(256))  # noqa: S311 identity, not secrecy

REQUEST: Final = "request"
CONVERSATION: Final = "conversation"
"""Drawn for once the body is known; until then such an arm is a maybe."""
HEADER: Final = "header:"


def new_pair_id() -> str:
    """128 random bits as 32 hex digits."""
    return f"{_pairs.getrandbits(128):032x}"


class Sampler:
    """u in [0, 1) by BLAKE2b keyed with the experiment's name: arm sampled iff u < its rate."""

    __slots__ = ("_keyed",)

    def __init__(self, experiment: str) -> None:
        self._keyed = blake2b(digest_size=8, key=experiment.encode()[:64])

    def draw(self, key: str) -> float:
        """The key's number, uniform in [0, 1) over keys."""
        state = self._keyed.copy()
        state.update(key.encode())
        return (int.from_bytes(state.digest()) >> 11) * _SCALE
