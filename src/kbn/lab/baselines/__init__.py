"""Baselines: what others did, for comparison; used by experiments only."""
