"""A broker for measurements, as a process of its own: prints its url, runs until it is told to end.

It is the server that `kbn broker` runs, with limits that a benchmark may need.
"""

from __future__ import annotations

import argparse
import asyncio

from kbn.broker import ClientLimits, LinkTo, NodeSettings, ServerLimits, SqliteStore
from kbn.ontology import Ontology
from kbn.transport import BrokerServer, Listen, Reporting, serve


async def main(given: argparse.Namespace) -> None:
    links = [LinkTo(url, "peer") for url in given.peer]
    links += [LinkTo(url, "parent") for url in given.parent]
    settings = NodeSettings(
        given.name,
        routing=given.routing,
        links=tuple(links),
        ontology=Ontology.load(given.ontology) if given.ontology else None,
        store=SqliteStore(given.store) if given.store else None,
        limits=ClientLimits(subscriptions=10_000_000),
        server_limits=ServerLimits(connections=100_000),
    )
    server = BrokerServer(settings, Listen(port=given.port))
    if given.trigger:
        Reporting(server, given.trigger)
    await serve(server, lambda server: print(server.url, flush=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="b")
    parser.add_argument("--store", default="")
    parser.add_argument("--routing", default="acyclic")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--parent", action="append", default=[])
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--ontology", default="")
    parser.add_argument("--trigger", default="")
    asyncio.run(main(parser.parse_args()))
