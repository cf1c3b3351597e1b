"""`kbn demo --quick`: an ontology, five subscriptions, six notifications, who got what and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import typer

from kbn.cli.output import print_json, print_table, remark_on_compiling

if TYPE_CHECKING:
    from kbn.filters import Notification
    from kbn.ontology import Ontology

SUBSCRIPTIONS = {
    "ann": "category #>/@> {podcast:Technology}",
    "bob": 'category #>/@> {podcast:ScienceAndMedicine} and keywords #> {"python"}',
    "cyd": 'duration <= 1200 and language >* "en"',
    "dee": 'category #>/@> {podcast:Education} or title * "history"',
    "eve": "category #>/@> {podcast:Technology, podcast:Education}",
}

# title, categories, keywords, seconds, language
EPISODES = [
    ("Release radar", ["Podcasting", "TechNews"], ["python", "audio"], 1500, "en-IE"),
    ("Proteins by night", ["Medicine", "SoftwareHowTo"], ["python", "biology"], 2400, "en"),
    ("Ten minutes of Irish", ["LanguageCourses"], ["gaeilge"], 600, "ga"),
    ("A history of the pixel", ["EducationTechnology", "Gadgets"], ["art"], 1100, "en-GB"),
    ("Kitchen sink physics", ["NaturalSciences", "K12"], ["physics"], 900, "en"),
    ("An hour of silence", ["Spirituality"], ["calm"], 3600, "la"),
]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One notification, and why each of those who got it did."""

    notification: str
    categories: list[str]
    delivered_to: dict[str, list[str]]


def quick_demo(as_json: bool) -> None:
    """Publish a few episodes to five subscribers, print who gets them, and say why."""
    from kbn.data import path
    from kbn.ontology import Ontology

    ontology = Ontology.load(path("podcast"))
    remark_on_compiling()
    delivered = deliveries(ontology)
    if as_json:
        print_json(
            {"subscriptions": SUBSCRIPTIONS, "deliveries": [asdict(each) for each in delivered]}
        )
        return
    typer.echo(f"An ontology of {len(ontology.classes)} podcast categories, two levels deep.\n")
    print_table(SUBSCRIPTIONS.items(), columns=["subscriber", "wants"])
    typer.echo()
    print_table(_rows(delivered), columns=["notification", "category", "goes to", "because"])


def deliveries(ontology: Ontology) -> list[Delivery]:
    """Publish every episode in turn; who gets it, and why."""
    from kbn.filters import Subscription, explain
    from kbn.matching import Matcher

    wanted = {
        key: Subscription.parse(text, prefixes=ontology.prefixes, ontology=ontology)
        for key, text in SUBSCRIPTIONS.items()
    }
    matcher = Matcher(ontology)
    for key, subscription in wanted.items():
        matcher.add(subscription, key)
    delivered = []
    for episode in EPISODES:
        notification = _notification(*episode)
        keys = sorted(str(key) for key in matcher.match(notification))
        because = {key: explain(wanted[key], notification, ontology).reasons for key in keys}
        delivered.append(Delivery(episode[0], episode[1], because))
    return delivered


def _notification(
    title: str, categories: list[str], keywords: list[str], duration: int, language: str
) -> Notification:
    from kbn.data import namespace
    from kbn.filters import Bag, Notification
    from kbn.ontology import Class

    return Notification(
        {
            "title": title,
            "category": Bag(*(Class(namespace("podcast") + name) for name in categories)),
            "keywords": Bag(*keywords),
            "duration": duration,
            "language": language,
        }
    )


def _rows(delivered: list[Delivery]) -> list[tuple[str, str, str, str]]:
    """One row per receiver; what they share stands only in the first."""
    rows = []
    for each in delivered:
        name, categories = each.notification, ", ".join(each.categories)
        for key, because in each.delivered_to.items() or [("nobody", [])]:
            rows.append((name, categories, key, "; ".join(because)))
            name = categories = ""
    return rows
