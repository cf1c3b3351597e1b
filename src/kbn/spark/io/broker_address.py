"""A broker that a source or a sink talks to, and as whom: read from the options of the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbn.spark.io.sources import local_path
from kbn.transport import parse_url


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A broker, and as whom we come to it."""

    url: str
    client: str | None
    token: str = ""
    tls_ca: str | None = None
    give_up_s: float = 60.0

    @classmethod
    def of(cls, options: Mapping[str, str], give_up_s: float) -> BrokerAddress:
        """The address that a format's options name; InvalidInputError when it is none."""
        parse_url(options["url"])
        tls_ca = local_path(options["tlsCa"]) if "tlsCa" in options else None
        token = options.get("token", "")
        return cls(options["url"], options.get("client"), token, tls_ca, give_up_s)
