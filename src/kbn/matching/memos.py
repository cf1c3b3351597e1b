"""Memos: answers that are remembered, as far as the bytes go that several memos have together."""

from __future__ import annotations

from sys import getsizeof
from typing import Any, Generic, Protocol, TypeVar
from weakref import ref

from kbn.filters import Bag, Relation
from kbn.ontology import Term

K = TypeVar("K")
V = TypeVar("V")

ENTRY_BYTES = 160
"""About what a remembered answer takes, besides what its question and the answer are made of."""

IN_PARTS_BYTES_MAX = 16 << 20
"""What is remembered where nobody may wait long: forgetting all of it takes a while, too."""

_SCALARS = frozenset((str, int, float, bool))


class Sharer(Protocol):
    """What takes bytes of a memory, and can give them back."""

    def forget(self) -> None: ...


class Memory:
    """Bytes that some memos may take together; when they take more, all of them forget.

    >>> memory = Memory(1_000)
    >>> one, other = Memo(memory), Memo(memory)
    >>> one.remember("a", 1, 600), other.remember("b", 2, 300), memory.bytes
    (None, None, 900)
    >>> other.remember("c", 3, 200); one, other, memory.bytes
    ({}, {'c': 3}, 200)
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._sharers: list[ref[Sharer]] = []  # no cycle, that only a search would find

    def __reduce__(self) -> tuple[type[Memory], tuple[int]]:
        return Memory, (self.bytes_max,)  # a copy remembers by itself

    def keep_small(self) -> None:
        """Take no more from now on than can be forgotten in a moment."""
        self.bytes_max = min(self.bytes_max, IN_PARTS_BYTES_MAX)

    def share(self, sharer: Sharer) -> None:
        """From now on this one takes bytes, too."""
        self._sharers.append(ref(sharer))

    def forget(self) -> None:
        """Have everything forgotten."""
        for each in self._sharers:
            sharer = each()
            if sharer is not None:
                sharer.forget()


class Memo(dict[K, V], Generic[K, V]):
    """Answers by question. Ask it as any dictionary, and have it `remember`."""

    __slots__ = ("__weakref__", "_memory", "bytes")

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.bytes = 0
        memory.share(self)

    def __reduce__(self) -> tuple[type[Memo[K, V]], tuple[Memory]]:
        return Memo, (self._memory,)

    def remember(self, question: K, answer: V, size: int) -> None:
        """Remember an answer; it takes so many bytes, as any other to that question."""
        before, memory = len(self), self._memory
        self[question] = answer
        if len(self) == before:
            return
        if memory.bytes + size > memory.bytes_max:
            memory.forget()
            self[question] = answer
        self.bytes += size
        memory.bytes += size

    def forget(self) -> None:
        """Forget all answers."""
        self.clear()
        self._memory.bytes -= self.bytes
        self.bytes = 0


def bytes_of(value: Any) -> int:
    """About what a value takes, with all that is in it.

    >>> bytes_of("x" * 1_000) - bytes_of(""), bytes_of(Bag("tea", "pot")) > 2 * bytes_of("tea")
    (1000, True)
    """
    if value.__class__ in _SCALARS:
        return getsizeof(value)
    if isinstance(value, Bag):
        return ENTRY_BYTES + sum(map(bytes_of, value.items))
    if isinstance(value, Term):
        return ENTRY_BYTES + getsizeof(value.iri)
    if isinstance(value, Relation):
        return bytes_of(value.property) + bytes_of(value.individual)
    return getsizeof(value)
