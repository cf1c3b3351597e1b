"""What it means that a matcher answers right; shared by the tests of this room."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pytest

from kbn.filters import Notification, Subscription, matches_by_definition
from kbn.matching import Matcher, notification_table
from kbn.matching import index as index_module
from kbn.matching.matcher import subscriptions_of
from kbn.ontology import Ontology


def assert_match_agrees(
    matcher: Matcher,
    subscriptions: Mapping[Any, Subscription],
    notification: Notification,
    ontology: Ontology | None,
) -> None:
    """One notification: the keys, their number, the groups found and what each key stands for."""
    expected = {
        key
        for key, asked in subscriptions.items()
        if any(matches_by_definition(part, notification, ontology) for part in asked.filters)
    }
    matches = matcher.match(notification)
    keys = list(matches)
    assert set(keys) == expected
    assert len(keys) == len(matches) == len(expected)
    assert bool(matches) == bool(expected)
    for part in matches.groups:
        assert part.matches(notification, ontology), f"group {part}"
    for key in subscriptions:
        assert (key in matches) == (key in expected)
        decoded = matcher.subscription(key)
        assert decoded.matches(notification, ontology) == (key in expected), (
            f"{subscriptions[key]} came back as {decoded}"
        )


def assert_batch_agrees(matcher: Matcher, notifications: Sequence[Notification]) -> None:
    """A batch, expanded and by group, says what the notifications one by one say.

    So does one in which they stand again and again, when the trie is walked once for all.
    """
    _assert_batch_agrees(matcher, notifications)
    times = -(-index_module.ROWS_MIN // max(1, len(notifications)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index_module, "HITS_PER_ROW", 0)
        _assert_batch_agrees(matcher, [*notifications] * times)


def _assert_batch_agrees(matcher: Matcher, notifications: Sequence[Notification]) -> None:
    table = notification_table(notifications)
    assert table.num_rows == len(notifications)
    one_by_one = [matcher.match(notification) for notification in notifications]
    expanded = matcher.match_batch(table).to_pydict()
    pairs = list(zip(expanded["notification"], expanded["key"], strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == {(row, key) for row, found in enumerate(one_by_one) for key in found}
    grouped = matcher.match_batch(table, expand=False).to_pydict()
    entries = list(zip(grouped["notification"], grouped["group"], strict=True))
    assert len(entries) == len(set(entries))
    assert set(entries) == {
        (row, group) for row, found in enumerate(one_by_one) for group in found.group_ids.tolist()
    }
    members = subscriptions_of(matcher).index.groups.members
    for group, count in zip(grouped["group"], grouped["subscriptions"], strict=True):
        assert count == len(members(group))


def keys_of(table: Any) -> dict[int, set[Hashable]]:
    """Row to keys, of an expanded answer."""
    found: dict[int, set[Hashable]] = {}
    for row, key in zip(table["notification"].to_pylist(), table["key"].to_pylist(), strict=True):
        assert key not in found.setdefault(row, set())
        found[row].add(key)
    return found
