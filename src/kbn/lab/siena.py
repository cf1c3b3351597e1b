"""A subscription poset in the manner of Siena: what ours is measured against, beside a plain scan.

Distinct filters are nodes of the Hasse diagram of covering: a node's parents are its immediate
predecessors, the least filters that cover it, and the roots have none. A notification is matched by
walking down from the roots, going below a filter only when it matched, since what a filter rejects,
everything it covers rejects too. Filters that cover each other are one node.

To insert a filter f:

1. Walk down from the roots through the nodes that cover f. Those none of whose children cover f are
   its parents. A node that f covers in turn is f itself.
2. Whatever f covers is below each of its parents, so search below the one with the fewest children
   (or from the roots if there is none) for the highest nodes that f covers.
3. Put f between: its children lose the parents that are parents of f, or, as roots, stop being so.

The walk is as in the original, without the inverted indexes that later systems added. Only what it
calls `covers` is quicker here than the plain one: constraints are looked up by attribute, two
different values of one attribute end the question, and the implications of pairs already seen are
remembered, so that the diagram can be built at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from kbn.filters import Constraint, Filter, Notification, Operator, Subscription, accepts, implies
from kbn.ontology import Ontology

# Values whose `=` is Python's. A bool is none of these: True == 1 there, and not here.
_PLAIN = (str, int, float)

# Pairs of constraints whose implication is remembered; ranges never repeat and would fill memory.
MEMO_MAX = 500_000


class Node:
    """A filter, who wants it, and its neighbours in the diagram."""

    __slots__ = ("by_attribute", "children", "filter", "fixed", "keys", "parents")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.keys: list[Hashable] = []
        self.parents: dict[Node, None] = {}
        self.children: dict[Node, None] = {}
        self.by_attribute: dict[str, list[Constraint]] = {}
        for constraint in filter.constraints:
            self.by_attribute.setdefault(constraint.attribute, []).append(constraint)
        # Attributes with one constraint, `= v`, v plain: two such v that differ end a question.
        self.fixed: dict[str, Any] = {
            attribute: only.operand
            for attribute, (only, *more) in self.by_attribute.items()
            if not more and only.operator is Operator.EQ and type(only.operand) in _PLAIN
        }


class SienaPoset:
    """Answers as `LinearScan` does, by walking the poset of filters from its roots.

    >>> poset = SienaPoset()
    >>> poset.add(Subscription.parse("price < 20"), "ann")
    >>> poset.add(Subscription.parse("price < 10"), "bob")
    >>> len(poset.roots), sorted(poset.match({"price": 5}))
    (1, ['ann', 'bob'])
    """

    def __init__(self, ontology: Ontology | None = None) -> None:
        self._ontology = ontology
        self._nodes: dict[Filter, Node] = {}
        self._implied: dict[tuple[Constraint, Constraint], bool] = {}
        self.roots: dict[Node, None] = {}

    def __len__(self) -> int:
        """The number of nodes: distinct filters, those that cover each other taken as one."""
        return len(set(self._nodes.values()))

    def add(self, subscription: Subscription, key: Hashable) -> None:
        """Add a subscription; each of its filters is a node of its own."""
        for filter in subscription.filters:
            node = self._nodes.get(filter)
            if node is None:
                node = self._nodes[filter] = self._insert(Node(filter))
            node.keys.append(key)

    def add_many(self, subscriptions: Iterable[tuple[Subscription, Hashable]]) -> None:
        for subscription, key in subscriptions:
            self.add(subscription, key)

    def match(self, notification: Notification | Mapping[str, Any]) -> set[Hashable]:
        """The keys of the subscriptions that accept the notification."""
        seen = notification if isinstance(notification, Notification) else None
        attributes = (seen or Notification(notification)).attributes
        found: set[Hashable] = set()
        reached = set(self.roots)
        waiting = list(self.roots)
        while waiting:
            node = waiting.pop()
            if not self._accepts(node.filter, attributes):
                continue
            found.update(node.keys)
            for child in node.children:
                if child not in reached:
                    reached.add(child)
                    waiting.append(child)
        return found

    def covers(self, wider: Node, narrower: Node) -> bool:
        """As `kbn.filters.covers`, remembering what it found."""
        fixed = narrower.fixed
        for attribute, value in wider.fixed.items():
            if fixed.get(attribute, value) != value:
                return False
        theirs = narrower.by_attribute
        if not wider.by_attribute.keys() <= theirs.keys():
            return False
        return all(
            any(self._implies(premise, conclusion) for premise in theirs[attribute])
            for attribute, conclusions in wider.by_attribute.items()
            for conclusion in conclusions
        )

    def check_invariants(self) -> None:
        """Links agree both ways, follow covering, and none could be replaced by a longer path."""
        nodes = set(self._nodes.values())
        assert set(self.roots) == {node for node in nodes if not node.parents}
        for node in nodes:
            for child in node.children:
                assert node in child.parents
                assert self.covers(node, child) and not self.covers(child, node)
                others = [other for other in node.children if other is not child]
                assert not any(child in set(_below(other)) for other in others)
        for node in nodes:
            covered = {other for other in nodes if other is not node and self.covers(node, other)}
            assert covered == set(_below(node)) - {node}

    def memory(self) -> int:
        """The bytes of the nodes and their links (the filters themselves not counted)."""
        from sys import getsizeof

        return sum(
            getsizeof(part)
            for node in set(self._nodes.values())
            for part in (node, node.keys, node.parents, node.children, node.by_attribute)
        )

    def _insert(self, new: Node) -> Node:
        parents = self._parents_of(new)
        if len(parents) == 1 and self.covers(new, parents[0]):
            return parents[0]
        above = dict.fromkeys(parents)
        for child in self._children_of(new, parents):
            for parent in [p for p in child.parents if p in above]:
                del parent.children[child], child.parents[parent]
            self.roots.pop(child, None)
            child.parents[new] = None
            new.children[child] = None
        new.parents = above
        for parent in parents:
            parent.children[new] = None
        if not parents:
            self.roots[new] = None
        return new

    def _parents_of(self, new: Node) -> list[Node]:
        """The lowest nodes that cover `new`."""
        parents = []
        waiting = [root for root in self.roots if self.covers(root, new)]
        reached = set(waiting)
        while waiting:
            node = waiting.pop()
            below = [child for child in node.children if self.covers(child, new)]
            if not below:
                parents.append(node)
            for child in below:
                if child not in reached:
                    reached.add(child)
                    waiting.append(child)
        return parents

    def _children_of(self, new: Node, parents: list[Node]) -> list[Node]:
        """The highest nodes that `new` covers."""
        start = min((p.children for p in parents), key=len, default=self.roots)
        covered: dict[Node, None] = {}
        waiting = list(start)
        reached = set(waiting)
        while waiting:
            node = waiting.pop()
            if self.covers(new, node):
                covered[node] = None
                continue
            for child in node.children:
                if child not in reached:
                    reached.add(child)
                    waiting.append(child)
        # One was reached past its uncovered parents; another of its ancestors may be covered too.
        return [node for node in covered if not _any_above(node, covered)]

    def _accepts(self, filter: Filter, attributes: Mapping[str, Any]) -> bool:
        return all(
            constraint.attribute in attributes
            and accepts(constraint, attributes[constraint.attribute], self._ontology)
            for constraint in filter.constraints
        )

    def _implies(self, premise: Constraint, conclusion: Constraint) -> bool:
        pair = (premise, conclusion)
        known = self._implied.get(pair)
        if known is None:
            known = implies(premise, conclusion, self._ontology)
            if len(self._implied) >= MEMO_MAX:
                self._implied.clear()
            self._implied[pair] = known
        return known


def _below(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    reached = {node}
    waiting = [node]
    while waiting:
        one = waiting.pop()
        yield one
        for child in one.children:
            if child not in reached:
                reached.add(child)
                waiting.append(child)


def _any_above(node: Node, wanted: dict[Node, None]) -> bool:
    """Whether some proper ancestor of the node is among `wanted`."""
    waiting = list(node.parents)
    reached = set(waiting)
    while waiting:
        one = waiting.pop()
        if one in wanted:
            return True
        for parent in one.parents:
            if parent not in reached:
                reached.add(parent)
                waiting.append(parent)
    return False
