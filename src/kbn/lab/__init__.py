"""The lab: experiments and benchmarks, the workloads they run on, and the demo's story.

An experiment asks a question of a paper and answers it with tables beside the paper's own:
`experiment` says what one is, finds those in `kbn.lab.experiments` and runs them; `report` keeps
results in a folder and makes one page of them. A benchmark is a module with `Settings`, `Report`
and `run`: `match_bench`, `match_grid` and `load_bench` here, others in `kbn.lab.overlay` and
`kbn.lab.spark`. The product needs nothing of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.lab import cover_bench, demo, experiment, load_bench, match_bench, match_grid, report
    from kbn.lab.experiment import Experiment, Result, Table, conduct
    from kbn.lab.podcast_day import PodcastDay
    from kbn.lab.scale import Scale
    from kbn.lab.workloads import FromFiles, Mixed, Mixture, Workload, workload

__all__ = [
    "Experiment",
    "FromFiles",
    "Mixed",
    "Mixture",
    "PodcastDay",
    "Result",
    "Scale",
    "Table",
    "Workload",
    "conduct",
    "cover_bench",
    "demo",
    "experiment",
    "load_bench",
    "match_bench",
    "match_grid",
    "report",
    "workload",
]

__getattr__ = on_first_use(
    __name__,
    {
        "Experiment": "kbn.lab.experiment",
        "FromFiles": "kbn.lab.workloads",
        "Mixed": "kbn.lab.workloads",
        "Mixture": "kbn.lab.workloads",
        "PodcastDay": "kbn.lab.podcast_day",
        "Result": "kbn.lab.experiment",
        "Scale": "kbn.lab.scale",
        "Table": "kbn.lab.experiment",
        "Workload": "kbn.lab.workloads",
        "conduct": "kbn.lab.experiment",
        "workload": "kbn.lab.workloads",
    },
)
