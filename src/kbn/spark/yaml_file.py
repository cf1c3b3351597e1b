"""YAML files that people write: read strictly, refused by file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbn.errors import InvalidInputError


def read_yaml(path: Path, what: str) -> object:
    """The data of a YAML file; `what` it should hold is named when it cannot be read."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Refuses a key that stands twice: the first of the two would be silently dropped."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                name = key.value if isinstance(key.value, str) else None
                if name in seen:
                    line = key.start_mark.line + 1
                    raise InvalidInputError(f"{path}, line {line}: the key {name!r} stands twice")
                seen.add(name)
            return super().construct_mapping(node, deep)

    try:
        with path.open(encoding="utf-8-sig") as stream:
            return yaml.load(stream, Loader)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot read the {what}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path}: not UTF-8 text") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidInputError(f"{path}: not YAML: {error}") from None
