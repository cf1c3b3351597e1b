"""A broker that listens compiles nothing more: nobody would be served meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys

# In a process of its own: here, other tests have run kernels before.
SCRIPT = """
import json, pkgutil
from importlib import import_module
from random import Random

from kbn.broker.announcements import Announcements
from kbn.broker.messages import Peer
from kbn.broker.routing_table import RoutingTable
from kbn.broker.warming import warm_up
from kbn.filters import Bag, Notification, Subscription, operator_accepts, read_operator
from kbn.filters import kernels as bag_kernels
from kbn.matching import kernels
from kbn import data
from kbn.ontology import Ontology
from kbn.simulation import Network


def compiled():
    found = {}
    for folder in (kernels, bag_kernels):
        for module in pkgutil.iter_modules(folder.__path__, folder.__name__ + "."):
            for name, value in vars(import_module(module.name)).items():
                if hasattr(value, "signatures"):
                    found[f"{value.__module__}.{name}"] = len(value.signatures)
    return found


warm_up()
before = compiled()
ontology = Ontology.load(data.path("podcast"))
rng = Random(7)
CATEGORIES = [f"podcast:{each}" for each in ("Arts", "Design", "Food", "Technology", "Music")]
OPERATORS = ("#>/@>", "#</@>", "#=/@>", "#>/@<", "!#>/@>", "#>", "#<", "#=", "!#>", "!#=")
TEXTS = ("#>/*", "#</*", "#=/*", "#>/>*", "#>/!=", "!#>/*", "#>", "#<", "#=")


def constraint():
    kind = rng.randrange(9)
    low = rng.randrange(1000)
    bag = ", ".join(rng.sample(CATEGORIES, rng.randrange(1, 4)))
    tags = ", ".join(f"'t{rng.randrange(20)}'" for _ in range(rng.randrange(1, 4)))
    return (
        f"category {rng.choice(OPERATORS)} {{{bag}}}",
        f"tags {rng.choice(TEXTS)} {{{tags}}}",
        f"n > {low}",
        f"n > {low} and n < {low + 50}",
        f"size {rng.choice(('=', '<', '>=', '!='))} {low}",
        f"title {rng.choice(('*', '>*', '=', '!='))} '{low}'",
        f"kind = 'k{low % 10}'",
        "size any",
        f"numbers {rng.choice(('#>/<', '#</>', '#>', '#=/<'))} {{{low}, {low + 5}}}",
    )[kind]


def subscription():
    parts = " and ".join(constraint() for _ in range(rng.randrange(1, 4)))
    return Subscription.parse(parts, ontology=ontology)


def notification():
    terms = [ontology.term(each) for each in rng.sample(CATEGORIES, 2)]
    content = {
        "category": terms, "tags": [f"t{rng.randrange(20)}" for _ in range(4)],
        "n": rng.randrange(1000), "size": rng.randrange(1000) / 2, "title": "episode 7",
        "kind": f"k{rng.randrange(10)}", "numbers": [rng.randrange(1000) for _ in range(5)],
    }
    return Notification({name: content[name] for name in rng.sample(sorted(content), 5)})


table, told = RoutingTable(ontology), Announcements(ontology)
for number in range(3000):
    key = (Peer("client", "c"), number)
    wanted = subscription()
    table.add(key, wanted)
    list(told.adding(key, wanted))
    if number % 3 == 0:
        gone = (Peer("client", "c"), number // 2)
        table.remove(gone)
        list(told.removing(gone))
    if number % 50 == 0:
        table.match(notification())
        table.match_many([notification() for _ in range(40)])

net = Network({"east": None, "west": "east"}, ontology)
ann, bob = net.client("ann", at="east"), net.client("bob", at="west")
for number in range(200):
    asked = ann.subscribe(subscription())
    if number % 5 == 0:
        ann.unsubscribe(asked)
    if number % 10 == 0:
        bob.publish(dict(notification()))
    net.run()


def large(make):
    # Very many of a kind come, are matched, and go.
    table = RoutingTable()
    keys = [(Peer("client", "c"), number) for number in range(2500)]
    for number, key in enumerate(keys):
        table.add(key, Subscription.parse(make(number)))
    content = Notification({"k": 3, "a": 5, "b": 3, "c": 4.0, "l": "p4", "m": "y"})
    table.match(content)
    table.match_many([content] * 64)
    for key in keys:
        table.remove(key)


large(lambda n: f"k = {n}")
large(lambda n: f"a > {n % 977} and b < {n % 1009} and c > {n / 7} and c < {n / 7 + 5}")
large(lambda n: f"a > {n} and k = {n % 9}" if n % 2 else f"c < {n} and b > {n % 11}")
large(lambda n: f"k = 'text{n}' and l >* 'p{n % 500}' and m != 'x{n}'")
large(lambda n: " or ".join(f"k{m} = {n} and l{m} < {n}" for m in range(4)))


def nested(values):
    return Bag(*(Bag(*rng.choices(values, k=rng.randrange(5))) for _ in range(25)))


texts = ["", "a", "ab", "ta", "tea", "\u00e9t\u00e9"]
terms = [ontology.term(each) for each in CATEGORIES]
for element in ("*", ">*", "*<", "*>", "!=", "!*", "any", "@>", "@<", "!@>", "@~", "@!~"):
    for inner in ("#=", "#<", "#>", "!#=", "!#<", "!#>"):
        operator = read_operator(f"#=/{inner}/{element}")
        for values in (texts, terms, [*texts, *terms, 1, True]):
            operator_accepts(operator, nested(values), nested(values), ontology)
after = compiled()
print(json.dumps({name: [before.get(name, 0), count] for name, count in after.items()
                  if count != before.get(name, 0)}))
"""


def test_after_warming_up_nothing_is_compiled() -> None:
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=600
    )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout.splitlines()[-1]) == {}
