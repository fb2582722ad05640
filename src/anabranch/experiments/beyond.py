"""Beyond the papers: all strategies on one chart, PSP09's doubts about CTR, and 1,000 hosts."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.experiments import ld07_setup as ld07
from anabranch.experiments import psp09
from anabranch.experiments.claims import Metrics, ordered
from anabranch.experiments.figure import Chart, Check, Claim, Experiment, Point
from anabranch.routing.aligned import Atr
from anabranch.routing.coordinated import Ctr
from anabranch.routing.sliced import Psp
from anabranch.routing.strategies import Strategy
from anabranch.sim.hardware import Costs, Hardware, Machine
from anabranch.sim.pacing import Pacing
from anabranch.sim.queries import clique
from anabranch.sim.simulation import Setup
from anabranch.sim.workload import steady

STRATEGIES: dict[str, Strategy] = {
    "central": "central",
    "atr": Atr(segment="5 seconds"),
    "ctr": Ctr(hop=0),
    "psp": Psp(hop=0),
}


def _no_copies(found: Metrics) -> tuple[bool, str]:
    kept = {name: found["state"].mean(name, 8.0) for name in STRATEGIES}
    told = ", ".join(f"{name} {value:,.0f}" for name, value in kept.items())
    return kept["psp"] < 1.1 * kept["central"] and kept["psp"] < min(kept["atr"], kept["ctr"]), told


def _redundant(found: Metrics) -> tuple[bool, str]:
    copied, once = (found["state"].mean(name, 8.0) for name in ("atr", "central"))
    return copied > 1.5 * once, f"{copied:,.0f} tuples, and {once:,.0f} without copies"


def _routing_cost(found: Metrics) -> tuple[bool, str]:
    _, told = ordered("routing", ("atr", "psp", "ctr"), 8.0)(found)
    return all(ordered("routing", (name, "ctr"), 8.0)(found)[0] for name in ("atr", "psp")), told


def _does_not_collapse(name: str) -> Check:
    def check(found: Metrics) -> tuple[bool, str]:
        balance = [place for place in sorted(found["balance"].line(name)) if place[0] <= 100]
        return min(value for _, value in balance) > 0.3, ", ".join(
            f"{value:.2f} ({x:g} hosts)" for x, value in balance
        )

    return check


def _together() -> Experiment:
    charts = tuple(
        Chart(f"beyond-{metric}", f"All strategies: {title}", "hosts", title, metric, claims)
        for metric, title, claims in (
            ("throughput", "results a second", ()),
            (
                "routing",
                "µs of routing a tuple",
                (
                    Claim(
                        "routing costs more with CTR than with ATR and PSP (PSP09, Figure 7)",
                        _routing_cost,
                    ),
                ),
            ),
            ("response", "mean response time (s)", ()),
            (
                "state",
                "tuples in memory",
                (
                    Claim("PSP keeps no tuple twice", _no_copies),
                    Claim(
                        "with windows as long as segments, ATR wastes memory (PSP09, section 7)",
                        _redundant,
                    ),
                ),
            ),
            (
                "traffic",
                "tuples sent for each tuple",
                (
                    Claim(
                        "ATR sends least, PSP most (PSP09, Figure 7)",
                        ordered("traffic", ("atr", "ctr", "psp"), 8.0),
                    ),
                ),
            ),
        )
    )
    return Experiment(
        "beyond-together",
        tuple(
            Point(
                name,
                hosts,
                psp09.Trial(strategy=strategy, hosts=int(hosts), selectivity=0.1),
                psp09.SINCE,
            )
            for name, strategy in STRATEGIES.items()
            for hosts in (2.0, 8.0, 16.0)
        ),
        charts,
        "The join of PSP09's Figure 8 with a selectivity of 0.1",
        lambda point: point.x == 8.0,
    )


_WAITING, _HASTY = "waiting for the rows of an epoch", "not waiting"


@dataclass(frozen=True)
class Late:
    """CTR on links of very different latencies, with or without the synchronization."""

    waits: bool
    latency: float

    def __call__(self, seed: int) -> Setup:
        return Setup(
            clique([5.0] * 3, 0.1),
            Ctr(hop=0),
            Hardware((Machine(),) * 6, Costs(), latency=(1e-4, self.latency), seed=seed),
            steady([8.0] * 3, 20.0, seed),
            pacing=Pacing(epoch=0.5, most=1),
            collect=True,
            synchronized=self.waits,
        )


def _is_missed(found: Metrics) -> tuple[bool, str]:
    hasty, waiting = sorted(found["lost"].line(_HASTY)), found["lost"].line(_WAITING)
    told = ", ".join(f"{value:.1f} % ({x:g} s)" for x, value in hasty)
    return hasty[-1][1] > 0 and not any(value for _, value in waiting), told


SYNCHRONIZATION = Experiment(
    "beyond-synchronization",
    tuple(
        Point(name, latency, Late(name == _WAITING, latency))
        for name in (_WAITING, _HASTY)
        for latency in (0.001, 0.1, 0.5, 1.0)
    ),
    (
        Chart(
            "beyond-synchronization",
            "CTR without the synchronization that LD07 leaves out",
            "greatest latency of a link (s)",
            "results lost (%)",
            "lost",
            (
                Claim(
                    "CTR needs synchronization among the nodes of different hops (PSP09, section "
                    "7): without it results are lost, with it none are",
                    _is_missed,
                ),
            ),
        ),
    ),
    "Three streams, six hosts, links of 0.1 ms up to the latency on the axis",
)


SCALE = Experiment(
    "beyond-scale",
    (
        *ld07.points(
            (ld07.ATR, ld07.CTR),
            (2.0, 10.0, 100.0, 1000.0),
            "hosts",
            seconds=10.0,
            in_flight=256,
            backlog=600.0,
        ),
        *ld07.points(
            (ld07.CTR_SPREAD,),
            (2.0, 10.0, 100.0),
            "hosts",
            seconds=10.0,
            in_flight=256,
            backlog=600.0,
        ),
    ),
    (
        Chart(
            "beyond-scale",
            "From 2 to 1,000 hosts",
            "hosts",
            "throughput (results/s)",
            "throughput",
            (
                *(
                    Claim(
                        f"{name} does not collapse onto few hosts: of up to 100, the mean one is "
                        "at least 0.3 as busy as the busiest",
                        _does_not_collapse(name),
                    )
                    for name in (ld07.CTR, ld07.CTR_SPREAD)
                ),
            ),
            log=True,
        ),
    ),
    "LD07's three-way join on ever larger clusters",
    lambda point: point.x in (2.0, 100.0),
)

PROBING = Experiment(
    "beyond-probing",
    ld07.points(
        (ld07.ATR, ld07.ATR_NAIVE, ld07.CTR, ld07.CTR_SPREAD),
        (10.0, 50.0),
        "window",
        costs=Costs.by_probing(),
    ),
    (
        Chart(
            "beyond-probing",
            "LD07's Figure 14, if every probing took 10 ms",
            "window (s)",
            "throughput (results/s)",
            "throughput",
        ),
    ),
    "LD07's price read in another way: to probe what a host has of a window takes 10 ms, however "
    "much that is. Then it matters that joins know which stream is the master: else every host "
    "compares the same copies of slaves again, which costs ATR more the longer the windows are",
    lambda point: point.x == 50.0,
)

SHEDDING = Experiment(
    "beyond-shedding",
    ld07.points(
        (ld07.ATR_SHORT, ld07.ATR_LONG, ld07.CTR),
        (10.0, 50.0),
        "window",
        seconds=48.0,
        patience=5.0,
    ),
    (
        Chart(
            "beyond-shedding",
            "LD07's Figure 14, if hosts shed load",
            "window (s)",
            "throughput (results/s)",
            "throughput",
        ),
    ),
    "In LD07's prototype, hosts shed what they cannot do in time. Here tuples come as time goes "
    "on, and what has waited at a host for 5 s is not compared any more. A segment of ATR is one "
    "host's, so with long segments few hosts have all the work of a moment, and shed it while "
    "others are idle: then CTR is ahead with long windows, as LD07 says. Which length LD07's ATR "
    "had is not given; with 1 s all hosts are at work, and ATR is ahead",
    lambda point: point.x == 50.0,
)

EXPERIMENTS = (_together(), SYNCHRONIZATION, SCALE, PROBING, SHEDDING)
