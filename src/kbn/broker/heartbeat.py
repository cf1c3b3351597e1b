"""The heartbeat: what a broker does by the clock. It greets, repeats, gives up on the silent."""

from __future__ import annotations

from kbn.broker.client_requests import ClientRequests
from kbn.broker.membership import Membership
from kbn.broker.parts import Parts


class Heartbeat:
    """The clockwork of one broker; the time is the outbox's."""

    def __init__(self, parts: Parts, requests: ClientRequests, membership: Membership) -> None:
        self._settings = parts.settings
        self._outbox = parts.outbox
        self._clients = parts.clients
        self._neighbours = parts.neighbours
        self._room = parts.room
        self._requests = requests
        self._membership = membership
        self._beat_at = parts.outbox.now

    def tick(self) -> None:
        """Do what is due."""
        settings, now = self._settings, self._outbox.now
        if settings.retransmit_s is not None:
            self._neighbours.traffic.repeat_overdue(settings.retransmit_s)
            self._clients.traffic.deliver_again(settings.retransmit_s)
        self._clients.flow.end_long_waits()
        self._clients.flow.forget_silent()
        self._room.look()
        since = now - self._beat_at
        if since >= settings.heartbeat_s:
            self._beat_at = now
            # After a long turn of our own nobody is called silent: it was us who did not listen.
            self._beat(judges=since < 2 * settings.heartbeat_s)

    def _beat(self, judges: bool) -> None:
        silent = self._outbox.now - self._settings.dead_after_s
        if judges:
            for name in self._neighbours.silent(silent):
                self._membership.link_is_down(name)
            self._membership.unmet_are_down()
        may_lose = self._settings.retransmit_s is not None
        self._neighbours.beat(may_lose)
        if judges and may_lose:
            for session in self._clients.silent(silent):
                self._requests.detach(session)
