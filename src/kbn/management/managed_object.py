"""`ManagedObject`: one broker, publisher or subscriber in the MIB."""

from __future__ import annotations

from typing import Any

from kbn.errors import InvalidInputError
from kbn.management.schema import Kind
from kbn.management.table import Table


class ManagedObject:
    """One object of the MIB: its fields are attributes, always with their present values.

    Reading a field of an object that is gone raises InvalidInputError.
    """

    __slots__ = ("_table", "name")

    def __init__(self, table: Table, name: str) -> None:
        self._table = table
        self.name = name

    @property
    def kind(self) -> Kind:
        return self._table.kind

    def __getattr__(self, field: str) -> Any:
        if field not in self._table.fields:
            raise AttributeError(f"a {self.kind} has no field {field!r}")
        row = self._table.rows.get(self.name)
        if row is None:
            raise InvalidInputError(f"the {self.kind} {self.name!r} is gone")
        return self._table.get(row, field)

    def to_json(self) -> dict[str, Any]:
        """All fields, by their names; marks sorted, and the hops of a histogram as texts."""
        fields = {field: getattr(self, field) for field in self._table.fields}
        fields["marks"] = sorted(fields["marks"])
        if "histogram" in fields:
            fields["histogram"] = {str(hops): n for hops, n in fields["histogram"].items()}
        return {"name": self.name, **fields}

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"
