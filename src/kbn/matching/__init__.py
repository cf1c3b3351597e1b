"""Matching: which subscriptions accept a notification, and which cover which."""

from kbn.matching.linear_scan import LinearScan
from kbn.matching.matcher import Matcher
from kbn.matching.matches import Matches
from kbn.matching.poset import Change, Poset

__all__ = ["Change", "LinearScan", "Matcher", "Matches", "Poset"]
