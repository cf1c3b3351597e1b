"""Where a broker process listens, and where its ontology comes from."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kbn.broker import LinkTo, ServerLimits
from kbn.ontology import MappingFile, Mappings, Ontology
from kbn.transport.urls import parse_url

__all__ = ["LinkTo", "Listen", "OntologyFiles", "ServerLimits", "check_url"]


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen; port 0 takes a free one.

    `tls` is for those who connect to us, `link_tls` for the connections we make.
    """

    host: str = "127.0.0.1"
    port: int = 0
    tls: ssl.SSLContext | None = None
    link_tls: ssl.SSLContext | None = None

    @property
    def checks_certificates(self) -> bool:
        """Whether whoever connects shows a certificate."""
        return self.tls is not None and self.tls.verify_mode == ssl.CERT_REQUIRED


class OntologyFiles(NamedTuple):
    """The files of an ontology and the reasoning to load them with, to load it again."""

    paths: tuple[Path, ...]
    reasoning: Any
    mappings: tuple[MappingFile, ...] = ()
    """The files of a layer of mappings over it, read again with it."""

    def load(self, bytes_max: int | None = None) -> Ontology:
        """The ontology as the files are now, with its layer."""
        found = Ontology.load(self.paths, self.reasoning, bytes_max=bytes_max)
        return found.with_mappings(Mappings.load(self.mappings)) if self.mappings else found


def check_url(url: str) -> None:
    """Raise `InvalidInputError` unless it is the URL of a broker."""
    parse_url(url)
