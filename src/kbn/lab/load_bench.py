"""`kbn bench load`: how quickly subscriptions become an index, and in how much memory.

The same seeded subscriptions are given in each form: as an Arrow table of constraints, as objects,
as texts, as JSON texts. Each form is loaded in a process of its own, which has made its input and
compiled its kernels before. Seconds are of CPU time, from the input to a matcher that is ready; the
collector runs as it likes.

Memory is what the system says this process holds. `index_bytes` is how much that grew from before
the load until after it, when garbage is collected and free memory is given back. `peak_bytes` is
how much it grew at its highest in between. The input is there before and after, and counts in
neither. Where the system does not say the peak, there is none.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbn.errors import InvalidInputError
from kbn.filters import value_to_json
from kbn.lab.experiment import Progress, silent
from kbn.lab.measuring import EnginesDisagreeError, cpu_timed, versions
from kbn.lab.workloads import Mixed, Mixture, Pair, Workload, workload
from kbn.matching import Matcher

if TYPE_CHECKING:
    import pyarrow as pa

WARM_SUBSCRIPTIONS = 3_000
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Settings:
    """What is loaded: a named workload, or a mixture."""

    workload: str = "u20"
    mixture: Mixture | None = None
    subscriptions: int = 200_000
    seed: int = 0
    forms: tuple[str, ...] = ("arrow", "objects", "text", "json")

    def __post_init__(self) -> None:
        if self.subscriptions < 1:
            raise InvalidInputError(f"subscriptions must be at least 1, not {self.subscriptions}")
        if self.seed < 0:
            raise InvalidInputError(f"the seed must not be negative, not {self.seed}")
        unknown = [form for form in self.forms if form not in FORMS]
        if unknown or not self.forms:
            named = f"there is no form {unknown[0]!r}" if unknown else "no form was named"
            raise InvalidInputError(f"{named}; there are {', '.join(FORMS)}")
        self.source()

    def source(self) -> Workload:
        """The workload itself."""
        if self.mixture is not None:
            return Mixed(self.mixture)
        return workload(self.workload, self.subscriptions)


@dataclass(frozen=True, slots=True)
class Loaded:
    """The figures of one form."""

    form: str
    subscriptions: int
    groups: int
    constraints: int
    cpu_s: float
    subscriptions_per_second: float
    constraints_per_second: float
    index_bytes: int | None
    peak_bytes: int | None

    @property
    def peak_ratio(self) -> float | None:
        """The peak as a multiple of what the index has in the end."""
        if not self.index_bytes or self.peak_bytes is None:
            return None
        return self.peak_bytes / self.index_bytes


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    settings: Settings
    rows: tuple[Loaded, ...]
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        rows = [{**asdict(row), "peak_ratio": row.peak_ratio} for row in self.rows]
        return {"settings": asdict(self.settings), "machine": self.machine, "rows": rows}


def run(settings: Settings, progress: Progress = silent) -> Report:
    """Load each form in a process of its own; EnginesDisagreeError if their indexes differ."""
    rows: list[Loaded] = []
    for number, form in enumerate(settings.forms):
        progress(f"loading {form}", number, len(settings.forms))
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            rows.append(process.submit(measure, settings, form).result())
    if len({row.groups for row in rows}) > 1:
        found = ", ".join(f"{row.form} {row.groups}" for row in rows)
        raise EnginesDisagreeError(f"the forms gave different numbers of filters: {found}")
    return Report(settings, tuple(rows), versions())


def measure(settings: Settings, form: str) -> Loaded:
    """Load one form in this process."""
    source = settings.source()
    made, load = FORMS[form]
    load(Matcher(source.ontology), made(_pairs(source, WARM_SUBSCRIPTIONS, settings.seed + 1)))
    given = made(_pairs(source, settings.subscriptions, settings.seed))
    constraints = sum(
        len(part.constraints)
        for chunk in source.subscriptions(settings.subscriptions, settings.seed)
        for subscription, _ in chunk
        for part in subscription.filters
    )
    matcher = Matcher(source.ontology)
    _give_memory_back()
    _forget_peak()
    before = _held("VmRSS")
    seconds, count = cpu_timed(load, matcher, given)
    peak = _growth("VmHWM", before)
    _give_memory_back()
    return Loaded(
        form=form,
        subscriptions=count,
        groups=matcher.group_count,
        constraints=constraints,
        cpu_s=seconds,
        subscriptions_per_second=count / seconds,
        constraints_per_second=constraints / seconds,
        index_bytes=_growth("VmRSS", before),
        peak_bytes=peak,
    )


# --- the forms of the input ----------------------------------------------------------------------


def _pairs(source: Workload, count: int, seed: int) -> Iterator[Pair]:
    for chunk in source.subscriptions(count, seed):
        yield from chunk


def _texts(pairs: Iterator[Pair]) -> list[tuple[str, int]]:
    return [(str(subscription), key) for subscription, key in pairs]


def _json_texts(pairs: Iterator[Pair]) -> list[tuple[str, int]]:
    import msgspec

    encode = msgspec.json.Encoder().encode
    return [(encode(subscription.to_json()).decode(), key) for subscription, key in pairs]


def _table(pairs: Iterator[Pair]) -> pa.Table:
    """The constraints in columns, each operand where its type belongs."""
    import pyarrow as pa

    names: dict[str, list[Any]] = {"attribute": [], "op": []}
    operands: dict[str, list[Any]] = {"integer": [], "number": [], "text": [], "json": []}
    starts, keys = [0], []
    for subscription, key in pairs:
        if len(subscription.filters) > 1:
            raise InvalidInputError(
                "a table of constraints holds conjunctions only: leave arrow out of --forms"
            )
        for constraint in subscription.filters[0].constraints:
            names["attribute"].append(constraint.attribute)
            names["op"].append(constraint.operator.symbol)
            place, operand = _placed(constraint.operand)
            for column, values in operands.items():
                values.append(operand if column == place else None)
        starts.append(len(names["op"]))
        keys.append(key)
    types = {"integer": pa.int64(), "number": pa.float64()}
    columns = {
        name: pa.array(values, pa.string()).dictionary_encode() for name, values in names.items()
    }
    for name, values in operands.items():
        if any(value is not None for value in values):
            columns[name] = pa.array(values, types.get(name, pa.string()))
    constraints = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    filters = pa.ListArray.from_arrays(pa.array(starts, pa.int32()), constraints)
    return pa.table({"key": pa.array(keys, pa.int64()), "filter": filters})


def _placed(operand: Any) -> tuple[str, Any]:
    kind = operand.__class__
    if kind is int and -(2**63) <= operand < 2**63:
        return "integer", operand
    if kind is float:
        return "number", operand
    if kind is str:
        return "text", operand
    import msgspec

    if operand is None:
        return "json", None
    return "json", msgspec.json.encode(value_to_json(operand)).decode()


FORMS: dict[str, tuple[Callable[[Iterator[Pair]], Any], Callable[[Matcher, Any], int]]] = {
    "arrow": (_table, Matcher.add_table),
    "objects": (list, Matcher.add_many),
    "text": (_texts, Matcher.add_many),
    "json": (_json_texts, Matcher.add_many),
}


# --- memory --------------------------------------------------------------------------------------


def _give_memory_back() -> None:
    """Collect garbage and give free memory back to the system, as far as it takes it."""
    import pyarrow as pa

    gc.collect()
    pa.default_memory_pool().release_unused()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # not glibc
        return


def _forget_peak() -> None:
    """Let the system count the peak anew from here."""
    if _CLEAR.exists():
        _CLEAR.write_text("5", encoding="ascii")


def _held(name: str) -> int | None:
    """A line of the process' status, in bytes; None where there is none."""
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None


def _growth(name: str, before: int | None) -> int | None:
    now = _held(name)
    return None if now is None or before is None else now - before
