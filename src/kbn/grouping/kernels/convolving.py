"""Sums of independent delays, rounded up (compiled; arrays only).

A distribution is at most ATOMS values, ascending, with a mass each. What is left of 1 is the chance
that the delay is longer than can be said. Whatever is rounded is rounded up: a result is never
earlier, at any probability, than the distribution it stands for.

1. `add` sums all pairs of atoms into FINE equal bins, each of which stands for its upper edge.
2. `compress` then joins neighbouring bins until ATOMS are left. Joining moves mass up to the
   highest of the joined values, which costs mass times distance. Where the density is f, atoms as
   dense as √f make the sum of these costs least: so atoms end where the sum of √(mass · distance to
   the next value) has grown by another ATOMS-th of the whole. Peaks get narrow atoms, and the tail,
   which promises are about, gets more of them than its mass would give it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.grouping.kernels.lattice import inner

ATOMS = 128
FINE = 1024
TAIL = 1e-6  # what is later than all but this is not looked at any closer: it is late


@njit(cache=True)
def add(values, masses, other_values, other_masses):
    """The sum of two independent delays, as values and masses."""
    least = values[0] + other_values[0]
    most = values[-1] + other_values[-1]
    width = (most - least) / (FINE - 1)
    if width <= 0:
        return np.full(1, most), np.full(1, masses.sum() * other_masses.sum())
    bins = np.zeros(FINE + 1)
    # A bin is the mass of (edge before, edge]; a hair less than 1 keeps exact edges in their bins.
    per_width = (1 - 1e-13) / width
    for at in range(len(values)):
        start = (values[at] - values[0]) * per_width
        mass = masses[at]
        for place in range(len(other_values)):
            spot = start + (other_values[place] - other_values[0]) * per_width
            bins[int(np.ceil(spot))] += mass * other_masses[place]
    bins[FINE - 1] += bins[FINE]
    edges = np.empty(FINE)
    kept = np.empty(FINE)
    count = 0
    total = bins.sum()
    seen = 0.0
    for place in range(FINE):
        if bins[place] > 0:
            seen += bins[place]
            edges[count] = least + place * width
            kept[count] = bins[place]
            count += 1
            if total - seen < TAIL:
                break
    return _compress(edges[:count], kept[:count], ATOMS)


@njit(cache=True)
def compress(values, masses, atoms):
    """At most so many atoms for these, rounded up; values ascend."""
    return _compress(values, masses, atoms)


@inner
def _compress(values, masses, atoms):
    count = len(values)
    if count <= atoms:
        return values.copy(), masses.copy()
    total = 0.0
    for at in range(count - 1):
        total += np.sqrt(masses[at] * (values[at + 1] - values[at]))
    if total <= 0:
        return np.full(1, values[-1]), np.full(1, masses.sum())
    share = total / (atoms - 1)
    found_values, found_masses = np.empty(atoms), np.empty(atoms)
    groups, mass, grown, end = 0, 0.0, 0.0, share
    for at in range(count - 1):
        mass += masses[at]
        grown += np.sqrt(masses[at] * (values[at + 1] - values[at]))
        if grown >= end and groups < atoms - 1:
            found_values[groups], found_masses[groups] = values[at], mass
            groups += 1
            mass = 0.0
            end = share * (np.floor(grown / share) + 1)
    found_values[groups], found_masses[groups] = values[-1], mass + masses[-1]
    return found_values[: groups + 1].copy(), found_masses[: groups + 1].copy()
