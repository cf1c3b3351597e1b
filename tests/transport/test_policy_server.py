"""The policy server over TCP, in one event loop: brokers, publishers, policies that change."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.transport.overlay import PATIENCE_S, make_server, run, until
from tests.walks import functions, not_called_in_turn, watched

import kbn
from kbn import data
from kbn.broker.limits import ClientLimits
from kbn.broker.store import StoreError
from kbn.management import instructions, terms
from kbn.management.action_log import LogEntry
from kbn.management.assignments import Assignments
from kbn.management.engine import PolicyEngine
from kbn.management.mib import Mib
from kbn.management.observer import Observer, Placement
from kbn.management.outcomes import Effect
from kbn.management.policies import PolicySet
from kbn.management.policy_server import PolicyServer
from kbn.management.subscriber_agent import SubscriberAgent
from kbn.ontology import Individual, Ontology
from kbn.placement import SemanticMap
from kbn.transport import LinkTo
from kbn.transport.managed_processes import ManagedOverlay
from kbn.transport.managed_publisher import ManagedPublisher
from kbn.transport.managed_subscriber import ManagedSubscriber
from kbn.transport.observing import Observing
from kbn.transport.policy_server import PolicyServerShell
from kbn.transport.reporting import Reporting

HERE = data.namespace("animals")
PLACE = """
policies:
  - name: place
    on: SubscriberInfo
    when: overlay.clusters >= 1 && subscriber.placed_for != subscriber.medoid
    do: place-subscriber
  - name: publish
    on: PublisherInfo
    do: place-publisher
"""


@pytest.fixture(scope="module")
def semantic_map() -> SemanticMap:
    return SemanticMap(Ontology.load(data.path("animals")))


@asynccontextmanager
async def managed(semantic_map: SemanticMap, folder: Path) -> AsyncIterator[Any]:
    """Two brokers, a trigger broker, and a policy server that knows both."""
    ontology = semantic_map.ontology
    on_it: dict[str, Any] = {
        "routing": "hierarchical", "ontology": ontology, "ontology_digest": ontology.digest,
    }  # fmt: skip
    file = folder / "policies.yaml"
    file.write_text(PLACE)
    engine = PolicyEngine(Mib(folder / "mib.db"), PolicySet.load(file))
    server = PolicyServer("boss", engine, Assignments(ontology))
    told: list[LogEntry] = []
    async with make_server("trigger", ontology=terms.ontology()) as trigger:
        root = make_server("root", **on_it)
        Reporting(root, trigger.url)
        async with root:
            east = make_server("east", links=(LinkTo(root.url, "parent"),), **on_it)
            Reporting(east, trigger.url)
            async with east:
                shell = PolicyServerShell(server, trigger.url, policies=[file], tell=told.append)
                running = asyncio.ensure_future(shell.run())
                # Not as soon as there are clusters: they may be laid out for the first broker
                # alone, and again when the other is heard of.
                await until(lambda: _brokers_in_plan(server) == {"root", "east"})
                yield SimpleNamespace(
                    trigger=trigger, root=root, east=east, server=server, told=told, file=file,
                    map=semantic_map, running=running,
                )  # fmt: skip
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


def _brokers_in_plan(server: PolicyServer) -> set[str]:
    plan = server.assignments.plan
    return set() if plan is None else set(plan.brokers)


def write(file: Path, text: str) -> None:
    """Change a file, and so that it shows: two changes may come in one tick of its clock."""
    file.write_text(text)
    os.utime(file, ns=(0, file.stat().st_mtime_ns + 1_000_000_000))


def test_clients_go_where_they_belong(semantic_map: SemanticMap, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with managed(semantic_map, tmp_path) as here:
            assignments = here.server.assignments.plan
            at = {"root": here.root.url, "east": here.east.url}
            for term in ("Cats", "Dogs"):
                home = assignments.broker_for(HERE + term)
                away = next(url for name, url in at.items() if name != home)
                async with kbn.connect(away, name=term) as client:
                    await client.subscribe(f"pet @= <{HERE}{term}>")
                    await until(lambda: client.broker == home and not client.is_moving)  # noqa: B023
                    async with ManagedPublisher(
                        here.trigger.url, here.map, url=away, wait_s=PATIENCE_S
                    ) as publisher:
                        await publisher.publish({"pet": Individual(HERE + "Gus")})
                        assert publisher.broker == assignments.broker_for(HERE + "Gus")
                        known = here.server.engine.mib.get("publisher", publisher.name)
                        assert known is not None and known.medoid == HERE + "Gus"
            await until(lambda: here.server.engine.mib.count("subscriber") == 0)
            await until(lambda: here.server.engine.mib.count("publisher") == 0)
        placed = [entry for entry in here.told if entry.action == "place-subscriber"]
        assert placed and {entry.policy for entry in placed} == {"place"}

    with watched() as calls:
        run(scenario())
    assert not_called_in_turn(functions("A placement"), calls) is None


def test_a_bad_file_is_refused_and_the_old_policies_stay_in_force(
    semantic_map: SemanticMap, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with managed(semantic_map, tmp_path) as here:
            write(here.file, PLACE.replace("subscriber.placed_for", "subscriber.placed_four"))
            await until(lambda: any(entry.action == "reload" for entry in here.told))
            [refused] = [entry for entry in here.told if entry.action == "reload"]
            assert "policies.yaml:5:" in refused.detail and "placed_for" in refused.detail
            home = here.server.assignments.plan.broker_for(HERE + "Cats")
            away = here.east if home == "root" else here.root
            async with kbn.connect(away.url) as client:
                await client.subscribe(f"pet @= <{HERE}Cats>")
                await until(lambda: client.broker == home)
            write(here.file, PLACE.replace("name: place", "name: put"))
            await until(lambda: len(here.server.engine.policies) == 2 and _is_named(here, "put"))

    run(scenario())


def _is_named(here: Any, name: str) -> bool:
    return any(policy.name == name for policy in here.server.engine.policies)


def test_a_publisher_whom_nobody_tells_anything_publishes_where_it_knows_a_broker(
    semantic_map: SemanticMap,
) -> None:
    async def scenario() -> None:
        async with make_server("b") as broker, kbn.connect(broker.url) as reader:
            feed = await reader.subscribe("number any")
            nobody = "kbn://127.0.0.1:1"
            async with ManagedPublisher(
                nobody, semantic_map, url=broker.url, wait_s=0.2, timeout=PATIENCE_S
            ) as publisher:
                await publisher.publish({"number": 1})
                assert publisher.broker == "b"
            assert (await anext(feed))["number"] == 1

    run(scenario())


def test_what_is_no_report_is_told_and_stops_nothing(
    semantic_map: SemanticMap, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with managed(semantic_map, tmp_path) as here:
            async with kbn.connect(here.trigger.url) as stranger:
                broken = {"message": terms.type_of("subscriber_info"), "overlayId": "main"}
                await stranger.publish(broken)
            await until(lambda: here.server.unreadable == 1)
            async with kbn.connect(here.root.url, name="ann") as client:
                await client.subscribe("price > 3")
                mib = here.server.engine.mib
                await until(lambda: mib.get("subscriber", "ann") is not None)

    run(scenario())


MOVING = """
policies:
  - name: closer
    on: BrokerInfo
    when: broker.name == 'far' && broker.parent == 'root'
    do: {action: move-broker, to: east}
"""


def test_a_policy_moves_a_broker_with_its_clients(
    semantic_map: SemanticMap, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with managed(semantic_map, tmp_path) as here:
            ontology = here.map.ontology
            far = make_server(
                "far",
                links=(LinkTo(here.root.url, "parent"),),
                routing="hierarchical",
                ontology=ontology,
                ontology_digest=ontology.digest,
            )
            Reporting(far, here.trigger.url)
            write(here.file, MOVING)
            await until(lambda: _is_named(here, "closer"))
            async with far, kbn.connect(far.url) as ann, kbn.connect(here.root.url) as bob:
                feed = await ann.subscribe("number any")
                mib = here.server.engine.mib
                await until(lambda: mib.get("broker", "far") is not None)
                await until(lambda: mib.get("broker", "far").parent == "east")
                await feed.in_force()
                await bob.publish({"number": 1})
                assert (await anext(feed))["number"] == 1

    run(scenario())


CLUSTER = """
policies:
  - {name: hops, every: 1 s, do: request-notification-reports}
  - {name: cluster, every: 1 s, when: overlay.brokers >= 3, do: cluster-brokers}
"""


def test_a_broker_goes_where_the_partners_of_its_clients_are_and_nothing_is_lost(
    semantic_map: SemanticMap, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with managed(semantic_map, tmp_path) as here:
            ontology = here.map.ontology
            far = make_server(
                "far",
                links=(LinkTo(here.root.url, "parent"),),
                routing="hierarchical",
                ontology=ontology,
                ontology_digest=ontology.digest,
            )
            Reporting(far, here.trigger.url)
            write(here.file, CLUSTER)
            await until(lambda: _is_named(here, "cluster"))
            async with (
                far,
                ManagedPublisher(
                    here.trigger.url, here.map, url=here.east.url, wait_s=0.1, timeout=PATIENCE_S
                ) as publisher,
                kbn.connect(far.url, name="ann") as ann,
            ):
                feed = await ann.subscribe("number any")
                await feed.in_force()
                mib, sent, got = here.server.engine.mib, 0, []
                deliveries = feed.deliveries()
                while not got or got[-1].hops > 2:
                    await publisher.publish({"pet": Individual(HERE + "Gus"), "number": sent})
                    sent += 1
                    got.append(await anext(deliveries))
                    await asyncio.sleep(0.01)
                assert [each.notification["number"] for each in got] == list(range(sent))
                assert got[0].hops == 3 and (ann.broker, publisher.broker) == ("far", "east")
                await until(lambda: mib.get("broker", "far").parent == "east")

    run(scenario())


def test_a_report_that_is_refused_takes_no_others_with_it(
    semantic_map: SemanticMap,
) -> None:
    async def scenario() -> None:
        small = ClientLimits(content_bytes=400)
        async with make_server(
            "trigger", ontology=terms.ontology(), broker_limits=small
        ) as trigger:
            root = make_server("root")
            Reporting(root, trigger.url)
            async with root, kbn.connect(trigger.url) as reader:
                feed = await reader.subscribe(instructions.of_type("SubscriberInfo"))
                async with kbn.connect(root.url, name="long" * 64) as long:
                    await long.subscribe("price > 3")
                    await until(lambda: trigger.broker.counts["refused"] == 1)
                    async with kbn.connect(root.url, name="ann") as ann:
                        await ann.subscribe("price > 3")
                        assert (await anext(feed))["subscriberId"] == "ann"

    run(scenario())


def test_a_publisher_ends_also_when_its_trigger_broker_is_away(semantic_map: SemanticMap) -> None:
    async def scenario() -> None:
        async with make_server("b") as broker:
            async with make_server("trigger", ontology=terms.ontology()) as trigger:
                publisher = ManagedPublisher(
                    trigger.url,
                    semantic_map,
                    url=broker.url,
                    name="bob",
                    wait_s=0.1,
                    timeout=PATIENCE_S,
                )
                await publisher.__aenter__()
                await publisher.publish({"number": 1})
                await until(lambda: bool(trigger.broker.clients["bob"].subscriptions))
            await publisher.__aexit__(None, None, None)

    run(scenario())


def test_several_may_publish_at_once_from_the_beginning(semantic_map: SemanticMap) -> None:
    async def scenario() -> None:
        async with make_server("b") as broker, kbn.connect(broker.url) as reader:
            feed = await reader.subscribe("number any")
            async with ManagedPublisher(
                "kbn://127.0.0.1:1", semantic_map, url=broker.url, wait_s=0.1, timeout=PATIENCE_S
            ) as publisher:
                await asyncio.gather(*(publisher.publish({"number": n}) for n in range(5)))
                assert [(await anext(feed))["number"] for _ in range(5)] == list(range(5))
            await until(lambda: len(broker.broker.clients) == 1)

    run(scenario())


class _Counting(PolicyServer):
    """Counts how often it asked everybody who they are."""

    asked = 0

    def connected(self, now: float) -> list[Effect]:
        self.asked += 1
        return super().connected(now)


def test_when_the_trigger_broker_is_back_everybody_is_asked_who_they_are(
    semantic_map: SemanticMap,
) -> None:
    async def scenario() -> None:
        server = _Counting("boss", PolicyEngine(Mib()), Assignments(semantic_map.ontology))
        async with make_server("trigger", ontology=terms.ontology()) as trigger:
            port = trigger.address.port
            shell = PolicyServerShell(server, trigger.url)
            running = asyncio.ensure_future(shell.run())
            await until(lambda: server.asked == 1)
        await until(lambda: shell._greeted is None)
        async with make_server("trigger", ontology=terms.ontology(), port=port):
            await until(lambda: server.asked == 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run(scenario())


def test_a_mib_that_cannot_be_written_stops_nothing(
    semantic_map: SemanticMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with managed(semantic_map, tmp_path) as here:
            mib, commit, failures = here.server.engine.mib, Mib.commit, []

            def full(self: Mib) -> int:
                failures.append(self.changed)
                raise StoreError("the disk is full", path="mib.db")

            monkeypatch.setattr(Mib, "commit", full)
            await until(lambda: bool(failures))
            monkeypatch.setattr(Mib, "commit", commit)
            async with kbn.connect(here.root.url, name="ann") as client:
                await client.subscribe("price > 3")
                await until(lambda: mib.get("subscriber", "ann") is not None)
            assert not here.running.done()

    run(scenario())


def test_a_companion_is_read_on_after_a_very_long_line_and_its_end_is_told() -> None:
    async def scenario() -> None:
        said: list[str] = []
        reader = asyncio.StreamReader(limit=100)
        reader.feed_data(b"x" * 1000 + b"\nand then\n")
        reader.feed_eof()

        async def wait() -> int:
            return 3

        class Bare(ManagedOverlay):
            def __init__(self) -> None:
                self._says = lambda name, line: said.append(f"{name} {line}")
                self._is_ending = False

        process: Any = SimpleNamespace(stdout=reader, stderr=None, wait=wait)
        await Bare()._pass_on("population", process)
        assert said[-2:] == ["population and then", "population has ended: exit code 3"]

    run(scenario())


def test_an_observer_knows_all_placements_although_the_policy_server_dies(
    semantic_map: SemanticMap, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with managed(semantic_map, tmp_path) as here:
            observer, news = Observer(), []
            observing = Observing(observer, here.trigger.url)

            async def follow() -> None:
                async for _, told in observing.news():
                    news.append(told)

            following = asyncio.ensure_future(follow())
            await until(lambda: "observer" in " ".join(here.trigger.broker.clients))
            async with AsyncExitStack() as stack:
                await _come(stack, here, "ann", "Cats")
                await until(lambda: _placed(observer, "ann") == _known(here.server, "ann"))
                here.running.cancel()
                await asyncio.gather(here.running, return_exceptions=True)
                await _come(stack, here, "bob", "Dogs")
                engine = PolicyEngine(Mib(), PolicySet.shipped())
                server = PolicyServer("heir", engine, Assignments(semantic_map.ontology))
                shell = PolicyServerShell(server, here.trigger.url)
                running = asyncio.ensure_future(shell.run())
                for name in ("ann", "bob"):
                    await until(lambda: _placed(observer, name) == _known(server, name))  # noqa: B023
                assert observer.plan == server.assignments.text()
                assert any(getattr(each, "policy", "") == "place" for each in news)
                for task in (running, following):
                    task.cancel()
                await asyncio.gather(running, following, return_exceptions=True)

    run(scenario())


async def _come(stack: AsyncExitStack, here: Any, name: str, term: str) -> None:
    client = await stack.enter_async_context(kbn.connect(here.root.url, name=name))
    await client.subscribe(f"pet @= <{HERE}{term}>")


def _placed(observer: Observer, name: str) -> tuple[str, str]:
    found = observer.placements.get(("subscriber", name), Placement())
    return found.at, found.told


def _known(server: PolicyServer, name: str) -> tuple[str, str] | None:
    found = server.engine.mib.get("subscriber", name)
    is_there = found is not None and found.placed_on and found.broker == found.placed_on
    return (found.broker, found.placed_on) if is_there else None


def test_of_two_trigger_brokers_one_is_killed_and_the_overlay_is_managed_on(
    semantic_map: SemanticMap, tmp_path: Path
) -> None:
    async def scenario() -> None:
        ontology = semantic_map.ontology
        on_it: dict[str, Any] = {
            "routing": "hierarchical", "ontology": ontology, "ontology_digest": ontology.digest,
        }  # fmt: skip
        (tmp_path / "policies.yaml").write_text(PLACE)
        engine = PolicyEngine(Mib(), PolicySet.load(tmp_path / "policies.yaml"))
        server = PolicyServer("boss", engine, Assignments(ontology))
        async with AsyncExitStack() as stack:
            first = make_server("trigger-1", ontology=terms.ontology())
            await first.__aenter__()
            second = make_server(
                "trigger-2", links=(LinkTo(first.url, "peer"),), ontology=terms.ontology()
            )
            await stack.enter_async_context(second)
            both = [first.url, second.url]
            root = make_server("root", **on_it)
            Reporting(root, both)
            await stack.enter_async_context(root)
            east = make_server("east", links=(LinkTo(root.url, "parent"),), **on_it)
            Reporting(east, both[::-1])
            await stack.enter_async_context(east)
            shell = PolicyServerShell(server, both)
            running = asyncio.ensure_future(shell.run())
            await until(lambda: _brokers_in_plan(server) == {"root", "east"})
            here = SimpleNamespace(root=root)
            await _come(stack, here, "ann", "Cats")
            await until(lambda: _known(server, "ann") is not None)
            await first.__aexit__(None, None, None)
            await _come(stack, here, "bob", "Dogs")
            await until(lambda: _known(server, "bob") is not None)
            # Who comes when the first is dead finds the second.
            async with ManagedPublisher(
                both, semantic_map, url=root.url, wait_s=PATIENCE_S
            ) as publisher:
                await publisher.publish({"pet": Individual(HERE + "Gus")})
                assert server.assignments.plan is not None
                assert publisher.broker == server.assignments.plan.broker_for(HERE + "Gus")
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run(scenario())


ASKS = (
    PLACE.split("  - name: place")[0]
    + """
  - name: asks
    on: MisplacedReport
    when: subscriber.mean_hops > 1.5 && subscriber.notifications >= 3
    do: recluster
  - name: publish
    on: PublisherInfo
    do: place-publisher
"""
)


def test_a_subscriber_that_counts_its_hops_asks_to_be_moved(
    semantic_map: SemanticMap, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with managed(semantic_map, tmp_path) as here:
            write(here.file, ASKS)
            await until(lambda: _is_named(here, "asks"))
            home = here.server.assignments.plan.broker_for(HERE + "Gus")
            away = here.east if home == "root" else here.root
            agent = SubscriberAgent("ann", notifications_min=3, ask_every_s=0.0)
            async with (
                ManagedPublisher(
                    here.trigger.url, here.map, url=away.url, wait_s=PATIENCE_S
                ) as publisher,
                kbn.connect(away.url, name="ann") as ann,
                ManagedSubscriber(ann, here.trigger.url, agent=agent) as subscriber,
            ):
                feed = await ann.subscribe("number any")
                await feed.in_force()
                coming = subscriber.deliveries(feed)
                for number in range(5):
                    await publisher.publish({"pet": Individual(HERE + "Gus"), "number": number})
                    assert (await anext(coming)).notification["number"] == number
                assert publisher.broker == home
                await until(lambda: ann.broker == home and not ann.is_moving)
                await publisher.publish({"pet": Individual(HERE + "Gus"), "number": 5})
                last = await anext(coming)
                assert (last.notification["number"], last.hops) == (5, 1)

    run(scenario())
