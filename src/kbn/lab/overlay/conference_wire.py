"""A client over a plain socket whose notifications are of the conference ontology."""

from __future__ import annotations

from kbn import data
from kbn.broker import content
from kbn.lab.overlay.load import KbnWire
from kbn.ontology import Class, Individual

_HERE = data.namespace("conference")
_PAPER, _PAPER_17 = Class(_HERE + "Paper"), Individual(_HERE + "Paper_17")


class ConferenceWire(KbnWire):
    """Like `KbnWire`; what it publishes names a class and an individual."""

    def content(self, target: int, number: int) -> bytes:
        return content.encode(
            {
                "to": target,
                "ontClass": _PAPER,
                "ontInstance": _PAPER_17,
                "pubTime": number,
                "text": "x" * 50,
            }
        )
