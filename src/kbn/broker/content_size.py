"""How many values a content holds, without reading it.

A megabyte holds a million tiny values, and each becomes an object when it is read. So the headers
are counted first, and no further than the limit: what is too much is refused before it costs
anything. See `content.py` for the form.
"""

from __future__ import annotations

# By the first byte, from 0xC0 on: how many bytes of length follow, and how many bytes besides the
# length come before the next value.
_SIZED = {
    0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0),  # bytes
    0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1),  # extensions
    0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0),  # text
}  # fmt: skip
_FIXED = {
    0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8,
    0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17,
}  # fmt: skip
_MANY = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}


def value_count(content: bytes, at_most: int) -> int:
    """The values in a content, with its names; of more than `at_most`, any larger number.

    A value takes a byte at least, so content of no more than `at_most` bytes is not looked at: its
    length is the answer. Content that breaks off has those before the break: whoever reads it says
    what is wrong.

    >>> from kbn.broker import content
    >>> value_count(content.encode({"kind": "tea", "sizes": [1, 2]}), 10)
    7
    >>> value_count(b"\\xdd\\xff\\xff\\xff\\xff", 4) > 4
    True
    """
    if len(content) <= at_most:
        return len(content)
    place, found, waiting = 0, 0, 1
    while waiting and place < len(content):
        head = content[place]
        place += 1
        waiting -= 1
        found += 1
        if head < 0x80 or head >= 0xE0:
            continue
        if head < 0x90:
            waiting += 2 * (head & 0x0F)
        elif head < 0xA0:
            waiting += head & 0x0F
        elif head < 0xC0:
            place += head & 0x1F
        elif head in _SIZED:
            width, besides = _SIZED[head]
            place += width + besides + int.from_bytes(content[place : place + width], "big")
        elif head in _MANY:
            width, each = _MANY[head]
            waiting += each * int.from_bytes(content[place : place + width], "big")
            place += width
        else:
            place += _FIXED.get(head, 0)
        if found + waiting > at_most:
            break
    return found + waiting
