"""Which terms are named: by a subscription in its operands, by a notification in its values.

What a client is interested in, for the purpose of placing it near others: every class, property and
individual named in its filters, or in what it publishes, as often as it is named. Bags are opened,
however deep, and `[property, individual]` names both. A negated constraint names its terms too.
A subscription is counted as it is kept, as filters: what stands outside an `or` is in each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kbn.filters.model import Subscription
from kbn.filters.notification import Notification
from kbn.filters.values import Bag, Operand, Relation
from kbn.ontology import Term

__all__ = ["terms_named_in"]


def terms_named_in(what: Subscription | Notification | Operand) -> list[Term]:
    """The terms that `what`, which may also be a single value, names; once for each time it does.

    >>> terms_named_in(Subscription.parse("x @> <urn:Tea> and y #> {<urn:Tea>, 3, {<urn:Pot>}}"))
    [Term('urn:Tea'), Term('urn:Tea'), Term('urn:Pot')]
    """
    if isinstance(what, Notification):
        return [term for value in what.attributes.values() for term in _terms(value)]
    if isinstance(what, Subscription):
        parts = (part for each in what.filters for part in each.constraints)
        return [term for part in parts for term in _terms(part.operand)]
    return list(_terms(what))


def _terms(value: Operand | None) -> Iterator[Term]:
    if isinstance(value, Term):
        yield value
    elif isinstance(value, Relation):
        yield value.property
        yield value.individual
    elif isinstance(value, Bag):
        for item in value.items:
            yield from _terms(item)
