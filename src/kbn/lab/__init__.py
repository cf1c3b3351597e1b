"""Experiments: a workload, a run, tables, plots, and the source's figures beside ours.

`experiment.py` says what an experiment is and finds the ones in `kbn.lab.experiments`, `report.py`
keeps results in a folder and makes one page of them, `plots.py` draws.
"""
