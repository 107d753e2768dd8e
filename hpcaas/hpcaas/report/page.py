"""The page itself: sections in the order in which a reader asks."""

from __future__ import annotations

import math
import statistics
from html import escape
from typing import Optional

from .. import __version__
from ..answers.advise import Advice, advise
from ..answers.costs import Pricing, describe
from ..answers.deadline import Deadline
from ..answers.drift import drifts, when
from ..answers.evidence import Evidence
from ..answers.groups import Group, Groups, Trust, by_machine, choosing, varying
from ..model import ResultSet
from ..money import Cost, performance_per_dollar, performance_per_watt
from ..stats import Summary, fit_scaling, pareto
from . import charts
from .first import first_screen, live, script
from .html import document, figure, table
from .pivot import Pivot, pivots
from .published import table_3_html


def _pivot(pivot: Pivot) -> str:
    head = [escape(" / ".join(pivot.row_axes))] + [
        escape(", ".join(c)) or "time" for c in pivot.columns
    ]
    rows = []
    for key, line in zip(pivot.rows, pivot.cells):
        cells = [f"<th scope='row'>{escape(', '.join(key))}</th>"]
        for cell in line:
            kind = "best" if cell.best else "bad" if cell.group and cell.group.failure else ""
            cells.append(
                f"<td class='{kind}' title='{escape(cell.title, quote=True)}'>"
                f"{escape(cell.text)}</td>"
            )
        rows.append(cells)
    note = f" Best over: {', '.join(pivot.folded)}." if pivot.folded else ""
    columns = f" Columns: {', '.join(pivot.column_axes)}." if pivot.column_axes else ""
    return table(head, rows, escape(f"{pivot.title[0].upper()}{pivot.title[1:]}.{columns}{note}"))


def _effects(some: list[Group], evidence: Evidence) -> str:
    own = evidence.of_app(some[0].name)
    found = [e for e in own if e.axis not in ("processor", "nodes")]
    if not found:
        return "<p>No two runs differ in exactly one choice.</p>"
    rows, drawn = [], []
    for e in found:
        interval = (
            f"{e.ratio.low:.3g} to {e.ratio.high:.3g}"
            if e.ratio.low is not None and e.ratio.high is not None
            else "no spread known"
        )
        rows.append(
            [
                escape(e.axis),
                escape(e.value),
                escape(e.best),
                f"{e.ratio.value:.3g}",
                interval,
                evidence.words(e),
                str(e.pairs),
                f"{e.largest:.3g}",
            ]
        )
        clear = evidence.significant(e) is True
        name = f"{e.axis}: {e.value} / {e.best}"
        drawn.append((name, e.ratio.value, e.ratio.low, e.ratio.high, clear))
    chart = ""
    if any(clear or value > 1.02 for _, value, _, _, clear in drawn):
        chart = figure(
            charts.bars_of_effects(drawn[:24], f"Effect of each choice on {some[0].config.app}"),
            "Time with a value relative to the best value of the same axis, over pairs that differ"
            " in nothing else. Bars: 95 % confidence interval of each alone; blue: more than chance"
            " with all claims of this page counted; grey: not; diamonds: one value each.",
        )
    head = ["choice", "value", "against", "time, ratio", "95 % interval", "verdict", "pairs"]
    return chart + table([*head, "largest"], rows)


# Over nodes, one line per set of these choices.
LINES = ("mpi", "framework", "filesystem", "binding", "distribution")


def _line(group: Group, by_nodes: bool) -> str:
    """On which line of the picture a group stands; within a node there is one, of the best."""
    said = group.config.chosen()
    words = [str(said[name]) for name in LINES if name in said] if by_nodes else []
    return " ".join([group.machine, *words])


def _lines(some: list[Group]) -> dict[str, list[tuple[float, float]]]:
    """Workers and the best time there, per line; two points say only what the table says."""
    best: dict[str, dict[int, float]] = {}
    for mine in by_machine(g for g in some if g.seconds).values():
        by_nodes = len({g.config.nodes for g in mine}) > 1
        for g in mine:
            line = best.setdefault(_line(g, by_nodes), {})
            line[g.workers] = min(line.get(g.workers, math.inf), g.seconds or 0)
    return {
        name: [(float(workers), seconds) for workers, seconds in line.items()]
        for name, line in best.items()
        if len(line) > 2
    }


def _scaling(some: list[Group]) -> str:
    series = _lines(some)
    if not series:
        return ""
    fits = {name: fit_scaling(*zip(*points)) for name, points in series.items()}
    words = "; ".join(
        f"{escape(n)}: T = {f.serial:.3g} + {f.work:.4g}/p + {f.overhead:.2g} log2 p, residual"
        f" {f.residual:.0%}"
        for n, f in fits.items()
        if f
    )
    shown = dict(list(series.items())[:8])
    return "<h4>Scaling</h4>" + figure(
        charts.scaling(shown, fits, f"Scaling of {some[0].config.app}"),
        "Dotted: fit. " + (words or "Fewer than three sizes: no fit."),
    )


def _best_times(
    some: list[Group], rows_axis: str, columns: list[str]
) -> dict[tuple[str, str], float]:
    best: dict[tuple[str, str], float] = {}
    for g in some:
        if g.seconds:
            place = str(g.axis(rows_axis)), " ".join(str(g.axis(a)) for a in columns)
            best[place] = min(g.seconds, best.get(place, math.inf))
    return best


def _worth_a_map(rows: int, columns: int, times: list[float]) -> bool:
    """It fits, and has more than one colour."""
    fits = rows <= 24 and columns <= 14 and rows * columns >= 4
    return fits and max(times) >= 1.02 * min(times)


def _heat(some: list[Group]) -> str:
    """The best times over two or three choices; empty where one colour shows nothing."""
    vary = [a for a in varying(some) if a != "processor"]
    if len(vary) < 2:
        return ""
    vary.sort(key=lambda axis: axis != "binding")  # it stands in the rows
    rows_axis, columns = vary[0], vary[1:3]
    best = _best_times(choosing(some, vary[:3]), rows_axis, columns)
    rows, cols = (list(dict.fromkeys(place[k] for place in best)) for k in (0, 1))
    if not _worth_a_map(len(rows), len(cols), list(best.values())):
        return ""
    values = [[best.get((r, c)) for c in cols] for r in rows]
    return "<h4>Heat map</h4>" + figure(
        charts.heat_map(rows, cols, values, f"Heat map of {some[0].config.app}"),
        f"Seconds; rows: {rows_axis}, columns: {' x '.join(columns)}; best over the rest.",
    )


def _money(some: list[Group], pricing: Pricing) -> str:
    priced = [(g, c) for g in some if g.wall and (c := pricing.cost(g))]
    if not priced:
        return ""
    per_dollar = performance_per_dollar([c.amount for _, c in priced])
    front = set(pareto([(g.wall or 0, c.amount) for g, c in priced]))
    order = sorted(range(len(priced)), key=lambda i: priced[i][1].amount)
    rows = [_money_row(*priced[i], per_dollar[i], i in front) for i in order[:12]]
    best: dict[str, float] = {}
    for (group, _), value in zip(priced, per_dollar):
        best[group.machine] = max(value, best.get(group.machine, 0.0))
    words = ", ".join(f"{escape(m)} {value:.2f}" for m, value in best.items())
    head = ["machine", "configuration", "seconds of a whole run", "billed seconds"]
    head += [f"{priced[0][1].currency} a run", "performance per dollar", "Pareto", "price"]
    return (
        f"<h4>Cost</h4><p>Performance per dollar, best configuration of each machine: {words}."
        f" {escape(pricing.rule[0].upper() + pricing.rule[1:])}.</p>"
        + (table_3_html() if _of_table_3(some) else "")
        + table(head, rows, f"The cheapest {len(rows)} of {len(priced)}")
    )


def _of_table_3(some: list[Group]) -> bool:
    monte_carlo = (g for g in some if g.config.app == "montecarlo")
    return any(s.campaign == "paper" for g in monte_carlo for s in g.samples)


def _money_row(group: Group, cost: Cost, per_dollar: float, on_front: bool) -> list[str]:
    price = describe(cost.row)
    return [
        escape(group.machine),
        escape(group.label),
        f"{group.wall:.4g}",
        f"{cost.billed_s:.4g}",
        f"{cost.amount:.4g}",
        f"<td class='{'best' if per_dollar == 1 else ''}'>{per_dollar:.2f}</td>",
        "yes" if on_front else "",
        escape(f"{cost.estimate}; {price}" if cost.estimate else price),
    ]


def _trouble(some: list[Group]) -> str:
    rows = []
    for g in some:
        said = [(s.status.value, s.diagnosis or "") for s in g.samples if not s.ok]
        said += [("disagrees", g.disagreement)] if g.disagreement else []
        for status, diagnosis in dict.fromkeys(said):
            rows.append(
                [
                    escape(g.machine),
                    escape(g.label),
                    f"<td class='bad'>{escape(status)}</td>",
                    f"{said.count((status, diagnosis))} of {len(g.samples)}",
                    escape(diagnosis),
                ]
            )
    head = ["machine", "configuration", "what", "runs", "diagnosis"]
    return ("<h4>What went wrong</h4>" + table(head, rows)) if rows else ""


STATISTICS = [
    "machine", "configuration", "n", "median s", "CPU s", "min", "max", "sd", "95 % interval",
    "figure of merit (median)", "flags",
]  # fmt: skip


def _flags(group: Group) -> str:
    kinds = [[f.split(":")[0] for f in s.flags] for s in group.samples]
    noisy = sum("noisy" in of for of in kinds)
    words = sorted({kind for of in kinds for kind in of} - {"noisy"})
    return ", ".join(words + ([f"noisy {noisy} of {len(kinds)}"] if noisy else []))


def _merit(group: Group) -> str:
    """The median of the application's own figure."""
    figures = [s.figure for s in group.samples if s.figure]
    if not figures:
        return ""
    middle = statistics.median_high(f.value for f in figures)
    return f"{middle:.4g} {figures[0].unit} ({figures[0].better} is better)"


def _statistics(g: Group, s: Summary) -> list[str]:
    used = (x.load.cpu_seconds for x in g.samples if x.ok)
    cpu = [seconds for seconds in used if seconds is not None]
    return [
        escape(g.machine),
        escape(g.label),
        str(s.n),
        f"{s.median:.4g}",
        f"{statistics.median_high(cpu):.4g}" if cpu else "-",
        f"{s.minimum:.4g}",
        f"{s.maximum:.4g}",
        "-" if s.stdev is None else f"{s.stdev:.2g}",
        "-" if s.low is None or s.high is None else f"{s.low:.4g} to {s.high:.4g}",
        escape(_merit(g)),
        escape(_flags(g)),
    ]


def _spread(some: list[Group]) -> str:
    measured = sorted((g for g in some if g.summary), key=lambda g: g.seconds or 0)
    rows = [_statistics(g, g.summary) for g in measured if g.summary]
    return (
        "<details><summary>All configurations with all statistics</summary>"
        + table(STATISTICS, rows)
        + "</details>"
    )


def _energy(some: list[Group]) -> str:
    said = [
        (g, s.energy.joules, per_kwh)
        for g in some
        for s in g.samples
        if (per_kwh := performance_per_watt(s.energy.joules))
    ]
    if said:
        rows = [[escape(g.label), f"{joules:.4g}", f"{runs:.4g}"] for g, joules, runs in said[:12]]
        return "<h4>Energy</h4>" + table(["configuration", "joules", "runs per kWh"], rows)
    reasons = sorted({s.energy.reason for g in some for s in g.samples if s.energy.reason})
    return (
        f"<p>Energy and performance per watt: not available ({escape('; '.join(reasons))}).</p>"
        if reasons
        else "<p>Energy and performance per watt: not available (not published).</p>"
    )


def _app(some: list[Group], pricing: Pricing, evidence: Evidence, number: int) -> str:
    title = some[0].name.replace(" ", ", size ", 1)
    head = f"<section id='app{number}'><h3>{escape(title)}</h3>"
    return (
        head
        + "".join(_pivot(p) for p in pivots(some))
        + "<h4>Effect of each choice</h4>"
        + _effects(some, evidence)
        + _scaling(some)
        + _heat(some)
        + _money(some, pricing)
        + _energy(some)
        + _trouble(some)
        + _spread(some)
        + "</section>"
    )


def _advice(advice: Advice) -> str:
    rows = []
    for r in advice.recommendations:
        rows.append(
            [
                escape(f"{r.app} {r.size}"),
                escape(r.goal),
                escape(r.machine),
                escape(r.config),
                f"{r.seconds:.4g} s",
                f"{r.cost:.4g} {r.currency}" if r.cost is not None else "-",
                escape("; ".join(r.evidence + r.labels)),
            ]
        )
    head = ["application", "for", "machine", "configuration", "time of a whole run", "cost of it"]
    choices = "".join(f"<li>{escape(c)}</li>" for c in advice.per_choice)
    return (
        "<section id='advice'><h2>What to choose, with evidence</h2>"
        + table([*head, "evidence"], rows)
        + f"<details open><summary>Best value of every choice</summary><ul>{choices}</ul></details>"
        + "</section>"
    )


def _lessons(advice: Advice) -> str:
    lessons = [
        [
            str(v.number),
            escape(v.text),
            f"<td class='{v.verdict.replace(' ', '-')}'>{v.verdict}</td>",
            escape(v.evidence),
        ]
        for v in advice.lessons
    ]
    found = table(["", "lesson", "verdict", "evidence"], lessons)
    return f"<section id='lessons'><h2>The paper's eight lessons in this data</h2>{found}</section>"


def _hours(all_groups: Groups) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in when(all_groups))
    return f"<h4>Hours and days; of others nothing is known</h4><ul>{lines}</ul>" if lines else ""


def _provenance(results: ResultSet, pricing: Pricing, all_groups: Groups) -> str:
    text = f"<section id='provenance'><h2>Provenance</h2>{_hours(all_groups)}"
    for name, machine in results.machines.items():
        text += table(
            ["", escape(name)],
            [
                [escape(str(k)), escape(", ".join(map(str, v)) if isinstance(v, list) else str(v))]
                for k, v in machine.items()
                if k != "id"
            ],
            "Machine",
        )
    text += (
        "<h4>Prices</h4><ul>"
        + (
            "".join(f"<li>{escape(r)}</li>" for r in pricing.remarks())
            or "<li>none: `--price MACHINE=PROVIDER/SHAPE` adds them</li>"
        )
        + "</ul>"
    )
    if results.notes:
        text += (
            "<h4>Remarks</h4><ul>"
            + "".join(f"<li>{escape(n)}</li>" for n in results.notes)
            + "</ul>"
        )
    items = "".join(
        f"<details><summary><code>{escape(key)}</code>"
        f" {escape(str(p.get('mpi', p.get('source', ''))))}"
        f" {escape(str(p.get('flags', '')))}</summary><pre>"
        + escape("\n".join(f"{k}: {v}" for k, v in p.items()))
        + "</pre></details>"
        for key, p in results.provenance.items()
    )
    return (
        text
        + f"<details><summary>Builds, flags, libraries with hashes, MPI and fabric actually mapped"
        f" ({len(results.provenance)} sets)</summary>{items}</details></section>"
    )


def _waiting(results: ResultSet) -> str:
    waited = sorted(
        s.load.waited_fraction for s in results.samples if s.load.waited_fraction is not None
    )
    return (
        f" Half of the runs waited at most {waited[len(waited) // 2]:.1%} of the time for a CPU,"
        f" nine of ten at most {waited[int(0.9 * len(waited))]:.1%}."
        if waited
        else ""
    )


def _warnings(results: ResultSet, all_groups: Groups) -> str:
    total = len(results.samples)
    noisy = sum(1 for s in results.samples if any(f.startswith("noisy") for f in s.flags))
    shared = sum(1 for s in results.samples if any(f.startswith("shared") for f in s.flags))
    text = ""
    if noisy:
        text += (
            f"<p class='warn'>{noisy} of {total} samples were taken while others used the machine:"
            f" differences of a few per cent mean nothing.{_waiting(results)}</p>"
        )
    if shared:
        text += (
            f"<p class='warn'>In {shared} of {total} samples others used only what the run left"
            " free (it hardly waited for a CPU), but caches and memory were not its own.</p>"
        )
    return text + "".join(f"<p class='warn'>{escape(line)}</p>" for line in drifts(all_groups))


def _header(results: ResultSet, title: str, all_groups: Groups) -> str:
    bad = sum(1 for s in results.samples if not s.ok)
    apps = [some[0].config.app for some in all_groups.per_app.values()]
    links = "".join(
        f"<a href='#app{i}'>{escape(name if apps.count(app) > 1 else app)}</a> "
        for i, (app, name) in enumerate(zip(apps, all_groups.per_app))
    )
    counts = {
        "configuration": len(all_groups),
        "application": len(set(apps)),
        "machine": len(results.machines),
    }
    said = ", ".join(f"{n} {what}{'s' if n != 1 else ''}" for what, n in counts.items())
    return (
        f"<header><h1>{escape(title)}</h1><p>{len(results.samples)} samples, {bad} not good,"
        f" {said}. Suite {__version__}.</p>"
        "<nav><a href='#answer'>Answer</a> <a href='#advice'>What to choose</a>"
        f" {links}<a href='#lessons'>Lessons</a> <a"
        f" href='#provenance'>Provenance</a></nav></header>"
    )


def page(
    results: ResultSet,
    pricing: Pricing,
    title: str = "HPCaaS-Bench report",
    deadline: Optional[Deadline] = None,
    mix: Optional[str] = None,
    trust: Trust = Trust(),
) -> str:
    """The answer first, then the picture, then the evidence."""
    advice = advise(results, pricing, deadline, mix, trust)
    all_groups = advice.evidence.groups
    known = live(advice, all_groups, mix, deadline)
    body = (
        _header(results, title, all_groups)
        + first_screen(advice, all_groups, known, deadline)
        + _warnings(results, all_groups)
        + _advice(advice)
        + "<h2>Applications</h2>"
        + "".join(
            _app(some, pricing, advice.evidence, i)
            for i, some in enumerate(all_groups.per_app.values())
        )
        + _lessons(advice)
        + _provenance(results, pricing, all_groups)
        + (script(known) if advice.decisions else "")
    )
    return document(title, body)
