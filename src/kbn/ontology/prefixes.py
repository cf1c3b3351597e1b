"""CURIEs: names such as `wine:Wine`, which stand for IRIs by way of declared prefixes."""

from __future__ import annotations

from collections.abc import Mapping

from kbn.errors import InvalidInputError

SCHEMES = ("urn", "mailto", "tag", "file")
"""An IRI may begin with these and have no `//`."""


def expand_curie(curie: str, prefixes: Mapping[str, str]) -> str:
    """The IRI that a CURIE stands for; an IRI is returned as it is.

    >>> expand_curie("wine:Wine", {"wine": "http://example.org/wine#"})
    'http://example.org/wine#Wine'
    """
    prefix, colon, name = curie.partition(":")
    if not colon:
        raise InvalidInputError(f"{curie!r} is neither an IRI nor a prefixed name")
    if prefix in prefixes and not name.startswith("//"):
        return prefixes[prefix] + name
    if name.startswith("//") or prefix in SCHEMES:
        return curie
    known = ", ".join(f"{name}:" for name in sorted(prefixes))
    raise InvalidInputError(f"no prefix {prefix}: is declared; declared are {known}")


def full_iri(name: str, prefixes: Mapping[str, str]) -> str:
    """The IRI of a term as somebody wrote it: a declared prefix is expanded, the rest stays.

    What has `://` in it is an IRI. A prefix that is not declared is no error here, for it may be
    the scheme of an IRI.

    >>> full_iri("wine:Wine", {"wine": "http://example.org/wine#"}), full_iri("urn:x#A", {})
    ('http://example.org/wine#Wine', 'urn:x#A')
    """
    prefix, colon, rest = name.partition(":")
    if not colon or rest.startswith("//") or "://" in rest:
        return name
    namespace = prefixes.get(prefix)
    return name if namespace is None else namespace + rest


def shorten_iri(iri: str, prefixes: Mapping[str, str]) -> str:
    """The shortest CURIE for an IRI, or the IRI itself when no prefix fits.

    >>> shorten_iri("http://example.org/wine#Wine", {"wine": "http://example.org/wine#"})
    'wine:Wine'
    """
    fitting = [
        f"{prefix}:{iri[len(namespace) :]}"
        for prefix, namespace in prefixes.items()
        if namespace and iri.startswith(namespace) and len(iri) > len(namespace)
    ]
    plain = [name for name in fitting if "/" not in name and "#" not in name]
    return min(plain, key=lambda name: (len(name), name), default=iri)
