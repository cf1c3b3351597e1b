"""Answers to clients: refusals, and what is said when something has arrived everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kbn.broker.client_session import ClientSession
from kbn.broker.fields import shortened
from kbn.broker.messages import FromClient, Peer, Publish, Reaching, Refused
from kbn.broker.outbox import Outbox
from kbn.errors import KbnError


class ClientAnswers:
    """Answers what the clients of one broker ask; `refused` counts what was refused."""

    def __init__(
        self,
        by_name: Mapping[str, ClientSession],
        begin_wave: Callable[[Callable[[], None], Reaching], None],
        outbox: Outbox,
    ) -> None:
        self.refused = 0
        self._by_name = by_name
        self._begin_wave = begin_wave
        self._outbox = outbox

    def refuse(self, sender: Peer, message: FromClient, error: KbnError) -> None:
        """Tell a client what was wrong with its message."""
        self.refused += 1
        self._outbox.send(sender, _refusal(message, error))

    def after_wave(
        self, session: ClientSession, request: Callable[[], None], reaching: Reaching = None
    ) -> None:
        """Call `request` after a wave, unless another process of the client is here by then.

        That one numbers its requests anew.
        """
        epoch = session.epoch

        def arrived() -> None:
            if self._by_name.get(session.name) is session and session.epoch == epoch:
                request()

        self._begin_wave(arrived, reaching)


def _refusal(message: FromClient, error: KbnError) -> Refused:
    """What a client is told of an error; the message is named by its id, number or request."""
    names = ("id", "number", "request")
    reference = next((getattr(message, name) for name in names if hasattr(message, name)), 0)
    durable = isinstance(message, Publish) and message.durable
    what = str(message.__struct_config__.tag)
    return Refused(what, reference, type(error).__name__, shortened(str(error)), durable)
