"""What a broker delivers, as a source: a durable client writes it to a spool before it counts.

The broker keeps what it owes a durable client until that says it has it. Here a delivery is
acknowledged when it is on the disk, a line of kbn's JSON, many with one write. Whatever breaks
down, the broker delivers again what was not acknowledged: at most `WINDOW` notifications and a few.
Their ids are among those of the last lines of the spool, if they got there, so after a restart
those are read and what comes a second time is dropped. Nothing is lost and nothing comes twice.

**Up to now.** Deliveries and answers come in the order in which the broker sent them. A client that
is owed something and has room gets it before the answer to a question which the broker reads after
that; so two questions in a row between which nothing was delivered show that it has had everything.
Where publishers never pause that may not happen: then "now" is over with the first notification
that was published after we began, since what was owed before came before it.
"""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from pathlib import Path
from threading import Event

from kbn.errors import InvalidInputError, KbnError, TransportError
from kbn.spark.io.broker_address import BrokerAddress
from kbn.spark.io.slices import Slice
from kbn.spark.io.spool import POLL_S, Receiver, Spool, SpooledSource
from kbn.transport import Client, Feed, Item, connect

WINDOW = 1000
GROUP_MAX = 1000
# More than a broker can have sent without having heard that we have it.
LINES_REMEMBERED = 4 * WINDOW
QUIET_ANSWERS = 2


class BrokerSource(SpooledSource):
    """The notifications a broker delivers to a durable client, by way of a spool."""

    lines_kept = LINES_REMEMBERED

    def __init__(self, broker: BrokerAddress, filter: str, spool: str | Path) -> None:
        super().__init__(spool)
        self._broker = broker
        self._filter = filter

    def receiver(self, spool: Spool) -> BrokerReceiver:
        return BrokerReceiver(self._broker, self._filter, spool)

    def hold(self) -> None:
        """Wait for what the broker has for us now, and take that for all there is."""
        assert isinstance(self._receiver, BrokerReceiver)
        while not self._receiver.is_up_to_date.wait(POLL_S):
            self._receiver.check()
        self._receiver.check()
        super().hold()

    def everything(self) -> list[Slice]:
        """All that was ever delivered to this client, once what it is owed now is here too."""
        self.open()
        try:
            self.hold()
            found = super().everything()
            if int(Path(self.listing()[0].name).stem):
                raise InvalidInputError(
                    f"{self.directory} is the spool of a stream, which has deleted what it read: "
                    "give a batch read a client and a spool of its own"
                )
            return found
        finally:
            self.close()


class BrokerReceiver(Receiver):
    """Fills a spool with what a broker delivers."""

    def __init__(self, broker: BrokerAddress, filter: str, spool: Spool) -> None:
        super().__init__(broker.url, spool, broker.give_up_s)
        self.is_up_to_date = Event()
        """Set when everything is spooled that the broker owed when we began; or we failed."""
        self._broker = broker
        self._filter = filter
        self._had = {_id(line) for line in spool.last(LINES_REMEMBERED)}
        self._ending: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None

    def stop(self) -> None:
        self._stopping.set()
        if self._ending is not None:
            loop, task = self._ending
            with suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(task.cancel)
        self.join()

    def run(self) -> None:
        try:
            asyncio.run(self._converse())
        except asyncio.CancelledError:
            pass
        except TransportError as error:
            self._failed = KbnError(
                f"{error}. What was delivered is safe: start the query again when the broker is "
                "back, or set the option giveUpAfter (seconds) higher"
            )
        except KbnError as error:
            self._failed = error
        except Exception as error:  # a thread that ends silently would look like a quiet broker
            self._failed = KbnError(f"{self._sender}: {type(error).__name__}: {error}")
        finally:
            self.is_up_to_date.set()

    async def _converse(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._ending = (asyncio.get_running_loop(), task)
        if self._stopping.is_set():
            return
        broker = self._broker
        client = connect(
            broker.url, name=broker.client, token=broker.token, tls_ca=broker.tls_ca,
            durable=True, window=WINDOW, timeout=broker.give_up_s,
        )  # fmt: skip
        async with client:
            watching = asyncio.create_task(self._watch(client))
            try:
                await self._receive(client)
            finally:
                watching.cancel()

    async def _watch(self, client: Client) -> None:
        """Note when there is a connection: the client makes a lost one again by itself."""
        with suppress(KbnError):  # the client is closed
            while True:
                self._connected = client.core.is_attached
                if self._connected:
                    self._last_heard = time.monotonic()
                    self._trouble = "the connection is lost"
                await asyncio.sleep(POLL_S)

    async def _receive(self, client: Client) -> None:
        began = time.time()
        feed = await self._subscribe(client)
        quiet_answers = 0
        while True:
            if items := feed.take(GROUP_MAX):
                # Taken together and done with together: one write to the disk for all of them.
                self._spool_all(items)
                feed.done_with(items)
                quiet_answers = 0
                if any(item.delivered.delivery.envelope.time > began for item in items):
                    self.is_up_to_date.set()
                await asyncio.sleep(0)
            elif self.is_up_to_date.is_set():
                await feed.arrival()
            elif quiet_answers == QUIET_ANSWERS:
                self.is_up_to_date.set()
            else:
                with suppress(KbnError):  # one that may not be told has its answer, too
                    await client.status()
                quiet_answers += 1

    async def _subscribe(self, client: Client) -> Feed:
        try:
            return await client.subscribe(self._filter)
        except TransportError:
            raise
        except KbnError as error:
            raise InvalidInputError(
                f"{self._sender} refuses the filter {self._filter!r} of {client.name!r}: {error} "
                "(one that was here with another filter needs a new name)"
            ) from error

    def _spool_all(self, items: list[Item]) -> None:
        new = [item for item in items if _id_of(item) not in self._had]
        if new:
            self._spool.append(b"".join(map(_line, new)))


def _id_of(item: Item) -> str:
    return str(item.delivered.delivery.envelope.id)


def _line(item: Item) -> bytes:
    try:
        made = item.notification.to_json()
    except KbnError as error:  # a line that is quarantined, rather than one that is missing
        made = {"id": _id_of(item), "attributes": f"unreadable: {error}"}
    return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _id(line: bytes) -> str:
    return str(json.loads(line)["id"])
