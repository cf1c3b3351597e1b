"""Measurements of brokers as real processes over TCP."""
