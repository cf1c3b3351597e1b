"""Configuration: one way to read the files that people write.

A reader declares its format as msgspec structs, reads a document and turns the struct into its own
values:

    document = Document.read(path, "the overlay")
    declared = document.root.convert(OverlayFile)
    raise document.root.at("brokers", "east", "port").error("port 7431 is taken; choose another")

Whatever is wrong is a `ConfigError` that says file, line, path and what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbn.front_door import on_first_use

if TYPE_CHECKING:
    from kbn.config.closest import did_you_mean, or_one_of
    from kbn.config.document import Document, Place
    from kbn.config.forms import AS_WRITTEN, Form, Text, Word
    from kbn.config.problems import ConfigError, Problem

__all__ = [
    "AS_WRITTEN",
    "ConfigError",
    "Document",
    "Form",
    "Place",
    "Problem",
    "Text",
    "Word",
    "did_you_mean",
    "or_one_of",
]

__getattr__ = on_first_use(
    __name__,
    {
        "AS_WRITTEN": "kbn.config.forms",
        "ConfigError": "kbn.config.problems",
        "Document": "kbn.config.document",
        "Form": "kbn.config.forms",
        "Place": "kbn.config.document",
        "Problem": "kbn.config.problems",
        "Text": "kbn.config.forms",
        "Word": "kbn.config.forms",
        "did_you_mean": "kbn.config.closest",
        "or_one_of": "kbn.config.closest",
    },
)
