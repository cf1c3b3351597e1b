"""Matching: which subscriptions accept a notification, and which cover which."""

from kbn.matching.linear_scan import LinearScan
from kbn.matching.matcher import Matcher
from kbn.matching.matches import Matches

__all__ = ["LinearScan", "Matcher", "Matches"]
