"""Explanations: why a notification satisfies a subscription, or why it does not.

The index only says that a subscription matched. Here the evaluator is asked again, constraint by
constraint, and each gets a `Verdict`: whether the value is accepted, a sentence that says why, and
the links of the ontology that the sentence rests on. The sentences are in `why.py`.

    category: Podcasting is a kind of Technology        accepted, by one link
    duration: 1500 is not less than 600                 not accepted
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbn.filters.evaluation import accepts
from kbn.filters.json_form import constraint_to_json, value_to_json
from kbn.filters.notification import as_notification
from kbn.filters.term_check import UnknownTerm, unknown_terms
from kbn.filters.why import reason_against, reason_and_links

if TYPE_CHECKING:
    from kbn.filters.model import Constraint, Filter, Subscription
    from kbn.filters.notification import Notification
    from kbn.filters.values import Value
    from kbn.ontology import Link, Ontology

__all__ = ["Explanation", "Verdict", "explain", "verdict"]


@dataclass(frozen=True)
class Verdict:
    """What one constraint says about a notification."""

    constraint: Constraint
    value: Value | None
    """The value of the attribute; None when the notification has none."""
    accepted: bool
    reason: str
    """`attribute: sentence`."""
    links: tuple[Link, ...] = ()
    """The way through the ontology that an accepted value rests on, if there is one."""

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON-ready data."""
        return {
            "constraint": constraint_to_json(self.constraint),
            "value": None if self.value is None else value_to_json(self.value),
            "accepted": self.accepted,
            "reason": self.reason,
            "links": [link._asdict() for link in self.links],
        }


@dataclass(frozen=True)
class Explanation:
    """The verdicts of a subscription on a notification, filter by filter."""

    filters: tuple[tuple[Verdict, ...], ...]
    unknown: tuple[UnknownTerm, ...] = ()
    """The terms of the notification that the ontology does not know as what they are used for."""

    @property
    def matches(self) -> bool:
        """Whether some filter accepts the notification: each of its constraints does."""
        return any(all(verdict.accepted for verdict in each) for each in self.filters)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What decides: the first filter that matches, or else what each filter does not accept."""
        for each in self.filters:
            if all(verdict.accepted for verdict in each):
                return each
        return tuple(verdict for each in self.filters for verdict in each if not verdict.accepted)

    @property
    def reasons(self) -> list[str]:
        """A sentence for each of the `verdicts`, none twice."""
        return list(dict.fromkeys(verdict.reason for verdict in self.verdicts))

    def to_json(self) -> dict[str, Any]:
        """The explanation as JSON-ready data."""
        return {
            "matches": self.matches,
            "reasons": self.reasons,
            "filters": [[verdict.to_json() for verdict in each] for each in self.filters],
            "unknown": [each.to_json() for each in self.unknown],
        }

    def __str__(self) -> str:
        return "\n".join(("matches" if self.matches else "does not match", *self.reasons))


def explain(
    subscription: Subscription,
    notification: Notification | Mapping[str, object],
    ontology: Ontology | None = None,
) -> Explanation:
    """Why `notification` satisfies `subscription`, or why it does not.

    >>> from kbn.filters import Subscription
    >>> wanted = Subscription.parse('duration < 600 and kind = "news"')
    >>> print(explain(wanted, {"duration": 1500, "kind": "news"}))
    does not match
    duration: 1500 is not less than 600
    """
    from kbn.ontology import Ontology

    known = Ontology.empty() if ontology is None else ontology
    given = as_notification(notification)
    filters = tuple(_verdicts(each, given, known) for each in subscription.filters)
    return Explanation(filters, unknown_terms(given, known))


def _verdicts(filter: Filter, given: Notification, ontology: Ontology) -> tuple[Verdict, ...]:
    attributes = given.attributes
    return tuple(
        verdict(constraint, attributes.get(constraint.attribute), ontology)
        for constraint in filter.constraints
    )


def verdict(constraint: Constraint, value: Value | None, ontology: Ontology) -> Verdict:
    """What a constraint says about the value of its attribute; None: there is none.

    >>> from kbn.filters import Constraint
    >>> from kbn.ontology import Ontology
    >>> verdict(Constraint("price", "<", 10), 12, Ontology.empty()).reason
    'price: 12 is not less than 10'
    """
    if value is None:
        return Verdict(constraint, None, False, f"{constraint.attribute}: is not there")
    if not accepts(constraint, value, ontology):
        return Verdict(constraint, value, False, reason_against(constraint, value, ontology))
    return Verdict(constraint, value, True, *reason_and_links(constraint, value, ontology))
