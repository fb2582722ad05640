"""Which types a term of ours accepts: `ab.within` vectors, `ab.overlap` arrays and so on."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    MapType,
    NumericType,
    StructType,
)

from anabranch.errors import QueryError
from anabranch.model.terms import (
    Alike,
    Band,
    Cosine,
    InnerProduct,
    Jaccard,
    Kind,
    Overlap,
    Within,
)


def check_types(kind: Kind, text: str, types: Sequence[DataType]) -> None:
    """QueryError, with what would be right, unless a term can compare these types."""
    found = " and ".join(t.simpleString() for t in types)
    if isinstance(kind, Band) and not all(isinstance(t, NumericType) for t in types):
        raise QueryError(f"term {text}: a band compares numbers, and these are {found}")
    if isinstance(kind, Within) and not all(map(_is_vector, types)):
        raise QueryError(f"term {text}: within compares arrays of numbers, and these are {found}")
    vectors = all(map(_is_vector, types))
    weights = all(map(_is_weights, types)) and _same(types, "keyType")
    if isinstance(kind, Cosine | InnerProduct) and not (vectors or weights):
        raise QueryError(
            f"term {text}: it compares two arrays of numbers, or two maps from the same type "
            f"of key to numbers, and these are {found}"
        )
    if isinstance(kind, Alike) and not all(isinstance(t, BinaryType) for t in types):
        raise QueryError(f"term {text}: images are binary columns, and these are {found}")
    if isinstance(kind, Overlap | Jaccard):
        if not all(isinstance(t, ArrayType) for t in types):
            raise QueryError(f"term {text}: it compares arrays, as sets, and these are {found}")
        if not _same(types, "elementType"):
            raise QueryError(
                f"term {text}: the elements must be of one type, and these are {found}"
            )
        if "collate" in found:
            raise QueryError(
                f"term {text}: elements are compared by their bytes, and these have a collation: "
                f"{found}. Make them alike first, like transform(a.tags, tag -> CAST(lower(tag) AS "
                "STRING COLLATE UTF8_BINARY))"
            )
        if isinstance(_element(types[0]), ArrayType | MapType | StructType):
            raise QueryError(
                f"term {text}: its elements are compared as single values, and these are {found}. "
                "Make strings of them, like transform(a.items, item -> to_json(item))"
            )


def _is_vector(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType)


def _is_weights(kind: DataType) -> bool:
    return isinstance(kind, MapType) and isinstance(kind.valueType, NumericType)


def _same(types: Sequence[DataType], part: str) -> bool:
    """Whether both have the same type of element or key."""
    return bool(getattr(types[0], part) == getattr(types[1], part))


def _element(kind: DataType) -> DataType | None:
    return kind.elementType if isinstance(kind, ArrayType) else None
