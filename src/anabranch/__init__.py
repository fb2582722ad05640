"""Anabranch joins many live streams, on any predicate, on a Spark cluster, exactly."""

from anabranch import testing
from anabranch.adapt.load import Weights
from anabranch.errors import AnabranchError, CheckpointError, QueryError, RunError, TermError
from anabranch.model.terms import (
    alike,
    band,
    cosine,
    equal,
    inner_product,
    jaccard,
    match,
    overlap,
    within,
)
from anabranch.routing.aligned import Atr
from anabranch.routing.coordinated import Ctr
from anabranch.routing.sliced import Psp
from anabranch.spark.builder import join
from anabranch.spark.inputs import stream
from anabranch.spark.sinks import parquet_sink

__version__ = "0.1.0"

__all__ = [
    "AnabranchError",
    "Atr",
    "CheckpointError",
    "Ctr",
    "Psp",
    "QueryError",
    "RunError",
    "TermError",
    "Weights",
    "alike",
    "band",
    "cosine",
    "equal",
    "inner_product",
    "jaccard",
    "join",
    "match",
    "overlap",
    "parquet_sink",
    "stream",
    "testing",
    "within",
]
