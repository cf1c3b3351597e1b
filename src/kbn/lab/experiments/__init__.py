"""One module per experiment. `operator_cost.py` holds `operator-cost` in its `EXPERIMENT`.

A module here is imported to list what there is, so it imports what is heavy inside its functions.
"""
