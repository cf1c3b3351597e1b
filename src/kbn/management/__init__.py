"""Management: the overlay arranges itself, by its own means.

Brokers and publishers publish *reports* to a trigger broker, an ordinary broker that runs on the
management ontology. A policy server subscribes to them, keeps what it knows in the MIB, and answers
with the actions its policies call for. Nothing here opens a socket or reads a clock.
"""
