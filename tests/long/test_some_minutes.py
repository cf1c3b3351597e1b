"""A minute of what `make test-long` does for longer; what is asserted does not depend on timing."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.long import fuzz, soak


@pytest.mark.slow
def test_a_minute_of_hostile_clients_hurts_nobody(tmp_path: Path) -> None:
    seen = asyncio.run(fuzz.fuzz(tmp_path, seed=7, seconds=60))
    print(fuzz.report(*seen))
    fuzz.check(*seen[:2])


@pytest.mark.slow
def test_nothing_grows_while_clients_come_and_go_for_two_minutes(tmp_path: Path) -> None:
    with ExitStack() as stack:
        brokers = list(soak.two_brokers(tmp_path, stack))
        witness, done = asyncio.run(soak.soak(brokers, seed=7, minutes=2))
        print(soak.report(brokers, witness, done))
        soak.check(brokers, witness)
