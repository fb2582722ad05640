"""Whatever a strategy decides, every combination is made once: by brute force, without Spark."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.adapt.load import Usage
from anabranch.routing.adaptive import HOP
from anabranch.routing.aligned import Atr, AtrRouter
from anabranch.routing.base import Measured, Router
from anabranch.routing.coordinated import Ctr, CtrRouter
from anabranch.routing.sliced import Psp, PspRouter
from tests.routing.interpreter import World, check, query_of

STRATEGIES = ("atr", "ctr", "psp")


def router_of(draw: st.DrawFn, name: str, world: World, hosts: int) -> Router:
    segment = draw(st.sampled_from([None, "3 microseconds", "20 microseconds"]))
    if name == "atr":
        master = draw(st.sampled_from([None, "a", "b"]))
        return AtrRouter(world.query, hosts, Atr(segment=segment, master=master))
    hop = draw(st.sampled_from([0.0, 0.0, HOP]))
    if name == "ctr":
        copies, optimized = draw(st.integers(1, 3)), draw(st.booleans())
        return CtrRouter(world.query, hosts, Ctr(copies, segment, optimized, hop))
    objective = draw(st.sampled_from(["output", "latency"]))
    return PspRouter(world.query, hosts, Psp(objective, hop=hop))


@st.composite
def histories(draw: st.DrawFn) -> tuple[World, list[list[list[int]]]]:
    streams = draw(st.integers(2, 5))
    largest = {2: 12, 3: 7, 4: 4, 5: 3}[streams]
    windows = [draw(st.integers(0, 40)) for _ in range(streams)]
    batches = [
        [
            draw(st.lists(st.integers(20 * b - 10, 20 * b + 20), max_size=largest))
            for _ in range(streams)
        ]
        for b in range(draw(st.integers(1, 5)))
    ]
    return World(query_of(windows)), batches


@settings(max_examples=100)
@given(history=histories(), data=st.data())
def test_every_combination_is_made_once_under_forced_changes(
    history: tuple[World, list[list[list[int]]]], data: Any
) -> None:
    world, batches = history
    hosts = data.draw(st.integers(1, 6))
    name = data.draw(st.sampled_from(STRATEGIES))
    draw = data.draw
    router = router_of(draw, name, world, hosts)
    for batch in batches:
        if any(batch):
            check(world, router, batch)
            usage = {h: Usage(draw(st.floats(0, 1)), h, 1) for h in range(router.hosts)}
            router.learn(Measured(1.0, 10, usage, cpu=draw(st.floats(0, 2))))
        # Rows behind the watermark are late and never come here, so it stays behind all batches.
        world.commit(draw(st.none() | st.just(20 * (world.batch + 1) - 10)))
        change = draw(st.sampled_from(["none", "more", "fewer", "at once", "restart", "switch"]))
        if change == "restart":
            saved = json.loads(json.dumps(router.snapshot()))
            router = router_of(draw, name, world, draw(st.integers(1, 6)))
            router.restore(saved)
        elif change == "switch":
            name = draw(st.sampled_from(STRATEGIES))
            router = router_of(draw, name, world, router.hosts)
        elif change != "none":
            count = {"more": router.hosts + 2, "fewer": max(router.hosts - 1, 1)}.get(change, 3)
            router.rescale(count, at_once=change == "at once")


@settings(max_examples=40)
@given(history=histories(), data=st.data())
def test_a_change_of_master_loses_and_repeats_nothing(
    history: tuple[World, list[list[list[int]]]], data: Any
) -> None:
    world, batches = history
    router = AtrRouter(world.query, 3, Atr(segment="7 microseconds"))
    streams = len(world.query.streams)
    for at, batch in enumerate(batches):
        if any(batch):
            if router.reigns and len(router.reigns) == 1 and data.draw(st.booleans()):
                master = data.draw(st.integers(0, streams - 1))
                router.crown(master, data.draw(st.integers(20 * at - 20, 20 * at + 30)))
            check(world, router, batch)
        world.commit(20 * (world.batch + 1) - 10)
