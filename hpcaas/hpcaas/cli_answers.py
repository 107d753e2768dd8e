"""The commands that answer from results: report, advise, compare, merge, paper."""

from __future__ import annotations

import functools
import gc
import inspect
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

import typer
from rich.console import Console

from .answers.costs import Pricing, Terms, paper_pricing, price_machines
from .answers.deadline import Deadline
from .answers.groups import Trust
from .errors import BadInput, HpcaasError
from .model import ResultSet, Sample, Status, merge, renamed
from .money import RUNS_PER_RENTAL
from .recovery import read_recovery
from .running.noise import WAITING_LIMIT, disturbed
from .spot import Loss

console = Console(soft_wrap=True)

RESULTS = typer.Argument(
    ...,
    help="results.json files, several are merged; NAME=FILE gives the machine of a file another "
    "name; `paper` is the paper's own data",
)
CATALOGUE = typer.Option(
    None,
    "--catalogue",
    help="price catalogue (YAML); the sample that comes with the suite by default",
)


@dataclass(frozen=True)
class Question:
    """What the user asks of results: prices, mix, deadline, and what samples count."""

    price: list[str]
    catalogue: Optional[Path]
    region: Optional[str]
    operating_system: Optional[str]
    term: Optional[str]
    currency: Optional[str]
    rate: list[str]
    runs_per_rental: int
    disk_gib: float
    egress_gib: float
    head: Optional[str]
    interruptions_per_hour: Optional[float]
    interruptions_source: Optional[str]
    checkpoint_s: Optional[float]
    recovery: Optional[Path]
    mix: Optional[str]
    deadline_s: Optional[float]
    deadline_share: float
    accept_flaky: bool
    waiting_limit: float
    by: str

    @property
    def trust(self) -> Trust:
        if not 0 <= self.waiting_limit <= 1:
            raise BadInput(f"--waiting-limit is {self.waiting_limit}", "use a share from 0 to 1")
        # CPU seconds do not grow while a run waits.
        by_cpu = self.by == "cpu"
        return Trust(self.accept_flaky, 1.0 if by_cpu else self.waiting_limit, by_cpu)

    @property
    def deadline(self) -> Optional[Deadline]:
        return None if self.deadline_s is None else Deadline(self.deadline_s, self.deadline_share)

    @property
    def terms(self) -> Terms:
        return Terms(
            self.region,
            self.operating_system,
            self.term,
            self.currency,
            tuple(self.rate),
            self.runs_per_rental,
            self.disk_gib,
            self.egress_gib,
            self.head,
            self._loss(),
            self.interruptions_per_hour,
            self.interruptions_source or "",
        )

    def _loss(self) -> Loss:
        """What an interruption takes."""
        rate = self.interruptions_per_hour
        if rate is not None and not 0 <= rate <= 60:
            raise BadInput(f"--interruptions-per-hour is {rate}", "use a number from 0 to 60")
        if rate is not None and not self.interruptions_source:
            raise BadInput(
                f"--interruptions-per-hour {rate:g} without its source",
                'add --interruptions-source, for instance "provider\'s advisor, 2026-11-01"',
            )
        if self.recovery is None:
            return Loss(self.checkpoint_s)
        return read_recovery(self.recovery, self.checkpoint_s)


# Written once for all commands that answer: name, type, option.
_OPTIONS: tuple[tuple[str, Any, Any], ...] = (
    (
        "price",
        list[str],
        typer.Option(
            [],
            "--price",
            help="MACHINE=PROVIDER/SHAPE, or MACHINE~PROVIDER/SHAPE for an estimate per core; "
            "add ,region=R ,os=O ,term=T where machines differ",
        ),
    ),
    ("catalogue", Optional[Path], CATALOGUE),
    ("region", Optional[str], typer.Option(None, "--region", help="region of the prices")),
    (
        "operating_system",
        Optional[str],
        typer.Option(None, "--os", help="operating system that the prices include"),
    ),
    (
        "term",
        Optional[str],
        typer.Option(
            None, "--term", help="on-demand (default), spot, reserved-1y, reserved-3y, internal"
        ),
    ),
    ("currency", Optional[str], typer.Option(None, "--currency", help="of the answer")),
    (
        "rate",
        list[str],
        typer.Option([], "--rate", help="CURRENCY=VALUE@YYYY-MM-DD, for instance EUR=1.08@..."),
    ),
    (
        "runs_per_rental",
        int,
        typer.Option(
            RUNS_PER_RENTAL,
            "--runs-per-rental",
            help="runs one after the other in one rental: its least time and steps are billed once",
        ),
    ),
    ("disk_gib", float, typer.Option(0.0, "--disk-gib", help="disk of every node, in GiB")),
    ("egress_gib", float, typer.Option(0.0, "--egress-gib", help="GiB that a run sends out")),
    ("head", Optional[str], typer.Option(None, "--head", help="PROVIDER/SHAPE of the head node")),
    (
        "interruptions_per_hour",
        Optional[float],
        typer.Option(
            None,
            "--interruptions-per-hour",
            help="of one node on spot; without it what the price row says",
        ),
    ),
    (
        "interruptions_source",
        Optional[str],
        typer.Option(None, "--interruptions-source", help="where that rate is from"),
    ),
    (
        "checkpoint_s",
        Optional[float],
        typer.Option(
            None,
            "--checkpoint-s",
            help="seconds of work between checkpoints, on spot; without it an interrupted run"
            " begins again",
        ),
    ),
    (
        "recovery",
        Optional[Path],
        typer.Option(
            None, "--recovery", help="what checkpoints cost, from `hpcaas recovery`; on spot"
        ),
    ),
    (
        "mix",
        Optional[str],
        typer.Option(None, "--mix", help="APP=RUNS,... ; equal numbers of all by default"),
    ),
    (
        "deadline_s",
        Optional[float],
        typer.Option(None, "--deadline-s", help="seconds in which a run must be done"),
    ),
    (
        "deadline_share",
        float,
        typer.Option(
            Deadline.share, "--deadline-share", help="share of the runs that must meet the deadline"
        ),
    ),
    (
        "accept_flaky",
        bool,
        typer.Option(
            False,
            "--accept-flaky",
            help="also recommend what sometimes crashed, hung or gave a wrong answer",
        ),
    ),
    (
        "waiting_limit",
        float,
        typer.Option(
            WAITING_LIMIT,
            "--waiting-limit",
            help="no verdict from runs that waited longer than this share for a CPU",
        ),
    ),
    (
        "by",
        str,
        typer.Option(
            "time",
            "--by",
            help="time, or cpu: CPU seconds, which other users of a machine disturb less (for "
            "compute-bound runs; no costs then)",
        ),
    ),
)


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of a question to a command; it gets them as one argument, `question`."""

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        question = Question(**{name: given.pop(name) for name, _, _ in _OPTIONS})
        command(question=question, **given)

    signature = inspect.signature(command, eval_str=True)
    kept = [p for p in signature.parameters.values() if p.name != "question"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, keyword, default=option, annotation=kind)
        for name, kind, option in _OPTIONS
    ]
    wrapper.__signature__ = signature.replace(parameters=[*kept, *added])  # type: ignore
    wrapper.__annotations__ = {p.name: p.annotation for p in (*kept, *added)}
    del wrapper.__wrapped__  # typer would read the command's own signature
    return wrapper


def _by_cpu(results: ResultSet) -> None:
    """CPU seconds in place of time. Waiting vanishes and spinning counts: a remark says so."""
    for sample in results.samples:
        sample.seconds = (sample.load.cpu_seconds or None) if sample.ok else None
        sample.wall_seconds = None
    results.samples = [
        s for s in results.samples if s.seconds is not None or s.status is not Status.OK
    ]
    results.notes.insert(
        0,
        "ALL TIMES HERE ARE CPU SECONDS of launcher and ranks together, not time to solution; no"
        " costs are computed from them",
    )


def _read(name: str) -> ResultSet:
    from .dataset import paper

    if name == "paper":
        return paper()
    label, equals, file = name.partition("=")
    if equals and not Path(name).exists():
        return renamed(_read(file), label)
    return ResultSet.load(Path(name))


def load(names: list[str], by: str = "time") -> ResultSet:
    from .running.campaign import flag_outliers

    # Nothing that is read here is thrown away: looking for garbage among 100,000 samples took as
    # long as reading them.
    gc.disable()
    results = merge([_read(name) for name in names])
    gc.freeze()
    gc.enable()
    if by not in ("time", "cpu"):
        raise HpcaasError(f"--by '{by}' is not known", "use time or cpu")
    if by == "cpu":
        _by_cpu(results)
    flag_outliers(results)
    if not results.samples:
        raise HpcaasError("these results hold no sample", "measure first")
    return results


def price(results: ResultSet, question: Question) -> Pricing:
    from .prices import load_catalogue

    if question.by == "cpu":
        if question.price:
            raise BadInput("--by cpu with --price", "CPU seconds are not billed: leave one out")
        return Pricing({}, {}, results.machines)
    rows = load_catalogue(question.catalogue)
    named = list(question.price)
    # The paper's machines come with the paper's own prices, as the estimates they are.
    own = {n.replace("=", "~").split("~")[0] for n in named}
    published = {s.machine for s in results.samples if s.campaign == "paper"}
    named += [
        p
        for p in paper_pricing(results, rows)
        if question.catalogue is None and p.split("~")[0] in published - own
    ]
    return price_machines(results, rows, named, question.terms)


def register(app: typer.Typer) -> None:
    for command in (report, advise, compare, show, paper, recovery, calibrate):
        app.command()(command)
    app.command("merge")(merge_files)


@asks
def report(
    files: list[str] = RESULTS,
    html: Path = typer.Option(Path("report.html"), help="the page"),
    as_json: Optional[Path] = typer.Option(None, "--json"),
    as_csv: Optional[Path] = typer.Option(None, "--csv", help="one line per run, with its cost"),
    title: str = typer.Option("HPCaaS-Bench report"),
    *,
    question: Question,
) -> None:
    """One self-contained page that begins with the answer, and JSON and CSV of the same data."""
    from .report.export import to_csv, to_json
    from .report.page import page

    results = load(files, question.by)
    pricing = price(results, question)
    asked = (question.deadline, question.mix, question.trust)
    html.write_text(page(results, pricing, title, *asked))
    console.print(f"page: '{html}' ({html.stat().st_size // 1024} KiB)")
    if as_json:
        as_json.write_text(to_json(results, pricing, *asked))
    if as_csv:
        as_csv.write_text(to_csv(results, pricing))


@asks
def advise(
    files: list[str] = RESULTS,
    as_json: bool = typer.Option(False, "--json"),
    predict: Optional[str] = typer.Option(
        None, help="numbers of nodes that were not measured, for instance 16,32"
    ),
    *,
    question: Question,
) -> None:
    """What to rent and how to run it, for each application and for the mix: cost, hours, what comes
    second and how sure that is; then the evidence and the paper's eight lessons in this data."""
    from .answers import advise as answers

    results = load(files, question.by)
    pricing = price(results, question)
    asked = (question.deadline, question.mix, question.trust)
    advice = answers.advise(results, pricing, *asked, _nodes(predict))
    if as_json:
        print(json.dumps(answers.as_dict(advice), indent=1))
        return
    print("\n".join([answers.as_text(advice), "", "HOLDS", *(f"  {h}" for h in holds(results))]))


def _nodes(text: Optional[str]) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")] if text else []
    except ValueError:
        found = [0]
    if any(not 1 <= n <= 1_000_000 for n in found):
        raise BadInput(f"--predict '{text}' is not a list of numbers of nodes", "write 16,32")
    return found


Sides = dict[str, ResultSet]


def _side(text: str) -> Sides:
    """A file, `paper`, or FILE:MACHINE: the results of each of its machines."""
    from .answers import compare as answers

    name, colon, machine = text.rpartition(":")
    if not colon or Path(text).exists():
        results = load([text])
        parts = {m: answers.split_by_machine(results, m) for m in results.machines}
        return {m: part for m, part in parts.items() if part}
    results = load([name])
    part = answers.split_by_machine(results, machine)
    if part is None:
        raise HpcaasError(
            f"'{name}' holds no machine '{machine}'", f"it holds {', '.join(results.machines)}"
        )
    return {machine: part}


Pair = tuple[str, ResultSet, str, ResultSet]


def _within(name: str, side: Sides) -> list[Pair]:
    """Each machine of one file with every other."""
    if len(side) < 2:
        raise BadInput(
            f"'{name}' holds one machine, '{next(iter(side))}'", "name a second file or machine"
        )
    return [(m, side[m], n, side[n]) for m, n in itertools.combinations(side, 2)]


def _pairs(a: str, b: Optional[str]) -> tuple[list[Pair], str]:
    """What is compared with what, and what has no partner. One machine on each side is one pair;
    otherwise each machine is compared with itself, or, in one file, with every other."""
    one = _side(a)
    if b is None:
        return _within(a, one), ""
    two = _side(b)
    if len(one) == len(two) == 1:
        (mine,), (theirs,) = one.values(), two.values()
        return [(a, mine, b, theirs)], ""
    common = [m for m in one if m in two]
    if not common:
        raise BadInput(
            f"'{a}' holds {', '.join(one)} and '{b}' holds {', '.join(two)}: which is to be"
            " compared with which cannot be told",
            "name one machine of each: FILE:MACHINE",
        )
    left = [f"{m} is only in {a if m in one else b}" for m in {**one, **two} if m not in common]
    return [(f"{a}:{m}", one[m], f"{b}:{m}", two[m]) for m in common], "; ".join(left)


def compare(
    a: str = typer.Argument(..., help="results.json, `paper`, or FILE:MACHINE"),
    b: Optional[str] = typer.Argument(
        None, help="the same; left out: every machine of A with every other"
    ),
    any_target: bool = typer.Option(
        False, help="treat builds for each machine's own target as the same choice"
    ),
    any_version: bool = typer.Option(
        False, help="also compare different versions of an application"
    ),
    accept_flaky: bool = typer.Option(
        False, "--accept-flaky", help="also compare what sometimes went wrong"
    ),
    as_json: bool = typer.Option(False, "--json"),
    html: Optional[Path] = typer.Option(None, help="a page of its own, to share"),
) -> None:
    """Two machines, or one before and after, with what is significant. Files of several machines
    are answered machine by machine."""
    from .answers import compare as answers
    from .report.compared import page

    pairs, left = _pairs(a, b)
    same, trust = answers.Same(any_target, any_version), Trust(accept_flaky)
    found = [(answers.compare(one, two, (m, n), same, trust), m, n) for m, one, n, two in pairs]
    if html:
        html.write_text(page(found))
        console.print(f"page: '{html}' ({html.stat().st_size // 1024} KiB)")
    if as_json:
        parts = [{"a": m, "b": n, **answers.as_dict(r)} for r, m, n in found]
        print(json.dumps(parts[0] if len(parts) == 1 else parts, indent=1))
        return
    for result, m, n in found:
        print(f"== {m} against {n}\n{answers.as_text(result)}\n")
    if left:
        print(f"not compared: {left}")


def merge_files(
    files: list[str] = RESULTS, to: Path = typer.Option(Path("merged.json"), help="where to write")
) -> None:
    """Results of several machines and providers in one file."""
    results = load(files)
    results.save(to)
    console.print(f"{len(results.samples)} samples of {len(results.machines)} machines in '{to}'")
    for line in holds(results):
        console.print(f"  {line}", markup=False, highlight=False)


def holds(results: ResultSet) -> list[str]:
    """What a set of results holds: one line per machine and application."""
    found: dict[tuple[str, str, str], list[Sample]] = {}
    for s in results.samples:
        found.setdefault((s.machine, s.configuration.app, s.configuration.size), []).append(s)
    lines = []
    for (machine, app, size), some in found.items():
        good = [s for s in some if s.ok]
        quiet = sum(not disturbed(s.load, WAITING_LIMIT) for s in good)
        settings = len({s.configuration.key() for s in some})
        when = sorted(s.started[:10] for s in some if s.started)
        days = f", {when[0]} to {when[-1]}" if when else ""
        shape = results.machines[machine].get("shape")
        of = f" (one {shape})" if shape else ""
        lines.append(
            f"{machine}{of}: {app} {size}: {len(some)} runs of {settings} configurations,"
            f" {len(good)} good, {quiet} of them undisturbed{days}"
        )
    return lines


def show(files: list[str] = RESULTS) -> None:
    """What results hold: machines, applications, how many runs, how many of them count."""
    for name in files:
        results = load([name])
        print(f"{name} (suite {results.suite_version}):")
        print("\n".join(f"  {line}" for line in holds(results)))


def paper(
    table3: bool = typer.Option(False, help="the steps of Table 3, printed and corrected"),
    to: Optional[Path] = typer.Option(None, help="write it as results.json"),
) -> None:
    """The paper's tables as a data set."""
    from .dataset import paper as dataset, table_3

    if to:
        dataset().save(to)
        console.print(f"the paper's data in '{to}'")
    if table3 or not to:
        for name, step in table_3().items():
            console.print(f"{name}: best of Table 2 {step.best_seconds:.3g} s")
            for what, printed, correct, error in step.quotients():
                flag = f"  <- ERROR in the paper: {error}" if error else ""
                console.print(f"  {what}: printed {printed}; correct {correct}{flag}", markup=False)


def recovery(
    checkpoint: str = typer.Option(..., help="a line of shell that writes a checkpoint"),
    resume: str = typer.Option(..., help="one that goes on from it; ends when the work goes on"),
    prepare: str = typer.Option("", help="one before each pair, not measured"),
    repeats: int = typer.Option(5, min=1, help="how often both are measured"),
    time_limit_s: float = typer.Option(3600.0, min=1.0, help="of one line"),
    to: Path = typer.Option(Path("recovery.json"), help="for --recovery"),
) -> None:
    """What surviving an interruption costs a program, measured: for the price of spot."""
    from .recovery import Commands, measure, write

    found = measure(Commands(checkpoint, resume, prepare), repeats, time_limit_s)
    write(found, to)
    for what in ("write_s", "resume_s"):
        console.print(f"{what}: {', '.join(f'{s:g}' for s in found[what])}", highlight=False)
    console.print(f"in '{to}'; use it with --recovery '{to}' --checkpoint-s SECONDS", markup=False)


def calibrate(
    sets: Optional[int] = typer.Option(None, min=1, help="of each case; 400 by default"),
    quick: bool = typer.Option(False, help="60 sets of each: seconds, and rough"),
) -> None:
    """How often the answers are wrong, on drawn results of known truth: false and missed answers
    beside what is promised."""
    from . import calibrate as drawn

    count = sets or (drawn.QUICK if quick else drawn.SETS)
    rows = []
    for case in drawn.CASES:
        console.print(f"drawing {case.where}: {case.name}", highlight=False, style="dim")
        rows.append(drawn.run(case, count))
    print(drawn.as_markdown(rows))
    broken = [row for row in rows if not row.kept]
    least = drawn.FALSE * 100
    print(f"\n{count} sets of each case; promised: at most {least:g} % false in each.")
    for row in broken:
        print(f"NOT KEPT: {row.case.where}, {row.case.name}")
    raise typer.Exit(1 if broken else 0)
