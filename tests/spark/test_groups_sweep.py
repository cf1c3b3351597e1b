"""A sweep over settings on Spark gives what running them one by one gives."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from kbn import InvalidInputError
from kbn.lab.experiments import publisher_groups
from kbn.lab.publishers import Setting, facts, grown
from kbn.lab.spark.sweep import SweepError, sweep

LIMITED = Setting("3", 60, connections=(11, 15))
SETTINGS = [
    Setting("1", 60),
    Setting("2", 60, 5, (2, 3)),
    LIMITED,
    LIMITED.by("3", "random"),
    LIMITED.by("3.1", "random"),
    LIMITED.by("4"),
]


def test_a_sweep_gives_what_one_by_one_gives_in_the_same_order(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    found = sweep(
        SETTINGS, [1, 2], spark=spark, progress=lambda _, done, of: told.append((done, of))
    ).to_pylist()
    expected = [
        {"setting": setting.label, "seed": seed, **facts(grown(setting, seed))}
        for setting in SETTINGS
        for seed in (1, 2)
    ]
    assert [{name: row[name] for name in expected[0]} for row in found] == expected
    assert told == sorted(told) and told[-1] == (12, 12)


def test_a_setting_that_cannot_be_run_is_named(spark: SparkSession) -> None:
    # More attributes than there are to draw from.
    wrong = Setting("1", 10, omega=3, attributes=(4, 4))
    with pytest.raises(SweepError, match=r"1 of 2 runs failed.*4-4 of 3, seed 7") as error:
        sweep([SETTINGS[0], wrong], [7], spark=spark)
    assert (error.value.setting, error.value.seed) == (wrong.label, 7)


def test_the_means_of_the_experiment_are_the_same_on_spark(spark: SparkSession) -> None:
    parameters = {"limited": 30, "seeds": 1}
    told: list[tuple[int, int]] = []

    def progress(what: str, done: int, of: int) -> None:
        told.append((done, of))

    alone = publisher_groups._means(parameters, 3, progress, 0, 1)
    steps = len(told)
    spread = publisher_groups._means(parameters | {"cores": 2}, 3, progress, 0, 1, spark)
    assert spread == alone
    assert told[steps:] == sorted(told[steps:]) and told[-1] == (1, 1)


def test_a_sweep_over_nothing_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInputError, match="a setting and a seed"):
        sweep([], [1], spark=spark)
