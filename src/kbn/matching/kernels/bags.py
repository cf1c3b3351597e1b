"""Kernels of bags: composite constraints and sub-bags (compiled by Numba; arrays only).

A bag's elements are known by the tokens each hits: the token of `#>/λ {q}` is hit by the elements p
with p λ q. So a token has a *mask*, a bit for each place in the bag whose element hits it, and each
question about whole bags is one about masks:

* `#>/λ Q`: each want q in Q has a place of its own, out of its mask;
* `#=/λ Q`: the same, and the bags are of one size;
* `#</λ Q`: each place is the own place of some want: as many wants as there are places have one;
* under an order λ sorting decides, without masks: whoever is hardest to serve takes the best.

Distinct places are a bipartite matching, with first come, first served tried before anybody moves.
Places are the 64 bits of a word; who has a larger bag must ask elsewhere.

Sub-bags are found, not only decided (`sub_bags.py` says what is kept of them). A bag that fits into
Q has a want of Q for each of its elements. So Q is among the postings of the wants that its rarest
element hits; or, where these are many, its bit is set for each element in one of the rows of the
wants which that element hits: those rows are ORed, and what the elements yield is ANDed, 512
sub-bags at a time until none is left. Those found either way are matched.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from kbn.matching.kernels.code import grown, negative_count, residual_count, token_count
from kbn.matching.kernels.views import Elements, Partners, Rules, SubBagArrays, TokenMasks

PLACES_MAX = 64

# A rule's kind, and under which order its elements are (0: none).
ELSEWHERE, SUPER, EQUAL, SUB = 0, 1, 2, 3
LESS, AT_MOST, MORE, AT_LEAST = 1, 2, 3, 4

# Rows of bits for the sub-bags that have some want: so many words at a time.
ROW_WORDS = 8
ROW_BITS = 64 * ROW_WORDS
LISTED_SHARE = 256
"""Postings are listed where they are at most one in so many sub-bags, else rows are looked at."""

# What becomes of a candidate.
REFUTED, OPEN = 1, 0

_ONE = np.uint64(1)
_NONE = np.uint64(0)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_PLACES = np.zeros(64, np.int64)
for _i in range(64):
    _PLACES[(int(_DE_BRUIJN) << _i & 0xFFFFFFFFFFFFFFFF) >> 58] = _i


@njit(cache=True)
def _place_of(bit):
    return _PLACES[(bit * _DE_BRUIJN) >> np.uint64(58)]


@njit(cache=True)
def _first_places(count):
    """The mask of so many places."""
    return ~_NONE if count >= 64 else (_ONE << np.uint64(count)) - _ONE


@njit(cache=True)
def _size_of(row, elements):
    """How many elements the row's bag has; -1 if there is no bag."""
    if not elements.present[row]:
        return -1
    size = 0
    for i in range(elements.offsets[row], elements.offsets[row + 1]):
        size += elements.valid[i]
    return size


# Arrays are taken out of their tuples before a loop: inside, their references would be counted.
@njit(cache=True)
def _mark_places(row, elements, marks):
    """Give every token that an element of the row hits its mask."""
    marks.clock[0] += 1
    now, at, mask = marks.clock[0], marks.at, marks.mask
    indices, valid, tokens = elements.indices, elements.valid, elements.tokens
    token_start, token_end = elements.token_start, elements.token_end
    bit = _ONE
    for i in range(elements.offsets[row], elements.offsets[row + 1]):
        if not valid[i]:
            continue
        value = indices[i]
        for k in range(token_start[value], token_end[value]):
            token = tokens[k]
            if at[token] != now:
                at[token] = now
                mask[token] = bit
            else:
                mask[token] |= bit
        bit <<= _ONE
    return now


@njit(cache=True)
def _has_partners(masks, count, least, room):
    """Whether at least `least` of the wants masks[:count] can have a place of their own."""
    taken = _NONE
    done = 0
    for want in range(count):
        free = masks[want] & ~taken
        if free != 0:
            free &= ~free + _ONE
            place = _place_of(free)
            room.holder[place] = want
            room.partner[want] = place
            taken |= free
            done += 1
        elif masks[want] != 0:
            more = _move_over(want, masks, taken, room)
            done += more != taken
            taken = more
        if done >= least:
            return True
        if done + count - 1 - want < least:
            return False
    return done >= least


@njit(cache=True)
def _move_over(want, masks, taken, room):
    """Seat `want` by letting others change places (Kuhn's search, breadth first).

    Returns the places taken afterwards: the same as before if there was no way.
    """
    seen = _NONE
    room.queue[0] = want
    head, tail = 0, 1
    while head < tail:
        asking = room.queue[head]
        head += 1
        fresh = masks[asking] & ~seen
        seen |= fresh
        while fresh != 0:
            bit = fresh & (~fresh + _ONE)
            fresh ^= bit
            place = _place_of(bit)
            room.asked_by[place] = asking
            if taken & bit != 0:
                room.queue[tail] = room.holder[place]
                tail += 1
                continue
            while True:
                mover = room.asked_by[place]
                left = room.partner[mover]
                room.holder[place] = mover
                room.partner[mover] = place
                if mover == want:
                    return taken | bit
                place = left
    return taken


@njit(cache=True)
def _have_places(rule, size, rules, marks, now, room):
    """Whether the bag marked at `now` stands in the relation of `rule`, by masks."""
    start, end = rules.want_start[rule], rules.want_start[rule + 1]
    count = end - start
    if size < count or (rules.kind[rule] == EQUAL and size != count):
        return False
    anybody = _NONE
    for i in range(count):
        token = rules.wants[start + i]
        if marks.at[token] != now:
            return False
        room.masks[i] = marks.mask[token]
        anybody |= room.masks[i]
    if count == 2:
        return (anybody & (anybody - _ONE)) != 0
    return _has_partners(room.masks, count, count, room)


@njit(cache=True)
def _before(value, rest, bound, bound_rest, order):
    """Whether (value, rest) stands in the order to (bound, bound_rest)."""
    if value == bound and rest == bound_rest:
        return order in (AT_MOST, AT_LEAST)
    less = value < bound or (value == bound and rest < bound_rest)
    return less == (order in (LESS, AT_MOST))


@njit(cache=True)
def _sort_numbers(row, family, elements, room):
    """The row's numbers (or times) in order, in `room`; how many there are."""
    count = 0
    for i in range(elements.offsets[row], elements.offsets[row + 1]):
        if not elements.valid[i] or elements.family[elements.indices[i]] != family:
            continue
        value, rest = elements.values[elements.indices[i]], elements.rests[elements.indices[i]]
        j = count
        while j > 0 and _before(value, rest, room.values[j - 1], room.rests[j - 1], LESS):
            room.values[j], room.rests[j] = room.values[j - 1], room.rests[j - 1]
            j -= 1
        room.values[j], room.rests[j] = value, rest
        count += 1
    return count


@njit(cache=True)
def _in_order(rule, size, numbers, rules, room):
    """Whether the bag of `size` elements, `numbers` of them sorted in `room`, fits the rule."""
    start, end = rules.want_start[rule], rules.want_start[rule + 1]
    kind, order = rules.kind[rule], rules.order[rule]
    return in_sorted_order(kind, order, start, end, size, numbers, rules.bounds, rules.rests, room)


@njit(cache=True)
def in_sorted_order(kind, order, start, end, size, numbers, bounds, rests, room):
    """Whether a bag stands in the relation `kind` to the sorted bounds[start:end], under an order.

    `numbers` of its `size` elements can be ordered; they are sorted in `room`.
    """
    count = end - start
    if kind == SUPER:
        pairs = count
        if numbers < count:
            return False
    else:
        pairs = size
        if numbers != size or size > count or (kind == EQUAL and size != count):
            return False
    upwards = order in (LESS, AT_MOST)
    largest_first = upwards == (kind == SUB)
    for j in range(pairs):
        mine = numbers - 1 - j if largest_first else j
        theirs = start + (count - 1 - j if largest_first else j)
        if not _before(room.values[mine], room.rests[mine], bounds[theirs], rests[theirs], order):
            return False
    return True


@njit(cache=True)
def decide(attribute, first, found, starts, state, words, code_start, view):
    """Decide the composite constraints on one attribute for the candidates among `found`.

    `found` is as `emit` leaves it; starts[e]:starts[e+1] are those of row first + e. `state` has
    two numbers for each with the low bit set: REFUTED once a constraint fails, and how many of its
    residual constraints were found to hold. `view` holds the fields of `Elements`, `Rules`,
    `TokenMasks` and `Partners`, a plain tuple each (see `one.py` for why).
    """
    elements, rules = Elements(*view[0]), Rules(*view[1])
    marks, room = TokenMasks(*view[2]), Partners(*view[3])
    flagged = -1
    for event in range(starts.shape[0] - 1):
        row = first + event
        size, now = -2, 0
        family, numbers = 0, 0
        for i in range(starts[event], starts[event + 1]):
            if found[i] & 1 == 0:
                continue
            flagged += 1
            if state[flagged, 0] == REFUTED:
                continue
            at = code_start[found[i] >> 1]
            position = at + 1 + token_count(words[at]) + negative_count(words[at])
            for k in range(position, position + residual_count(words[at])):
                rule = words[k]
                if rules.attribute[rule] != attribute or rules.kind[rule] == ELSEWHERE:
                    continue
                if size == -2:
                    size = _size_of(row, elements)
                    if 0 <= size <= PLACES_MAX:
                        now = _mark_places(row, elements, marks)
                if size > PLACES_MAX:
                    break
                holds = False
                if size >= 0 and rules.order[rule] == 0:
                    holds = _have_places(rule, size, rules, marks, now, room)
                elif size >= 0:
                    if family != rules.family[rule]:
                        family = rules.family[rule]
                        numbers = _sort_numbers(row, family, elements, room)
                    holds = _in_order(rule, size, numbers, rules, room)
                if size < 0 or holds == (rules.negated[rule] != 0):
                    state[flagged, 0] = REFUTED
                    break
                state[flagged, 1] += 1


@njit(cache=True)
def keep_satisfied(found, starts, words, code_start, state):
    """Drop the refuted candidates, and the low bit of those of which nothing is left to ask."""
    kept = np.empty(found.shape[0], np.int64)
    kept_start = np.zeros(starts.shape[0], np.int64)
    count, flagged = 0, -1
    for event in range(starts.shape[0] - 1):
        for i in range(starts[event], starts[event + 1]):
            finding = found[i]
            if finding & 1:
                flagged += 1
                if state[flagged, 0] == REFUTED:
                    continue
                if residual_count(words[code_start[finding >> 1]]) == state[flagged, 1]:
                    finding ^= 1
            kept[count] = finding
            count += 1
        kept_start[event + 1] = count
    return kept[:count], kept_start


@njit(cache=True)
def _holds_all(wants, start, end, size, everyone, at, mask, now, room):
    """Whether each of the `size` marked elements has one of wants[start:end] of its own."""
    masks = room.masks
    served = _NONE
    count = 0
    spare = end - start - size
    for i in range(start, end):
        token = wants[i]
        if at[token] == now:
            masks[count] = mask[token]
            served |= mask[token]
            count += 1
        elif spare == 0:
            return False
        else:
            spare -= 1
    if served != everyone or count < size:
        return False
    return _has_partners(masks, count, size, room)


@njit(cache=True)
def find_sub_bags(attribute, rows, view):
    """The tokens of the sub-bag constraints on one attribute that each row's bag satisfies.

    Returns the tokens and where each row's begin. Rows with larger bags than PLACES_MAX get none.
    `view` holds the fields of `Elements`, `SubBagArrays`, `TokenMasks`, `Partners`, as in `decide`.
    """
    elements, sub_bags = Elements(*view[0]), SubBagArrays(*view[1])
    marks, room = TokenMasks(*view[2]), Partners(*view[3])
    found = np.empty(256, np.int64)
    starts = np.zeros(rows + 1, np.int64)
    hits = np.empty(256, np.int64)
    hit_start = np.empty(PLACES_MAX + 1, np.int64)
    count = 0
    for row in range(rows):
        size = _size_of(row, elements)
        if 0 <= size <= PLACES_MAX:
            hits, promising, now = _find_promising(
                row, size, elements, sub_bags, marks, room, hits, hit_start
            )
            found, count = _hold_those(
                row, size, attribute, elements, sub_bags, marks, now, room, promising, found, count
            )
        starts[row + 1] = count
    return found[:count], starts


@njit(cache=True)
def _hold_those(
    row, size, attribute, elements, sub_bags, marks, now, room, promising, found, count
):
    """Append the tokens of the sub-bags that hold the row: of those promising, and of the new."""
    first_new = 0 if size == 0 else sub_bags.built  # an empty bag is in every bag: look at all
    if promising == 0 and first_new == sub_bags.count:
        return found, count
    if now == 0:
        now = _mark_places(row, elements, marks)
    at, mask = marks.at, marks.mask
    want_start, wants, token_of = sub_bags.want_start, sub_bags.wants, sub_bags.token
    everyone = _first_places(size)
    while found.shape[0] < count + promising + sub_bags.count - first_new:
        found = grown(found)
    for i in range(promising):
        bag = room.promising[i]
        start, end = want_start[bag], want_start[bag + 1]
        if _holds_all(wants, start, end, size, everyone, at, mask, now, room):
            found[count] = token_of[bag]
            count += 1
    for bag in range(first_new, sub_bags.count):
        start, end = want_start[bag], want_start[bag + 1]
        if sub_bags.attribute[bag] != attribute or end - start < size:
            continue
        if _holds_all(wants, start, end, size, everyone, at, mask, now, room):
            found[count] = token_of[bag]
            count += 1
    return found, count


@njit(cache=True)
def _find_promising(row, size, elements, sub_bags, marks, room, hits, hit_start):
    """The posted sub-bags that may hold the row, into room.promising.

    Returns `hits`, perhaps grown, their number, and when the row's places were marked (0: not yet).
    """
    large_enough = 0
    if 0 < size < sub_bags.large_enough.shape[0]:
        large_enough = sub_bags.large_enough[size]
    if large_enough == 0:
        return hits, 0, 0
    hits, value, fewest, dense = _weigh_elements(row, elements, sub_bags, room, hits, hit_start)
    if fewest == 0:
        return hits, 0, 0
    if dense == 0 or fewest * LISTED_SHARE <= large_enough:
        now = _mark_places(row, elements, marks)
        return hits, _listed(value, large_enough, elements, sub_bags, now, room), now
    return hits, _in_each(large_enough, sub_bags, room, hits, hit_start, dense), 0


@njit(cache=True)
def _weigh_elements(row, elements, sub_bags, room, hits, hit_start):
    """The element of the row whose tokens have the fewest postings, and how many these are.

    The elements all of whose wants have rows of bits go into room.queue, those with the fewest
    postings first; the rows of the n-th element are hits[hit_start[n]:hit_start[n+1]]. Returns
    `hits`, perhaps grown, the value, its postings, and how many elements are in the queue.
    """
    indices, valid, tokens = elements.indices, elements.valid, elements.tokens
    token_start, token_end = elements.token_start, elements.token_end
    posting_start, row_of, queue, postings_of = (
        sub_bags.posting_start, sub_bags.row_of, room.queue, room.holder,
    )  # fmt: skip
    best, fewest, place, dense, filled = -1, np.int64(1) << 62, 0, 0, 0
    hit_start[0] = 0
    for i in range(elements.offsets[row], elements.offsets[row + 1]):
        if not valid[i]:
            continue
        value = indices[i]
        postings, all_dense = 0, True
        for k in range(token_start[value], token_end[value]):
            token = tokens[k]
            if token + 1 >= posting_start.shape[0]:
                continue
            posted = posting_start[token + 1] - posting_start[token]
            if posted == 0:
                continue
            postings += posted
            if row_of[token] < 0:
                all_dense = False
                continue
            if filled >= hits.shape[0]:
                hits = grown(hits)
            hits[filled] = row_of[token]
            filled += 1
        if postings < fewest:
            best, fewest = value, postings
        if postings == 0:
            break
        postings_of[place] = postings
        hit_start[place + 1] = filled
        if all_dense:
            n = dense
            while n > 0 and postings_of[queue[n - 1]] > postings:
                queue[n] = queue[n - 1]
                n -= 1
            queue[n] = place
            dense += 1
        place += 1
    return hits, best, fewest, dense


@njit(cache=True)
def _listed(value, large_enough, elements, sub_bags, now, room):
    """The sub-bags among the postings of a value's tokens, each once; their number."""
    posting_start, postings, in_order = (
        sub_bags.posting_start, sub_bags.postings, sub_bags.in_order,
    )  # fmt: skip
    tokens, seen, out = elements.tokens, room.seen, room.promising
    count = 0
    for k in range(elements.token_start[value], elements.token_end[value]):
        token = tokens[k]
        if token + 1 >= posting_start.shape[0]:
            continue
        for p in range(posting_start[token], posting_start[token + 1]):
            rank = postings[p]
            if rank >= large_enough:
                break
            if seen[rank] != now:
                seen[rank] = now
                out[count] = in_order[rank]
                count += 1
    return count


@njit(cache=True)
def _in_each(large_enough, sub_bags, room, hits, hit_start, dense):
    """The sub-bags that have a want of each element in room.queue, by rows; their number."""
    rows, in_order, queue, out = sub_bags.rows, sub_bags.in_order, room.queue, room.promising
    left, one = np.empty(ROW_WORDS, np.uint64), np.empty(ROW_WORDS, np.uint64)
    count = 0
    for chunk in range((large_enough + ROW_BITS - 1) // ROW_BITS):
        left[:] = ~_NONE
        anybody = ~_NONE
        for n in range(dense):
            place = queue[n]
            _or_rows(rows[chunk], hits, hit_start[place], hit_start[place + 1], one)
            anybody = _NONE
            for w in range(ROW_WORDS):
                left[w] &= one[w]
                anybody |= left[w]
            if anybody == 0:
                break
        if anybody == 0:
            continue
        for w in range(ROW_WORDS):
            while left[w] != 0:
                bit = left[w] & (~left[w] + _ONE)
                left[w] ^= bit
                rank = chunk * ROW_BITS + w * 64 + _place_of(bit)
                if rank < large_enough:
                    out[count] = in_order[rank]
                    count += 1
    return count


@njit(cache=True)
def _or_rows(rows, hits, start, end, one):
    """OR the rows hits[start:end] into `one`."""
    for w in range(ROW_WORDS):
        one[w] = _NONE
    for k in range(start, end - 1, 2):
        # Two at a time, and unsigned: Numba need not ask whether a place counts from the end.
        a, b = np.uint64(hits[k]), np.uint64(hits[k + 1])
        for w in range(ROW_WORDS):
            one[w] |= rows[a, w] | rows[b, w]
    if (end - start) & 1:
        last = np.uint64(hits[end - 1])
        for w in range(ROW_WORDS):
            one[w] |= rows[last, w]
