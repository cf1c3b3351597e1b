"""A broker for measurements, as a process of its own: prints its url, runs until it is told to end.

It is the server that `kbn broker` runs, with limits that a benchmark may need.
"""

from __future__ import annotations

import argparse
import asyncio

from kbn.broker import Broker, Limits, MemoryStore, SqliteStore
from kbn.ontology import Ontology
from kbn.transport import BrokerServer, LinkTo, Reporting, ServerLimits, now, serve


async def main(given: argparse.Namespace) -> None:
    store = SqliteStore(given.store) if given.store else MemoryStore()
    ontology = Ontology.load(given.ontology) if given.ontology else None
    limits = Limits(subscriptions=10_000_000)
    broker = Broker(
        given.name,
        routing=given.routing,
        ontology=ontology,
        ontology_digest="" if ontology is None else ontology.digest,
        store=store,
        keeps=bool(given.store),
        now=now(),
        limits=limits,
    )
    links = [LinkTo(url, "peer") for url in given.peer]
    links += [LinkTo(url, "parent") for url in given.parent]
    server = BrokerServer(
        broker, store, links=links, limits=ServerLimits(connections=100_000), port=given.port
    )
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
