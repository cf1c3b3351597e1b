"""Managed overlays in memory: real brokers, agents, trigger broker and policy servers."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from kbn import data
from kbn.filters import Subscription
from kbn.management import reports
from kbn.management.assignments import AWAY_AFTER_S, Assignments
from kbn.management.engine import PolicyEngine
from kbn.management.mib import Mib
from kbn.management.policies import PolicySet
from kbn.management.policy_server import FORGET_AFTER_S, SILENT_S, PolicyServer
from kbn.ontology import Individual, Ontology
from kbn.placement import Plan
from kbn.simulation.client import SimulatedClient
from kbn.simulation.managed import ManagedNetwork, ManagedPublisher

HERE = data.namespace("conference")
TREE = {
    "top": None, "left": "top", "right": "top", "far left": "left", "far right": "right",
}  # fmt: skip


@pytest.fixture(scope="module")
def conference() -> Ontology:
    return Ontology.load(data.path("conference"))


def server(
    ontology: Ontology,
    name: str = "one",
    mib: Mib | None = None,
    policies: str = "",
    **options: Any,
) -> PolicyServer:
    loaded = PolicySet.load(policies) if policies else PolicySet.shipped()
    return PolicyServer(name, PolicyEngine(mib or Mib(), loaded), Assignments(ontology), **options)


def plan_of(serving: PolicyServer) -> Plan:
    assert serving.assignments.plan is not None
    return serving.assignments.plan


def is_home(client: SimulatedClient, serving: PolicyServer) -> bool:
    found = serving.engine.mib.get("subscriber", client.name)
    return found is not None and client.broker in plan_of(serving).brokers_for(found.medoid)


def a_class(rng: Random, ontology: Ontology) -> str:
    return f"topic @= <{rng.choice(sorted(ontology.classes))}>"


def publisher_about(
    managed: ManagedNetwork, name: str, individual: str, at: str
) -> ManagedPublisher:
    publisher = managed.publisher(name, at)
    publisher.intend({"topic": Individual(HERE + individual)})
    return publisher


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_subscribers_attach_anywhere_and_end_up_in_their_cluster(
    seed: int, conference: Ontology
) -> None:
    print(f"seed {seed}")
    rng = Random(seed)
    managed, serving = ManagedNetwork(TREE, conference), server(conference)
    managed.serve(serving)
    clients = []
    for number in range(25):
        clients.append(managed.network.client(f"s{number}", rng.choice(list(TREE))))
        clients[-1].subscribe(a_class(rng, conference))
        managed.run(rng.choice([0.0, 0.3]))
    managed.run(3.0)
    assert all(is_home(client, serving) for client in clients)
    assert len({client.broker for client in clients}) > 1


def test_two_overlays_with_the_same_names_share_a_trigger_broker(conference: Ontology) -> None:
    north = ManagedNetwork(TREE, conference, overlay="north")
    south = ManagedNetwork(TREE, conference, trigger=north.trigger)
    servers = {}
    for managed in (north, south):
        servers[managed.overlay] = server(conference, overlay=managed.overlay)
        managed.serve(servers[managed.overlay])
    ann, bob = north.network.client("ann", "top"), south.network.client("ann", "far left")
    ann.subscribe(f"topic @= <{HERE}Paper>")
    bob.subscribe(f"topic @= <{HERE}Person>")
    publisher_about(north, "p", "Paper_17", "top")
    for _ in range(5):
        north.run(1.0)
        south.run(1.0)
    for client, serving in ((ann, servers["north"]), (bob, servers["main"])):
        assert is_home(client, serving) and serving.unreadable == 0
        assert serving.engine.mib.names("subscriber") == ["ann"]
    assert servers["north"].engine.mib.names("publisher") == ["p"]
    assert servers["main"].engine.mib.names("publisher") == []
    # What the broker of one overlay says of the other is not believed.
    forged = reports.Departure("subscriber", "ann", ann.broker)
    south.line("mallory").publish(reports.to_notification(forged, overlay="north"))
    south._lines["top"].publish(
        reports.to_notification(reports.BrokerInfo("top", "kbn://mallory:1"), overlay="north")
    )
    north.run(2.0)
    assert servers["north"].unreadable == 2
    assert servers["north"].engine.mib.names("subscriber") == ["ann"]


def test_a_client_of_the_trigger_broker_that_forges_reports_moves_nobody(
    conference: Ontology,
) -> None:
    managed, serving = ManagedNetwork(TREE, conference), server(conference)
    managed.serve(serving)
    ann = managed.network.client("ann", "top")
    ann.subscribe(f"topic @= <{HERE}Paper>")
    managed.run(3.0)
    home, plan = ann.broker, plan_of(serving)
    elsewhere = next(each for each in plan.clusters if home not in each.brokers)
    mallory = managed.trigger.client("mallory", "trigger")
    forged: list[reports.Report] = [
        reports.SubscriberInfo("ann", home, elsewhere.key, 0.0, 1),
        reports.SubscriberInfo("eve", home, elsewhere.key, 0.0, 1),
        reports.NotificationReport.of("ann", home, {9: 500}, {"bob": 500}),
        reports.BrokerInfo(home, "kbn://mallory:1"),
        reports.Departure("broker", home),
    ]
    for report in forged:
        mallory.publish(reports.to_notification(report))
        managed.run(60.0)
    assert ann.broker == home and plan_of(serving) == plan
    found = serving.engine.mib.get("broker", home)
    assert found is not None and found.address == home
    assert serving.engine.mib.names("subscriber") == ["ann"]
    assert serving.unreadable == len(forged)


def test_publishers_are_told_where_to_publish_before_they_do(conference: Ontology) -> None:
    managed, serving = ManagedNetwork(TREE, conference), server(conference)
    managed.serve(serving)
    managed.run(2.0)
    assignments = plan_of(serving)
    for number, subject in enumerate(("Paper_17", "Dublin", "Keeney_John")):
        publisher = publisher_about(managed, f"p{number}", subject, at="far left")
        managed.run()
        publisher.publish({"topic": Individual(HERE + subject)})
        managed.run()
        assert publisher.broker == assignments.broker_for(HERE + subject)


def test_drift_leads_to_a_move_and_nothing_is_lost_meanwhile(conference: Ontology) -> None:
    rng = Random(7)
    managed, serving = ManagedNetwork(TREE, conference), server(conference)
    managed.serve(serving)
    ann = managed.network.client("ann", "top")
    everything = ann.subscribe("number >= 0")
    bob = managed.network.client("bob", "far right")
    homes = set()
    for number in range(200):
        bob.publish({"number": number, "topic": Individual(HERE + "Paper_17")})
        if number % 20 == 0:
            ann.subscribe(a_class(rng, conference))
        managed.run(0.5)
        homes.add(ann.broker)
    managed.run(3.0)
    had = [each.notification["number"] for each in ann.received if everything in each.subscriptions]
    assert had == list(range(200))
    assert len(homes) > 1 and is_home(ann, serving)


def test_the_overlay_works_on_without_a_policy_server_and_placement_resumes(
    conference: Ontology, tmp_path: Path
) -> None:
    managed = ManagedNetwork(TREE, conference)
    first = server(conference, mib=Mib(tmp_path / "mib.db"))
    managed.serve(first)
    ann = managed.network.client("ann", "top")
    ann.subscribe(f"topic @= <{HERE}City>")
    managed.run(3.0)
    home = ann.broker
    first.engine.mib.commit()
    managed.stop("one")
    first.engine.mib.close()
    bob = managed.network.client("bob", "top")
    bob.subscribe(f"topic @= <{HERE}Paper>")
    carol = publisher_about(managed, "carol", "Dublin", at="far right")
    carol.publish({"topic": Individual(HERE + "Dublin")})
    managed.run(5.0)
    assert len(ann.received) == 1 and (ann.broker, bob.broker) == (home, "top")
    assert carol.broker == "far right", "nobody tells her, so she publishes where she is"
    again = server(conference, mib=Mib(tmp_path / "mib.db"))
    known = again.engine.mib.get("subscriber", "ann")
    assert known is not None and known.placed_on == home
    managed.serve(again)
    managed.run(12.0)
    assert is_home(ann, again) and is_home(bob, again)
    assert carol.broker == plan_of(again).broker_for(HERE + "Dublin")
    again.engine.mib.close()


def test_of_several_policy_servers_the_first_acts_and_the_next_takes_over(
    conference: Ontology,
) -> None:
    managed = ManagedNetwork(TREE, conference)
    one, two = server(conference, "one"), server(conference, "two")
    managed.serve(two)
    managed.serve(one)
    managed.run(3.0)
    ann = managed.network.client("ann", "top")
    ann.subscribe(f"topic @= <{HERE}City>")
    managed.run(3.0)
    by = {entry.policy for entry in two.engine.log if entry.name == "ann"}
    assert one.acts(managed.now) and not two.acts(managed.now) and not by
    assert two.engine.mib.get("subscriber", "ann") is not None, "it stands by, and knows"
    managed.stop("one")
    managed.run(SILENT_S + 1.0)
    bob = managed.network.client("bob", "top")
    bob.subscribe(f"topic @= <{HERE}Paper>")
    managed.run(12.0)
    assert two.acts(managed.now) and is_home(bob, two)


MISPLACED = """
policies:
  - name: ask
    every: 5 s
    do: request-notification-reports
  - name: place
    on: SubscriberInfo
    when: overlay.clusters >= 1 && subscriber.placed_for != subscriber.medoid
    do: place-subscriber
  - name: misplaced
    on: NotificationReport
    when: subscriber.mean_hops > 1.5 && subscriber.notifications >= 5
    do: recluster
"""


def test_a_misplaced_subscriber_moves_to_where_its_notifications_come_from(
    conference: Ontology, tmp_path: Path
) -> None:
    """Its interests did not change: the source moves nobody then."""
    (tmp_path / "policies.yaml").write_text(MISPLACED)
    managed = ManagedNetwork(TREE, conference)
    serving = server(conference, policies=str(tmp_path), load_max=5.0)
    managed.serve(serving)
    managed.run(2.0)
    home = plan_of(serving).broker_for(HERE + "City")
    there = max(TREE, key=lambda name: serving.assignments.distances.hops(str(home), name))
    ann = managed.network.client("ann", "top")
    ann.subscribe(f"topic @= <{HERE}City>")
    bob = publisher_about(managed, "bob", "Paper_17", at=there)
    for _ in range(30):
        bob.publish({"topic": Individual(HERE + "Dublin")})
        managed.run(1.0)
    assert ann.broker == bob.broker
    assert [each.hops for each in ann.received][-1] == 1
    assert len(ann.received) == 30
    found = serving.engine.mib.get("subscriber", "ann")
    assert found is not None and "reassigned" in found.marks
    assert ann.moves[-1:] == [there], "and it stays"


BALANCING = """
policies:
  - name: balance
    every: 5 s
    do: {action: balance-load, load_max: 2.0}
  - name: move
    on: PlanChange
    of: subscriber
    do: place-subscriber
"""


def test_a_cluster_that_draws_too_much_gets_more_brokers(
    conference: Ontology, tmp_path: Path
) -> None:
    (tmp_path / "policies.yaml").write_text(BALANCING)
    managed = ManagedNetwork(TREE, conference)
    serving = server(conference, policies=str(tmp_path))
    managed.serve(serving)
    clients = []
    for number in range(30):
        clients.append(managed.network.client(f"s{number}", "top"))
        clients[-1].subscribe(f"topic @= <{HERE}City>")
    managed.run(15.0)
    on = serving.engine.mib.count_by("subscriber", "broker")
    assert len(plan_of(serving).brokers_for(HERE + "City")) > 1
    assert max(on.values()) <= 2.0 * 30 / len(TREE) + 1, on
    for client in clients[5:]:
        client.leave()
    main = plan_of(serving).broker_for(HERE + "City")
    elsewhere = {each.broker: each.key for each in plan_of(serving).clusters if each.broker != main}
    for number, key in enumerate(list(elsewhere.values()) * 6):
        managed.network.client(f"o{number}", "top").subscribe(f"topic @= <{key}>")
    managed.run(15.0)
    assert len(plan_of(serving).brokers_for(HERE + "City")) == 1, "and gives them back"


def test_brokers_that_are_silent_or_gone_hold_no_clusters(conference: Ontology) -> None:
    managed, serving = ManagedNetwork(TREE, conference), server(conference)
    managed.serve(serving)
    managed.run(2.0)
    assert set(plan_of(serving).brokers) == set(TREE)
    del managed._agents["far left"]
    managed.run(AWAY_AFTER_S + 40.0, step_s=10.0)
    assert set(plan_of(serving).brokers) == set(TREE) - {"far left"}


def test_clients_that_went_without_a_word_are_forgotten_in_the_end(conference: Ontology) -> None:
    managed, serving = ManagedNetwork(TREE, conference), server(conference)
    managed.serve(serving)
    publisher_about(managed, "bob", "Dublin", at="top")
    managed.run(2.0)
    assert serving.engine.mib.count("publisher") == 1
    del managed.publishers["bob"]
    managed.run(2 * FORGET_AFTER_S, step_s=20.0)
    assert serving.engine.mib.count("publisher") == 0


def test_a_subscription_that_names_no_term_moves_nobody(conference: Ontology) -> None:
    managed, serving = ManagedNetwork(TREE, conference), server(conference)
    managed.serve(serving)
    ann = managed.network.client("ann", "far left")
    ann.subscribe(Subscription.parse("price > 5"))
    managed.run(30.0)
    assert ann.broker == "far left" and not ann.moves


SCALING = """
policies:
  - name: crowded
    every: 5 s
    when: overlay.subscribers >= 10
    do: add-broker
  - name: lonely
    every: 5 s
    of: broker
    when: overlay.subscribers < 5 && broker.name == 'far right'
    do: retire-broker
  - name: move
    on: PlanChange
    of: subscriber
    do: place-subscriber
"""


def test_a_spare_broker_is_added_when_it_is_needed_and_taken_when_it_is_not(
    conference: Ontology, tmp_path: Path
) -> None:
    (tmp_path / "policies.yaml").write_text(SCALING)
    managed = ManagedNetwork(TREE, conference)
    serving = server(conference, policies=str(tmp_path))
    serving.assignments.spare.add("far right")
    managed.serve(serving)
    rng, clients = Random(3), []
    for number in range(12):
        clients.append(managed.network.client(f"s{number}", "top"))
        clients[-1].subscribe(a_class(rng, conference))
        if number == 3:
            managed.run(7.0)
            assert "far right" not in plan_of(serving).brokers
    managed.run(7.0)
    assert "far right" in plan_of(serving).brokers
    assert all(is_home(client, serving) for client in clients)
    for client in clients[2:]:
        client.leave()
    managed.run(7.0)
    assert "far right" not in plan_of(serving).brokers
    assert all(is_home(client, serving) for client in clients[:2])


REPLANNING = """
policies:
  - name: ask
    every: 5 s
    do: request-notification-reports
  - name: replan
    every: 7 s
    when: overlay.publishers >= 1
    do: {action: replan, planner: traffic}
  - name: place
    on: SubscriberInfo
    when: overlay.clusters >= 1 && subscriber.placed_for != subscriber.medoid
    do: place-subscriber
  - name: publish
    on: PublisherInfo
    when: overlay.clusters >= 1
    do: place-publisher
  - name: follow
    on: PlanChange
    of: subscriber
    do: place-subscriber
  - name: publish-there
    on: PlanChange
    of: publisher
    do: place-publisher
"""


def test_clusters_that_hear_each_other_come_together(conference: Ontology, tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(REPLANNING)
    managed = ManagedNetwork(TREE, conference)
    serving = server(conference, policies=str(tmp_path), load_max=5.0)
    managed.serve(serving)
    managed.run(2.0)
    assignments = plan_of(serving)
    ann = managed.network.client("ann", "top")
    ann.subscribe(f"about @= <{HERE}City>")
    others = [each for each in ("Paper_17", "Keeney_John", "Middleware")]
    far = max(
        others,
        key=lambda name: serving.assignments.distances.hops(
            str(assignments.broker_for(HERE + "City")), str(assignments.broker_for(HERE + name))
        ),
    )
    bob = managed.publisher("bob", "top")
    about = {"about": Individual(HERE + "Dublin"), "a": Individual(HERE + far)}
    about |= {"b": Individual(HERE + far)}
    bob.intend(about)
    managed.run(1.0)
    for _ in range(30):
        bob.publish(about)
        managed.run(1.0)
    assert ann.received[0].hops > 1
    assert ann.broker == bob.broker and ann.received[-1].hops == 1
    assert len(ann.received) == 30


def misplaced_and_crowded(
    conference: Ontology, folder: Path, *servers: PolicyServer
) -> tuple[ManagedNetwork, SimulatedClient, list[SimulatedClient]]:
    """Ann sits near her publisher, and a crowd's cluster has several brokers."""
    managed = ManagedNetwork(TREE, conference)
    for serving in servers:
        managed.serve(serving)
    managed.run(2.0)
    home = plan_of(servers[0]).broker_for(HERE + "City")
    there = max(TREE, key=lambda name: servers[0].assignments.distances.hops(str(home), name))
    ann = managed.network.client("ann", "top")
    ann.subscribe(f"topic @= <{HERE}City>")
    bob = publisher_about(managed, "bob", "Paper_17", at=there)
    crowd = [managed.network.client(f"c{number}", "top") for number in range(20)]
    for each in crowd:
        each.subscribe(f"other @= <{HERE}Person>")
    for _ in range(30):
        bob.publish({"topic": Individual(HERE + "Dublin")})
        managed.run(1.0)
    assert ann.broker == bob.broker != home
    assert len(plan_of(servers[0]).brokers_for(HERE + "Person")) > 1
    return managed, ann, crowd


ALL = MISPLACED + BALANCING.replace("policies:\n", "", 1).strip("\n").replace(
    "of: subscriber", "of: subscriber\n    when: \"!('reassigned' in subscriber.marks)\""
)


def test_who_takes_over_goes_on_from_where_the_other_was(
    conference: Ontology, tmp_path: Path
) -> None:
    (tmp_path / "policies.yaml").write_text(ALL)
    one, two = (
        server(conference, name, policies=str(tmp_path), load_max=5.0) for name in ("one", "two")
    )
    managed, ann, crowd = misplaced_and_crowded(conference, tmp_path, one, two)
    assignments, homes = plan_of(one), [each.broker for each in (ann, *crowd)]
    managed.stop("one")
    managed.run(SILENT_S + 8.0)
    assert two.acts(managed.now) and plan_of(two).clusters == assignments.clusters
    assert [each.broker for each in (ann, *crowd)] == homes


def test_so_does_one_that_is_started_again(conference: Ontology, tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(ALL)
    file = tmp_path / "mib.db"

    def serving() -> PolicyServer:
        return server(conference, "one", Mib(file), str(tmp_path), load_max=5.0)

    first = serving()
    managed, ann, crowd = misplaced_and_crowded(conference, tmp_path, first)
    assignments, homes = plan_of(first), [each.broker for each in (ann, *crowd)]
    managed.stop("one")
    first.engine.mib.commit()
    first.engine.mib.close()
    again = serving()
    managed.serve(again)
    managed.run(8.0)
    assert plan_of(again).clusters == assignments.clusters
    assert [each.broker for each in (ann, *crowd)] == homes
    again.engine.mib.close()


def test_a_plan_for_other_clusters_is_not_resumed(conference: Ontology) -> None:
    mib = Mib()
    mib.keep_text("plan", '{"brokers": ["top"], "clusters": {"ex:Tea": ["top"]}, "spare": []}')
    serving = server(conference, mib=mib)
    assert serving.assignments.plan is None
    assert any(entry.action == "resume" for entry in serving.engine.log)
