"""Guesses: whoever shows wrong tokens has to wait before it may try another.

After a few wrong tokens for one name from one address, that name has to wait there, twice as long
each time; others at the address do not notice. Wrong tokens for many names are counted for the
address as a whole, which may err much more often. Time forgives: for each while without a wrong
token one of them is forgotten.

Memory is bounded: of the addresses and names that erred, the newest are remembered.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_network
from typing import NamedTuple

from kbn.errors import RemotePeerError

REMEMBERED_MAX = 10_000
NAMES_BYTES_MAX = 200
"""Of a longer name, only the beginning tells it from others here."""


class Patience(NamedTuple):
    """So many are `free`; then each has to wait, at most `wait_s_max`. One is forgiven each `s`."""

    free: int
    wait_s_max: float
    forgives_each_s: float


NAME = Patience(free=5, wait_s_max=60.0, forgives_each_s=60.0)
ADDRESS = Patience(free=100, wait_s_max=10.0, forgives_each_s=1.0)


@dataclass(slots=True)
class _Erred:
    times: float
    at: float
    until: float = 0.0


class Guesses:
    """The wrong tokens that were shown to one node."""

    def __init__(self) -> None:
        self._erred: OrderedDict[tuple[str, str], _Erred] = OrderedDict()

    def __len__(self) -> int:
        return len(self._erred)

    def check(self, address: str, name: str, now: float) -> None:
        """Raise `RemotePeerError`, since it will pass, while a name at an address has to wait."""
        host = host_of(address)
        for key in ((host, name[:NAMES_BYTES_MAX]), (host, "")):
            erred = self._erred.get(key)
            if erred is not None and now < erred.until:
                wait = max(1, round(erred.until - now))
                raise RemotePeerError(f"too many wrong tokens: try again in {wait} s")

    def failed(self, address: str, name: str, now: float) -> None:
        """A wrong token was shown."""
        host = host_of(address)
        self._count((host, name[:NAMES_BYTES_MAX]), NAME, now)
        self._count((host, ""), ADDRESS, now)

    def _count(self, key: tuple[str, str], patience: Patience, now: float) -> None:
        erred = self._erred.pop(key, None) or _Erred(0.0, now)
        forgiven = (now - erred.at) / patience.forgives_each_s
        erred.times = max(0.0, erred.times - forgiven) + 1.0
        erred.at = now
        over = erred.times - patience.free
        if over >= 0:
            erred.until = now + min(patience.wait_s_max, 2.0 ** min(over, 30.0))
        self._erred[key] = erred
        while len(self._erred) > REMEMBERED_MAX:
            self._erred.popitem(last=False)


def host_of(address: str) -> str:
    """Whom an address with a port belongs to: of IPv6, a whole network of 64 bits does.

    >>> host_of("192.0.2.7:1234"), host_of("[2001:db8::1]:99"), host_of("here")
    ('192.0.2.7', '2001:db8::/64', 'here')
    """
    host = address.rpartition(":")[0] or address
    with suppress(ValueError):
        plain = IPv6Address(host.strip("[]").partition("%")[0])
        return str(plain.ipv4_mapped or ip_network((plain, 64), strict=False))
    return host
