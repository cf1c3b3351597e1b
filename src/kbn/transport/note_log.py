"""Notes of a node in the log of the library."""

from __future__ import annotations

import logging

from kbn.broker import notes

log = logging.getLogger("kbn.transport")


def log_note(name: str, note: notes.Note) -> None:
    """Log what somebody who looks for the cause of trouble wants to know."""
    match note:
        case notes.ConnectionRefused(peer, address, _, reason):
            log.info("%s drops %s: %s", name, address if peer is None else peer.name, reason)
        case notes.NotReading(peer):
            log.warning("%s: %s does not read: dropped", name, peer)
        case notes.DialFailed(url, reason):
            log.info("%s: %s: %s", name, url, reason)
        case notes.NeighbourLeft(broker, _, reason):
            log.error("%s: %s says: %s", name, broker, reason)
        case notes.OntologyFailed(reason):
            log.error("%s: the ontology stays as it was: %s", name, reason)
        case notes.SetAside(what, reason):
            log.error("%s: what the store has as %s cannot be read: %s", name, what, reason)
        case notes.Lost(client, total, reason):
            log.warning(
                "%s: %s is owed %s: its oldest deliveries are dropped, %s by now",
                name, client, reason, total,
            )  # fmt: skip
        case notes.StoppedWaiting(client, seconds):
            log.warning("%s: publishers waited %g s for %s: no longer", name, seconds, client)
        case notes.StoreFull(peer, used):
            whose = "the store" if peer is None else f"what {peer.name} is owed"
            log.error("%s: %s is full, %s bytes: durable ones are refused", name, whose, used)
        case notes.Bug(peer, message, error):
            log.error("%s: a bug: %s of %s", name, message, peer, exc_info=error)
        case _:
            pass  # nothing to worry about
