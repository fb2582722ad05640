"""PSP09's figures: response time and state of PSP, ATR and CTR (section 8 of the paper).

Equal hosts on a gigabit network, tuples as they come. The paper gives no time for a comparison; it
is chosen so that four hosts are half busy with the heaviest of its joins.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.experiments.claims import Metrics, ordered, shaped
from anabranch.experiments.figure import Chart, Claim, Experiment, Point
from anabranch.routing.aligned import Atr
from anabranch.routing.coordinated import Ctr
from anabranch.routing.sliced import Psp
from anabranch.routing.strategies import Strategy
from anabranch.sim.hardware import Costs, Hardware, Machine
from anabranch.sim.pacing import Change, Pacing
from anabranch.sim.queries import chain
from anabranch.sim.simulation import Setup
from anabranch.sim.workload import Jump, Profile, Steady, Workload

WINDOW, RATE = 10.0, 50.0
FILLED = 12.0
"""Seconds of tuples that fill the windows at the beginning."""
SECONDS, SINCE = 4.0, 1.0
COSTS = Costs(send=1e-6, receive=1e-6, pair=1e-7, result=0.0, tuple_bytes=20)
"""PSP09 assumes that the network is sufficient (5.1): tuples are small."""


def hardware(hosts: int) -> Hardware:
    """Equal hosts, half a millisecond apart."""
    return Hardware((Machine(),) * hosts, COSTS, (1000.0, 1000.0), (5e-4, 5e-4))


@dataclass(frozen=True)
class Trial:
    """The paper's 3-way join for one run, but for what is varied; a seed makes it one."""

    strategy: Strategy
    hosts: int
    selectivity: float = 0.1
    seconds: float = SECONDS
    profile: Profile = field(default_factory=lambda: Steady(RATE))
    changes: tuple[Change, ...] = ()
    most: int = 0
    """Hosts that there are in all, where more may come; 0: no more."""
    epoch: float = 0.1
    purge_idle: bool = True

    def __call__(self, seed: int) -> Setup:
        return Setup(
            chain([WINDOW] * 3, self.selectivity),
            self.strategy,
            hardware(self.most or self.hosts),
            Workload((self.profile,) * 3, FILLED + self.seconds, seed),
            self.hosts,
            Pacing(self.epoch, most=1, in_flight=64, preload=FILLED, purge_idle=self.purge_idle),
            self.changes,
            ahead=FILLED,
            until=self.seconds,
        )


def _level(values: list[float]) -> bool:
    return max(values) <= 1.2 * min(values)


_NODES = (4.0, 8.0, 12.0, 19.0)
_SIGMAS = (0.05, 0.1, 0.5)
_BY_SIGMA = tuple(f"selectivity {sigma:g}" for sigma in _SIGMAS)


def _turns(values: list[float]) -> bool:
    """It falls first, and rises in the end."""
    return min(values) < 0.97 * values[0] and values[-1] > 1.03 * min(values)


def _more_nodes(found: Metrics) -> tuple[bool, str]:
    """Whether the best number of nodes never grows with the selectivity."""
    best = [min(found["response"].line(name), key=lambda place: place[1])[0] for name in _BY_SIGMA]
    told = ", ".join(f"{x:g} nodes ({name})" for name, x in zip(_BY_SIGMA, best, strict=True))
    return best == sorted(best, reverse=True), told


RINGS = Experiment(
    "psp09-fig8ab",
    tuple(
        Point(
            name,
            nodes,
            Trial(strategy=Psp(hop=0), hosts=int(nodes), selectivity=sigma),
            SINCE,
        )
        for name, sigma in zip(_BY_SIGMA, _SIGMAS, strict=True)
        for nodes in _NODES
    ),
    (
        Chart(
            "psp09-fig8a",
            "PSP, response time",
            "nodes",
            "mean response time (s)",
            "response",
            (
                Claim("a higher selectivity takes longer", ordered("response", _BY_SIGMA)),
                Claim(
                    "at 0.5, more nodes help at first, and too many make it slower",
                    shaped("response", _BY_SIGMA[2], _turns),
                ),
                Claim(
                    "the smaller the selectivity, the more nodes are best",
                    _more_nodes,
                    "PSP09 expects it of its cost model and does not show it. What a further node "
                    "adds is a link for every hop, whatever the selectivity; what it spares is "
                    "comparing, of which there is less with fewer intermediate results. The time "
                    "of a comparison, which decides it, is not given.",
                ),
            ),
        ),
        Chart(
            "psp09-fig8b",
            "PSP, state size",
            "nodes",
            "tuples in memory",
            "state",
            tuple(
                Claim(
                    f"memory is the same however many nodes there are ({name})",
                    shaped("state", name, _level),
                )
                for name in _BY_SIGMA
            ),
        ),
    ),
    "Three streams of 50 tuples/s, windows of 10 s",
    lambda point: point.x in (4.0, 8.0, 19.0),
)

_LENGTHS = (10, 30, 50)
_BY_LENGTH = tuple(f"segments of {length} s" for length in _LENGTHS)
SEGMENTS = Experiment(
    "psp09-fig8c",
    tuple(
        Point(
            name,
            nodes,
            Trial(strategy=Atr(segment=f"{length} seconds"), hosts=int(nodes), seconds=15.0),
            5.0,
        )
        for name, length in zip(_BY_LENGTH, _LENGTHS, strict=True)
        for nodes in (4.0, 12.0, 19.0)
    ),
    (
        Chart(
            "psp09-fig8c",
            "ATR, response time",
            "nodes",
            "mean response time (s)",
            "response",
            tuple(
                Claim(
                    f"more nodes do not make it faster ({name})",
                    shaped("response", name, lambda values: values[-1] > 0.9 * values[0]),
                )
                for name in _BY_LENGTH
            ),
        ),
    ),
    "Selectivity 0.1",
    lambda point: point.x in (4.0, 19.0),
)

_LAZY, _EAGER = "purged by tuples that come", "idle hosts purge too"
SEGMENT_STATE = Experiment(
    "psp09-fig8d",
    tuple(
        Point(
            name,
            nodes,
            Trial(
                strategy=Atr(segment="10 seconds"),
                hosts=int(nodes),
                seconds=200.0,
                epoch=2.0,
                purge_idle=name == _EAGER,
            ),
            190.0,
        )
        for name in (_LAZY, _EAGER)
        for nodes in (_NODES if name == _LAZY else (4.0, 19.0))
    ),
    (
        Chart(
            "psp09-fig8d",
            "ATR, state size, segments of 10 s",
            "nodes",
            "tuples in memory",
            "state",
            (
                Claim(
                    "state grows with the number of nodes",
                    shaped("state", _LAZY, lambda values: values[-1] > 1.1 * values[0]),
                ),
            ),
        ),
    ),
    "Selectivity 0.1. PSP09's operators purge when a tuple comes, so hosts keep what they have "
    "when their segment is over. Where idle hosts are told the time, as all others here are, state "
    "is that of (W + T) / T segments (LD07, Eq. 2), whatever the number of nodes",
    lambda point: point.x in (4.0, 19.0),
)

_COPIES = (2, 4, 9)
_BY_COPIES = tuple(f"{copies} copies" for copies in _COPIES)
COPIES = Experiment(
    "psp09-fig8ef",
    tuple(
        Point(name, nodes, Trial(strategy=Ctr(copies, hop=0), hosts=int(nodes)), SINCE)
        for name, copies in zip(_BY_COPIES, _COPIES, strict=True)
        for nodes in _NODES
        if nodes >= 2 * copies
    ),
    (
        Chart(
            "psp09-fig8e",
            "CTR, response time",
            "nodes",
            "mean response time (s)",
            "response",
            (
                Claim(
                    "more nodes make it faster (2 copies)",
                    shaped("response", _BY_COPIES[0], lambda values: values[-1] < values[0]),
                    "Hosts are hardly busy here, so what a further host spares in comparing is "
                    "less than what a further message costs; CTR uses as few hosts as it can.",
                ),
                Claim(
                    "more copies make it slower (2 and 9, 19 nodes)",
                    ordered("response", ("2 copies", "9 copies")),
                    "More copies make covers smaller, so less is sent; and a host that would get "
                    "more than its part of the work is relieved by others that hold the segment, "
                    "of which there are more. In PSP09 the hosts of the smallest cover do it all.",
                ),
            ),
        ),
        Chart(
            "psp09-fig8f",
            "CTR, state size",
            "nodes",
            "tuples in memory",
            "state",
            (
                Claim(
                    "state is about the same however many nodes there are",
                    shaped("state", _BY_COPIES[0], _level),
                ),
                Claim("state grows with the copies", ordered("state", _BY_COPIES)),
            ),
        ),
    ),
    "Selectivity 0.1",
    lambda point: point.x in (4.0, 8.0, 19.0),
)

_FASTER = Jump(RATE, 2 * RATE, FILLED + 4.0)
ADAPTING = Experiment(
    "psp09-fig8gh",
    (
        Point(
            "with adaptation",
            0.0,
            Trial(
                strategy=Psp(hop=0),
                hosts=3,
                most=12,
                selectivity=0.5,
                seconds=12.0,
                profile=_FASTER,
                changes=(Change(5.0, "rescale", 12, at_once=True),),
            ),
            6.0,
        ),
        Point(
            "without adaptation",
            0.0,
            Trial(
                strategy=Psp(hop=0),
                hosts=3,
                selectivity=0.5,
                seconds=12.0,
                profile=_FASTER,
            ),
            6.0,
        ),
    ),
    tuple(
        Chart(
            key,
            f"PSP {name}: 50, then 100 tuples/s from the fourth second on",
            "time (s)",
            "mean response time (s)",
            "response",
            (
                Claim(
                    "when rates double, the response time is shorter with adaptation",
                    ordered("response", ("with adaptation", "without adaptation")),
                ),
            )
            if key.endswith("g")
            else (),
            over_time=True,
            only=name,
        )
        for key, name in (("psp09-fig8g", "with adaptation"), ("psp09-fig8h", "without adaptation"))
    ),
    "Selectivity 0.5; adapting is to go from 3 to 12 nodes a second after the change",
)

EXPERIMENTS = (RINGS, SEGMENTS, SEGMENT_STATE, COPIES, ADAPTING)
