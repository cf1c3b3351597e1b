"""Greetings: how neighbours tell each other who they are, and in which epoch.

A session stands once each side has greeted the present epoch of the other and both believe in the
same tree. General peers also learn from greetings what the network looks like.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kbn.broker.messages import Greet
from kbn.broker.neighbour import Neighbour
from kbn.broker.outbox import Outbox
from kbn.broker.spanning import SpanningTree
from kbn.broker.topology import Role

_ROLE_SEEN_FROM_THERE: dict[Role, Role] = {"peer": "peer", "parent": "child", "child": "parent"}


class Greeted(NamedTuple):
    """What a greeting changed."""

    is_new_epoch: bool
    has_new_tree: bool
    has_new_ontology: bool


class Greetings:
    """Greets the neighbours of one broker, and takes in their greetings.

    `ontology` is the digest of ours, `url` where clients find us. `tree` is None unless the broker
    is a general peer.
    """

    def __init__(
        self,
        name: str,
        by_name: Mapping[str, Neighbour],
        tree: SpanningTree | None,
        outbox: Outbox,
    ) -> None:
        self.ontology = ""
        self.url = ""
        self._name = name
        self._by_name = by_name
        self.tree = tree
        self._outbox = outbox

    def connected(self, neighbour: Neighbour) -> None:
        """Greet a neighbour over a link that works now, or works again."""
        link = neighbour.link
        link.is_connected = link.may_have_lost = True
        link.heard_at = self._outbox.now
        neighbour.best_effort.skip()
        self.greet(neighbour)

    def greet(self, neighbour: Neighbour) -> None:
        """Say who we are, in which epoch, and what we know."""
        link = neighbour.link
        tree = self.tree
        view, states = ("", ()) if tree is None else (tree.view, tree.states)
        role = _ROLE_SEEN_FROM_THERE[neighbour.role]
        greet = Greet(
            self._name, link.our_epoch, link.epoch, role, self.ontology, view, states,
            token=neighbour.token, url=self.url,
        )  # fmt: skip
        self._outbox.send(neighbour.peer, greet)

    def greet_connected(self, but: Neighbour | None = None) -> None:
        """Greet all neighbours that are connected, `but` one."""
        for neighbour in self._by_name.values():
            if neighbour is not but and neighbour.link.is_connected:
                self.greet(neighbour)

    def greeted(self, greet: Greet, neighbour: Neighbour) -> Greeted | None:
        """Record what a greeting says; None when it is of an older epoch."""
        link = neighbour.link
        if greet.epoch < link.epoch:
            return None
        is_new_epoch = greet.epoch > link.epoch
        if is_new_epoch:
            link.epoch = greet.epoch
            link.channel = None
        has_new_tree = self._learn(greet, neighbour)
        has_new_ontology = link.ontology != greet.ontology
        link.ontology, link.url = greet.ontology, greet.url
        link.agrees = greet.ontology == self.ontology
        return Greeted(is_new_epoch, has_new_tree, has_new_ontology)

    def answer_greeting(self, greet: Greet, neighbour: Neighbour, is_new_epoch: bool) -> bool:
        """Greet back if that is needed; returns whether a session may stand."""
        is_heard = greet.heard == neighbour.link.our_epoch
        if is_new_epoch or not is_heard:
            self.greet(neighbour)  # ahead of the session's frames: without it they are dropped
        if self.tree is None:
            return is_heard and greet.view == ""
        is_in_tree = neighbour.name in self.tree.neighbours
        return is_heard and greet.view == self.tree.view and is_in_tree

    def _learn(self, greet: Greet, neighbour: Neighbour) -> bool:
        """Learn what a neighbour knows of the network; returns whether the tree is another now."""
        if self.tree is None:
            return False
        changed = self.tree.set_link(neighbour.name, True)
        news, tree_changed = self.tree.learn(greet.states)
        if news and not changed and not tree_changed:
            self.greet_connected(but=neighbour)
        return changed or tree_changed
