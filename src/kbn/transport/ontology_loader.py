"""Loading ontologies while a broker serves: in a thread, so that nobody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from kbn.broker import Node, RoutingTable
from kbn.broker import node_events as events
from kbn.errors import InvalidInputError, KbnError
from kbn.ontology import Ontology
from kbn.transport.ontology_folder import OntologyFolder
from kbn.transport.settings import OntologyFiles

Tell = Callable[[events.Event], None]


class OntologyLoader:
    """Loads ontologies for a node: its own files, and those of a folder that a manager asks for.

    `tell` has the node handle an event with the others of its turn, `tell_now` at once.
    """

    def __init__(
        self,
        node: Node,
        files: OntologyFiles | None,
        folder: OntologyFolder,
        *,
        tell: Tell,
        tell_now: Tell,
    ) -> None:
        self._node = node
        self._files = files
        self._folder = folder
        self._tell = tell
        self._tell_now = tell_now
        self._is_loading = False

    async def load(
        self, paths: Iterable[str | Path], reasoning: Any = "rdfs", bytes_max: int | None = None
    ) -> str:
        """Load an ontology, then have the node reason with it; its digest.

        The layer of mappings that the broker was started with is read again and put over it.

        Whatever is wrong with it is raised, and the broker goes on with the one it has.
        """
        layer = () if self._files is None else self._files.mappings
        files = OntologyFiles(tuple(map(Path, paths)), reasoning, layer)
        try:
            ontology = await asyncio.to_thread(files.load, bytes_max)
        except KbnError as error:
            self._tell(events.OntologyFailed(str(error)))
            raise
        self._files = files
        table = await self._table_for(ontology)
        self._tell_now(events.UseOntology(ontology, ontology.digest, table))
        return ontology.digest

    async def load_again(self) -> None:
        """Load the files of the ontology as they are now, if there are any."""
        if self._files is not None:
            await self._load_and_tell(self._files)

    async def load_for_manager(self, names: tuple[str, ...], reasoning: Any) -> None:
        """Load files of the folder; a second request meanwhile is refused."""
        if self._is_loading:
            self._tell(events.OntologyFailed("one is being loaded; ask again when that is done"))
            return
        self._is_loading = True
        try:
            files = OntologyFiles(self._folder.files(names), reasoning)
            await self._load_and_tell(files, self._node.settings.server_limits.ontology_bytes)
        except InvalidInputError as error:
            self._tell(events.OntologyFailed(str(error)))
        finally:
            self._is_loading = False

    async def _load_and_tell(self, files: OntologyFiles, bytes_max: int | None = None) -> None:
        """Load; the node hears of an error, and nothing is raised."""
        try:
            await self.load(files.paths, files.reasoning, bytes_max)
        except KbnError:
            pass  # the node was told
        except Exception as error:
            self._tell(events.OntologyFailed(str(error)))

    async def _table_for(self, ontology: Ontology) -> RoutingTable | None:
        """The routing table for an ontology, or None when it is to be made in a turn."""
        broker = self._node.broker
        if ontology.digest == broker.ontology_digest:
            return None
        return await asyncio.to_thread(broker.rebuilding(ontology))
