"""Brokers: what they say to each other and to clients, and what they decide."""
