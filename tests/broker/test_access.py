"""Who may come in and do what, whose a name is, and what happens when the rules change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests.broker.test_node import Talk, greet

from kbn.broker import (
    AccessRules,
    AllowAll,
    Entry,
    MemoryStore,
    Permission,
    RulesInForce,
    content,
    digest_of,
    notes,
)
from kbn.broker import node_events as events
from kbn.broker.administration import LoadOntology
from kbn.broker.messages import (
    AdminRequest,
    Advertise,
    Bye,
    ConnAck,
    Connect,
    Deliver,
    DeliverAck,
    Done,
    Leave,
    Left,
    Publish,
    Refused,
    Subscribe,
    Unsubscribe,
)
from kbn.broker.node.guesses import REMEMBERED_MAX, Guesses
from kbn.errors import RemotePeerError


def may(
    publish: Iterable[str] | None = None,
    subscribe: Iterable[str] | None = None,
    token: str | None = None,
    **rights: Any,
) -> Entry:
    """An entry of the rules: all attributes unless some are named."""
    permission = Permission(
        None if publish is None else frozenset(publish),
        None if subscribe is None else frozenset(subscribe),
        **{"manage": False, "block": False, "ontologies": False, **rights},
    )
    return Entry(permission, None if token is None else digest_of(token))


class Door(Talk):
    """A node whose rules change while it runs; each client has a connection of its own."""

    def __init__(self, store: MemoryStore | None = None, **rules: Any) -> None:
        self.door = RulesInForce(AccessRules(**rules))
        self.memory = store or MemoryStore()
        self._last = 0
        super().__init__(authorizer=self.door, store=self.memory)

    def change(self, **rules: Any) -> Door:
        self.door.rules = AccessRules(**rules)
        self.tell(events.AccessChanged())
        return self

    def come(self, name: str, token: str = "", epoch: int = 1, **options: Any) -> int:
        """A client connects; its connection."""
        self._last += 1
        self.opened(self._last)
        self.say(self._last, Connect(name, epoch, token=token, **options))
        return self._last

    def is_in(self, connection: int) -> bool:
        return any(isinstance(each, ConnAck) for each in self.sent(connection))

    def delivered(self, connection: int) -> list[dict[str, Any]]:
        found = [each for each in self.sent(connection) if isinstance(each, Deliver)]
        return [dict(content.decode(each.envelope.content)) for each in found]


def published(number: int, /, durable: bool = True, **attributes: Any) -> Publish:
    return Publish(number, 0.0, content.encode(attributes), durable)


# Who may come in.


def test_an_authorizer_that_knows_of_clients_only_lets_no_broker_in() -> None:
    class Clients:
        def admit(self, name: str, token: str) -> Permission | None:
            return Permission()

    class Choosy(AllowAll):
        def admit(self, name: str, token: str) -> Permission | None:
            return Permission()

    for authorizer in (Clients(), Choosy()):
        talk = Talk(authorizer=authorizer).opened(1).say(1, greet("c"))
        assert "broker 'c' is not admitted" in talk.refusal(1)
        assert not talk.node.broker.neighbours
    assert Talk().opened(1).say(1, greet("c")).node.broker.neighbours


def test_rules_admit_by_token_and_hold_everybody_else_to_the_default() -> None:
    rules = AccessRules({"ann": may(token="a")}, {"east": may(token="e")}, may(publish=()))
    known = {name: rules.permission_of(name) for name in ("ann", "east", "bob")}
    assert {name: each and each.known_by for name, each in known.items()} == {
        "ann": "proof", "east": "proof", "bob": "claim",
    }  # fmt: skip
    assert rules.admit("ann", "a") and not rules.admit("ann", "b") and rules.admit("bob", "any")
    assert rules.admit_broker("east", "e") and not rules.admit_broker("east", "")
    assert not rules.admit_broker("ann", "a")
    shared = AccessRules(default=may(token="for all")).admit("bob", "for all")
    assert shared is not None and shared.known_by == "shared"
    assert AccessRules().permission_of("bob") is None


def test_a_connection_shows_one_token() -> None:
    talk = Door(clients={"ann": may(token="a")})
    ann = talk.come("ann", "a")
    assert talk.is_in(ann)
    assert "another token" in talk.say(ann, Connect("ann", 1, token="b")).refusal(ann)


# Whose a name is.


def test_nobody_else_takes_what_is_kept_for_a_durable_client() -> None:
    talk = Door(default=may())
    ann = talk.come("ann", "mine", durable=True)
    talk.say(ann, Subscribe(1, "k any", True))
    talk.tell(events.Closed(ann))
    bob = talk.come("bob")
    talk.say(bob, published(1, k=1))
    for token in ("", "other"):
        for epoch in (1, 2):
            thief = talk.come("ann", token, epoch, durable=True)
            assert "belongs to a durable client" in talk.refusal(thief)
            thief = talk.come("ann", token, epoch)
            assert "belongs to a durable client" in talk.refusal(thief)
    ann = talk.come("ann", "mine", 2, durable=True)
    assert talk.delivered(ann) == [{"k": 1}]


def test_a_name_stays_its_owners_over_a_restart_and_until_it_leaves() -> None:
    talk = Door(default=may())
    talk.come("ann", "mine", durable=True)
    again = Door(talk.memory, default=may())
    assert "belongs to" in again.refusal(again.come("ann", "other", durable=True))
    ann = again.come("ann", "mine", 2, durable=True)
    assert [type(each) for each in again.say(ann, Leave(1)).sent(ann)] == [Left]
    assert again.is_in(again.come("ann", "other", 3, durable=True))


def test_without_a_token_a_name_that_proves_nothing_cannot_be_durable() -> None:
    talk = Door(default=may())
    assert "needs a token" in talk.refusal(talk.come("ann", durable=True))
    talk.change(default=may(token="for all"))
    assert "entry of your own" in talk.refusal(talk.come("ann", "for all", durable=True))
    assert talk.is_in(talk.come("ann", "for all"))
    # Where nothing is checked, of anybody, it is as good as any.
    open_to_all = Talk(store=MemoryStore()).opened(1).say(1, Connect("ann", 1, durable=True))
    assert isinstance(open_to_all.sent(1)[0], ConnAck)


def test_where_nothing_is_checked_a_token_still_guards_a_durable_name_and_no_token_does_not() -> (
    None
):
    # docs/how-to/secure-an-overlay.md says both.
    for token, is_taken_over in (("mine", False), ("", True)):
        talk = Talk(store=MemoryStore()).opened(1)
        talk.say(1, Connect("ann", 1, token=token, durable=True), Subscribe(1, "k any", True))
        talk.tell(events.Closed(1)).opened(2).say(2, Connect("bob", 1), published(1, k=1))
        thief = talk.opened(3).say(3, Connect("ann", 2, durable=True))
        took = any(isinstance(each, Deliver) for each in thief.sent(3))
        assert took == is_taken_over
        assert is_taken_over or "belongs to a durable client" in thief.refusal(3)


def test_nobody_pushes_an_attached_client_aside() -> None:
    talk = Door(default=may())
    ann = talk.come("ann", "mine")
    assert "in use by another" in talk.refusal(talk.come("ann", "other", 99))
    assert isinstance(talk.say(ann, Subscribe(1, "k any", True)).sent(ann)[0], Done)
    assert talk.is_in(talk.come("ann", "mine", 2)) and ann in talk.closed


def test_behind_mutual_tls_the_certificate_is_the_owner() -> None:
    door = RulesInForce(AccessRules(default=may()))
    talk = Talk(authorizer=door, store=MemoryStore(), checks_certificates=True)
    talk.opened(1, certificate="ann").say(1, Connect("ann", 1, durable=True))
    assert isinstance(talk.sent(1)[0], ConnAck)
    talk.opened(2, certificate="ann").say(2, Connect("ann", 2, token="new", durable=True))
    assert isinstance(talk.sent(2)[0], ConnAck)


def test_an_epoch_far_ahead_of_the_clock_locks_nobody_out() -> None:
    talk = Door(default=may())
    assert "ahead of this broker's clock" in talk.refusal(talk.come("ann", "x", 2**62))
    assert talk.is_in(talk.come("ann", "mine", int(talk.now * 1e6)))


# Guesses.


def test_whoever_guesses_tokens_has_to_wait_and_others_do_not() -> None:
    talk = Door(clients={"ann": may(token="a"), "bob": may(token="b")})
    refusals = [talk.refusal(talk.come("ann", f"guess {n}")) for n in range(6)]
    assert [("not admitted" in each) for each in refusals] == [True] * 5 + [False]
    assert "too many wrong tokens" in talk.refusal(talk.come("ann", "a"))
    assert talk.is_in(talk.come("bob", "b"))
    talk.tick(2.0)
    assert talk.is_in(talk.come("ann", "a", 2))


def test_guesses_are_slow_whatever_names_they_are_for_and_take_little_memory() -> None:
    guesses, allowed = Guesses(), 0
    for second in range(600):
        for n in range(100):
            try:
                guesses.check("192.0.2.1:5", f"{second}-{n}", second)
            except RemotePeerError:
                continue
            allowed += 1
            guesses.failed("192.0.2.1:5", f"{second}-{n}", second)
    assert allowed < 100 + 600 + 100  # of 60,000: about one a second
    for n in range(2 * REMEMBERED_MAX):
        guesses.failed(f"{n}:1", "x" * 1_000_000, 600.0)
    assert len(guesses) == REMEMBERED_MAX


# What each may do.


def test_a_client_is_shown_the_attributes_it_may_ask_for_and_no_others() -> None:
    talk = Door(clients={"ann": may(subscribe=["title"]), "bob": may()})
    ann, bob = talk.come("ann"), talk.come("bob")
    talk.say(ann, Subscribe(1, "title any", True))
    talk.say(bob, published(1, durable=False, title="Tea", price=5))
    assert talk.delivered(ann) == [{"title": "Tea"}]


def test_stopping_publishers_and_loading_ontologies_take_rights_of_their_own() -> None:
    talk = Door(clients={"ann": may(), "bob": may(block=True, manage=True)})
    assert "you may not stop publishers" in talk.refusal(talk.come("ann", when_slow="block"))
    bob = talk.come("bob", when_slow="block")
    assert talk.is_in(bob)
    [refused] = talk.say(bob, AdminRequest(1, LoadOntology(("x.ttl",)))).sent(bob)
    assert isinstance(refused, Refused) and "right `ontologies`" in refused.reason


# The rules change.


def test_whoever_is_not_admitted_any_more_is_told_and_closed() -> None:
    clients = {"ann": may(token="a"), "bob": may(token="b"), "eve": may(token="e")}
    talk = Door(clients=clients)
    ann, bob, eve = (talk.come(name, name[0]) for name in clients)
    talk.change(clients={"ann": clients["ann"], "bob": may(token="new")})
    assert set(talk.closed) == {bob, eve}
    for connection in (bob, eve):
        [refused] = talk.sent(connection)
        assert isinstance(refused, Refused)
        assert (refused.what, refused.kind) == ("connect", "NotAllowedError")
        assert "access was withdrawn" in refused.reason
    assert list(talk.node.broker.clients) == ["ann"]
    assert talk.say(eve, published(1, k=1)).effects == []
    assert isinstance(talk.say(ann, Subscribe(1, "k any", True)).sent(ann)[0], Done)
    assert talk.is_in(talk.come("bob", "new", 2))


def test_a_durable_client_is_kept_when_its_token_changes_and_forgotten_with_its_entry() -> None:
    talk = Door(clients={"ann": may(token="a"), "bob": may()})
    ann, bob = talk.come("ann", "a", durable=True), talk.come("bob")
    talk.say(ann, Subscribe(1, "k any", True))
    talk.change(clients={"ann": may(token="new"), "bob": may()})
    assert talk.closed == [ann]
    talk.say(bob, published(1, k=1))
    ann = talk.come("ann", "new", 2, durable=True)
    assert talk.delivered(ann) == [{"k": 1}]
    talk.change(clients={"bob": may()})
    assert list(talk.node.broker.clients) == ["bob"]
    talk.say(bob, published(2, k=2))
    talk.change(clients={"ann": may(token="new"), "bob": may()})
    assert talk.delivered(talk.come("ann", "new", 3, durable=True)) == []


@pytest.mark.parametrize("durable", [True, False])
def test_what_a_client_may_not_have_any_more_is_withdrawn_and_told(durable: bool) -> None:
    both = {"ann": may(subscribe="xy"), "bob": may()}
    talk = Door(clients=both)
    ann, bob = talk.come("ann", "a", durable=durable), talk.come("bob")
    talk.say(ann, Subscribe(1, "x any", True), Subscribe(2, "y any", True))
    talk.change(clients={**both, "ann": may(subscribe="y", publish=())})
    [refused] = talk.sent(ann)
    assert isinstance(refused, Refused)
    assert (refused.what, refused.reference) == ("subscribe", 1)
    assert "may not subscribe to 'x'" in refused.reason and not talk.closed
    talk.say(bob, published(1, x=1), published(2, x=2, y=2), published(3, y=3))
    assert talk.delivered(ann) == [{"y": 2}, {"y": 3}]
    [refused] = [each for each in talk.say(ann, published(1, y=1)).sent(ann)][:1]
    assert isinstance(refused, Refused) and "may not publish 'y'" in refused.reason


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("at_start", [False, True])
def test_what_waits_for_a_withdrawn_subscription_is_not_delivered(
    restarts: bool, at_start: bool
) -> None:
    before = {"ann": may(subscribe="xy"), "bob": may()}
    after = {**before, "ann": may(subscribe="y")}
    talk = Door(clients=before)
    ann, bob = talk.come("ann", "a", durable=True), talk.come("bob")
    talk.say(ann, Subscribe(1, "x any", True), Subscribe(2, "y any", True))
    talk.tell(events.Closed(ann))
    talk.say(bob, *(published(n, True, **{"xy"[n % 2]: n, "z": n}) for n in range(1, 11)))
    if not at_start:
        talk.change(clients=after)
    if at_start or restarts:
        talk = Door(talk.memory, clients=after)
    ann = talk.come("ann", "a", epoch=2, durable=True)
    assert talk.delivered(ann) == [{"y": n} for n in range(1, 11, 2)]
    # The same number again, for something that is allowed: only what comes from now on.
    talk.say(ann, Subscribe(1, "y > 10", True))
    bob = talk.come("bob", epoch=2)
    talk.say(bob, published(1, y=11, x=11))
    assert talk.delivered(ann) == [{"y": 11}]
    [last] = [each for each in talk.sent(ann) if isinstance(each, Deliver)]
    assert set(last.subscriptions) == {1, 2}
    talk.say(ann, DeliverAck(last.number))
    assert isinstance(talk.say(ann, Leave(1)).sent(ann)[-1], Left)


@pytest.mark.parametrize("lost", ["what was withdrawn", "the subscription", "given up"])
@pytest.mark.parametrize("subscribe", ["y", None])
def test_what_waits_for_a_subscription_that_is_not_known_goes_to_those_who_may_have_all(
    lost: str, subscribe: str | None
) -> None:
    entries = {"ann": may(subscribe="xy"), "bob": may()}
    talk = Door(clients=entries)
    ann, bob = talk.come("ann", "a", durable=True, window=1), talk.come("bob")
    talk.say(ann, Subscribe(1, "x any", True), Subscribe(2, "y any", True))
    talk.say(bob, published(1, y=1), published(2, x=2, z=2), published(3, y=3))
    if lost == "given up":
        talk.say(ann, Unsubscribe(1))
    talk.tell(events.Closed(ann))
    if lost == "what was withdrawn":
        talk.change(clients={**entries, "ann": may(subscribe="y")})
        talk.memory.mark("withdrawn/ann", b"\xc1")
    elif lost == "the subscription":
        talk.memory.keep_subscription("ann", 1, "?")
    talk.memory.commit()
    talk = Door(talk.memory, clients={**entries, "ann": may(subscribe=subscribe)})
    ann = talk.come("ann", "a", epoch=2, durable=True)
    is_all = [{"y": 1}, {"x": 2, "z": 2}, {"y": 3}]
    assert talk.delivered(ann) == (is_all if subscribe is None else [{"y": 1}, {"y": 3}])


def test_deliveries_that_are_left_out_are_no_gap_to_the_client() -> None:
    before = {"ann": may(subscribe="xy"), "bob": may()}
    talk = Door(clients=before)
    ann, bob = talk.come("ann", "a", durable=True), talk.come("bob")
    talk.say(ann, Subscribe(1, "x any", True), Subscribe(2, "y any", True))
    talk.tell(events.Closed(ann))
    talk.say(bob, published(1, y=1), published(2, x=2), published(3, y=3), published(4, x=4))
    talk.change(clients={**before, "ann": may(subscribe="y")})
    ann = talk.come("ann", "a", epoch=2, durable=True)
    one, two = [each for each in talk.sent(ann) if isinstance(each, Deliver)]
    assert (one.after, two.after) == (0, one.number)
    talk.say(ann, DeliverAck(two.number))
    assert not len(talk.node.broker.clients["ann"].deliveries.unacked or ())


def test_an_advertisement_that_a_client_may_not_make_any_more_is_withdrawn() -> None:
    talk = Door(clients={"bob": may(publish="xy")})
    bob = talk.come("bob")
    talk.say(bob, Advertise(1, "x any", True), Advertise(2, "y any", True))
    talk.change(clients={"bob": may(publish="y")})
    [refused] = talk.sent(bob)
    assert isinstance(refused, Refused)
    assert (refused.what, refused.reference) == ("advertise", 1)
    assert list(talk.node.broker.clients["bob"].advertisements) == [2]


def test_who_may_not_stop_publishers_any_more_is_told_and_closed() -> None:
    talk = Door(clients={"ann": may(block=True)})
    ann = talk.come("ann", when_slow="block")
    talk.change(clients={"ann": may()})
    [refused] = talk.sent(ann)
    assert isinstance(refused, Refused) and "may not stop publishers" in refused.reason
    assert talk.closed == [ann]


def test_a_broker_that_is_not_admitted_any_more_is_expelled_and_may_come_back() -> None:
    rules: dict[str, Any] = {"brokers": {"c": may(token="c"), "d": may(token="d")}}
    talk = Door(**rules)
    talk.opened(11).say(11, greet("c", token="c"))
    talk.opened(12).say(12, greet("d", token="d"))
    assert set(talk.node.broker.neighbours) == {"c", "d"}
    talk.change(brokers={"d": may(token="new")})
    assert set(talk.closed) == {11, 12}
    assert set(talk.node.broker.neighbours) == {"d"}  # it may come back with the new token
    assert any(isinstance(each, Bye) and each.cause == "refused" for each in talk.sent(11))
    assert any("not admitted" in str(each) for each in talk.notes)
    talk.change(**rules)
    talk.opened(13).say(13, greet("c", token="c"))
    assert set(talk.node.broker.neighbours) == {"c", "d"}


def test_rules_that_stay_as_they_were_disturb_nobody() -> None:
    rules: dict[str, Any] = {"clients": {"ann": may(token="a")}, "default": may(publish=())}
    talk = Door(**rules)
    ann, bob = talk.come("ann", "a"), talk.come("bob")
    talk.say(ann, Subscribe(1, "k any", True))
    assert talk.change(**rules).effects == []
    assert isinstance(talk.say(bob, Subscribe(1, "k any", True)).sent(bob)[0], Done)


def test_only_what_was_refused_is_noted() -> None:
    talk = Door(clients={"ann": may(token="a")})
    talk.come("ann", "guess")
    [note] = talk.notes
    assert isinstance(note, notes.ConnectionRefused) and "guess" not in str(note)
