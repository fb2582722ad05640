"""Which kernel evaluates which kind of term."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from anabranch.kernel import sets, vectors, weighted
from anabranch.kernel.bands import BandKernel
from anabranch.kernel.base import Kernel
from anabranch.kernel.equality import EqualKernel
from anabranch.kernel.general import ExpressionKernel, MatchKernel
from anabranch.kernel.images import AlikeKernel
from anabranch.kernel.ordered import IntervalKernel
from anabranch.model.query import Query, Term
from anabranch.model.terms import (
    Alike,
    Band,
    Cosine,
    Equal,
    Expression,
    InnerProduct,
    Interval,
    Jaccard,
    Match,
    Overlap,
    Within,
)

KERNELS: dict[type, Callable[[Term], Kernel]] = {
    Equal: EqualKernel,
    Band: BandKernel,
    Interval: IntervalKernel,
    Within: vectors.WithinKernel,
    Cosine: vectors.CosineKernel,
    InnerProduct: vectors.InnerProductKernel,
    Overlap: sets.OverlapKernel,
    Jaccard: sets.JaccardKernel,
    Alike: AlikeKernel,
    Expression: ExpressionKernel,
    Match: MatchKernel,
}

MAP_KERNELS: dict[type, Callable[[Term], Kernel]] = {
    Cosine: weighted.CosineKernel,
    InnerProduct: weighted.InnerProductKernel,
}
"""For maps of weights, which are sparse vectors."""


@lru_cache(maxsize=16)
def kernels_of(query: Query) -> tuple[Kernel, ...]:
    """The kernel of each term of a query, by position."""
    return tuple(_kernel(query, term) for term in query.terms)


def _kernel(query: Query, term: Term) -> Kernel:
    kind = type(term.kind)
    first = term.operands[0]
    stored = next(c for c in query.stored[first.stream] if c.name == first.column)
    if kind in MAP_KERNELS and stored.is_map:
        return MAP_KERNELS[kind](term)
    return KERNELS[kind](term)
