"""A campaign: builds and inputs once, then a fixed number of rounds of runs, or fewer when the
budget is spent.

Everything is in a journal that survives any interruption; the same command continues where it
stopped. A journal belongs to one machine.
"""

from __future__ import annotations

import random
import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np
from pydantic import ValidationError

from ..errors import BadInput, NoSpace
from ..machine import Topology
from ..model import OVERHEAD_S, ResultSet, Sample, Status, differing, first_error, sample_id
from ..placement import DEFAULT_DISTRIBUTION, place
from ..plan import Plan, Planned
from ..stats import outliers
from ..tools import Tools
from . import crash, leftovers
from .jobs import Job, Order, resolve
from .record import append, read_journal, record_failure
from .reframe import run_batch

# Nothing ran: when what was missing has been brought, the failure says nothing any more.
NOT_RUN = (Status.BUILD_FAILED.value, Status.PREPARE_FAILED.value, Status.DISK_FULL.value)
# In the id of a run that only tries the cause of a crash.
TRIAL = "-stack"


def _trial(entry: dict[str, Any]) -> bool:
    return TRIAL in entry["sample"]["id"].rsplit(".", 1)[-1]


def _there(job: Job) -> bool:
    return Path(job.destination).exists()


# A session holds about this much work: long enough to make ReFrame's start-up small, short enough
# for the budget to be kept.
BATCH_S = 90.0

# Runs of a configuration with impossible times, until it is given up.
CLOCK_TRIES = 3

# Of each application, what a search runs again afresh.
FINALISTS = 3


@dataclass
class Options:
    budget_s: Optional[float] = None  # of measuring; builds and inputs are not counted
    # of one run; None: ten times the estimate, at least two minutes
    time_limit_s: Optional[int] = None
    seed: int = 1
    diagnose: bool = True
    retry: bool = False  # measure again what did not end well before
    over_s: float = 0.0  # time over which the rounds are spread; 0: one after the other


@dataclass
class Progress:
    """What the progress bar shows."""

    phase: str = "starting"
    done: int = 0
    expected: int = 0
    left_s: float = 0.0
    last: str = ""


@dataclass
class _State:
    samples: dict[str, list[Sample]] = field(default_factory=dict)  # configuration key -> samples
    given_up: set[str] = field(default_factory=set)


class Campaign:
    def __init__(
        self,
        directory: Path,
        tools: Tools,
        machine: dict[str, Any],
        topology: Topology,
        options: Options,
        report: Callable[[Progress], None] = lambda _: None,
    ):
        self.directory = directory
        self.cache = directory.parent / "cache"
        self.journal = directory / "journal.jsonl"
        self.tools = tools
        self.machine = machine
        self.topology = topology
        self.options = options
        self.report = report
        self.progress = Progress()
        self.state = _State()
        self._started = time.monotonic()
        self._measuring_s = 0.0
        directory.mkdir(parents=True, exist_ok=True)
        self._refuse_another_machine()

    # What was done before

    def _refuse_another_machine(self) -> None:
        """A home directory may be shared: samples of another machine are not samples of this."""
        for entry in read_journal(self.journal):
            before = entry.get("machine")
            if before is None:
                continue
            other = differing(before, self.machine)
            mine, theirs = self.machine.get("instance"), before.get("instance")
            if not other and mine and theirs and mine != theirs:
                other = [f"instance {theirs} and {mine}"]
            if before.get("id") != self.machine["id"] or other:
                raise BadInput(
                    f"'{self.directory}' holds samples of machine '{before.get('id')}', this is"
                    f" '{self.machine['id']}'" + (f" ({'; '.join(other)})" if other else ""),
                    "give every machine an --out or --campaign of its own, then merge the results",
                )

    def resume(self) -> int:
        """Reads the journal; returns how many samples of an interrupted campaign are kept."""
        self.state.samples.clear()
        self.state.given_up.clear()
        entries = self._entries()
        searched = searched_in(entries)
        for entry in entries:
            if "retry" in entry:
                self.state.given_up.clear()
            elif "sample" in entry and not _trial(entry):
                sample = self._sample(entry)
                sample.searched = (sample.configuration.key(), sample.repeat) in searched
                self.state.samples.setdefault(sample.configuration.key(), []).append(sample)
                # One failure is a result. Repeating it would cost the time of the others; --retry
                # asks for it.
                if not sample.ok and not self._once_more(sample):
                    self.state.given_up.add(sample.configuration.key())
        return sum(len(s) for s in self.state.samples.values())

    def _once_more(self, sample: Sample) -> bool:
        """A clock that was set is no failure of the run, unless it happens every time."""
        some = self.state.samples[sample.configuration.key()]
        odd = sum(s.status is Status.CLOCK for s in some)
        return sample.status is Status.CLOCK and odd < CLOCK_TRIES

    def _sample(self, entry: dict[str, Any]) -> Sample:
        try:
            return Sample.model_validate(entry["sample"])
        except ValidationError as error:
            raise BadInput(
                f"'{self.journal}' was edited: {first_error(error)}",
                "put it back as it was, or begin another --campaign",
            )

    def _entries(self) -> list[dict[str, Any]]:
        """The journal without builds and inputs that failed before a `--retry`. A run that went
        wrong stays a sample: doing it again must not make it forgotten."""
        kept: list[dict[str, Any]] = []
        for entry in read_journal(self.journal):
            if "retry" in entry:
                kept = [
                    e for e in kept if "sample" not in e or e["sample"]["status"] not in NOT_RUN
                ]
            kept.append(entry)
        return kept

    def _tick(self) -> None:
        for entry in read_journal(self.journal)[-1:]:
            if "sample" in entry:
                sample = entry["sample"]
                self.progress.last = f"{sample['configuration']['app']} {sample['status']}" + (
                    f" {sample['seconds']:.3g} s" if "seconds" in sample else ""
                )
        self.report(self.progress)

    # One execution

    def _jobs(self, planned: Planned, repeat: int, stack: str = "") -> tuple[list[Job], Job]:
        config = planned.config
        places = None
        if config.nodes == 1 and self.tools.apps[config.app].applies("binding") is None:
            places = place(
                self.topology,
                nodes=1,
                ranks=config.ranks,
                per_node=config.per_node,
                threads=config.threads,
                binding=config.binding or "none",
                distribution=config.distribution or DEFAULT_DISTRIBUTION,
                smt=config.smt,
                mpi=config.mpi,
            )
        # Without an MPI launcher nobody binds the process itself; OpenMP binds its threads.
        expected = [sorted(p.cpus) for p in places] if places and config.mpi else None
        limit = self.options.time_limit_s or int(max(120.0, 10.0 * planned.estimate_s))
        return resolve(
            config,
            self.tools,
            Order(
                self.cache,
                self.directory / "records",
                repeat,
                self.directory.name,
                self.machine,
                limit,
                self.topology.threads_per_core > 1,
                stack,
                expected,
            ),
        )

    def _check_disk(self, plan: Plan) -> None:
        need = max(
            (self.tools.apps[p.config.app].size(p.config).disk_mib for p in plan.runs), default=0
        )
        free = shutil.disk_usage(self.directory).free / 2**20
        if free < need + 100:
            raise NoSpace(
                f"'{self.directory}' has {free:.0f} MiB free, these runs need {need + 100}",
                "free space, or choose another --out",
            )

    # The phases

    def run(
        self,
        plan: Plan,
        chooser: Optional[Callable[[dict[str, list[Sample]], float], Optional[Planned]]] = None,
    ) -> ResultSet:
        """Measures a plan. `chooser` is the budgeted search: it is asked for the next configuration
        until it answers None."""
        self._check_disk(plan)
        try:
            append(self.journal, {"machine": self.machine})
            self._fix_repeats(plan.repeats)
            if self.options.retry:
                append(self.journal, {"retry": True})
            self.resume()
            runnable = self._provide(plan)
            self._measuring_s = 0.0
            if chooser is not None:
                self._searching(runnable, plan, chooser)
            else:
                self._rounds(runnable, plan)
        except OSError as error:
            if error.errno == 28:
                raise NoSpace(
                    f"the disk of '{self.directory}' is full; all samples up to now are in the"
                    " journal",
                    "free space and run the same command again",
                )
            raise
        return self.results()

    def _provide(self, plan: Plan) -> list[Planned]:
        """Builds and inputs. A failure is recorded with its log for every configuration that needs
        it, and the others go on."""
        self.progress.phase = "building and preparing inputs"
        needed: dict[str, list[Job]] = {}
        first: dict[str, Job] = {}
        by_key = {p.config.key(): p for p in plan.runs}
        for key, planned in by_key.items():
            if key not in self.state.given_up:
                needed[key], first[key] = self._jobs(planned, 0)
        failed: dict[str, str] = {}
        # Depth by depth: a decomposition starts from the mesh that was made the round before.
        for depth in range(max(map(len, needed.values()), default=0)):
            failed |= self._make([chain[: depth + 1] for chain in needed.values()], depth)
        for key, chain in needed.items():
            broken = next((job for job in chain if not _there(job)), None)
            if broken is not None:
                self._not_provided(first[key], broken, failed)
        self.resume()
        return [p for key, p in by_key.items() if key not in self.state.given_up]

    def _make(self, chains: list[list[Job]], depth: int) -> dict[str, str]:
        """The last step of every chain whose steps before it are there; returns what failed."""
        todo = {
            chain[depth].id: chain[depth]
            for chain in chains
            if len(chain) > depth and not _there(chain[depth]) and all(map(_there, chain[:depth]))
        }
        self.progress.expected, self.progress.done = len(todo), 0
        jobs = [todo[name] for name in sorted(todo)]
        failed = run_batch(jobs, self.directory, self.tools.site, self._tick)
        return {name: why for name, why in failed.items() if not _there(todo[name])}

    def _not_provided(self, run: Job, broken: Job, failed: dict[str, str]) -> None:
        """A run that cannot be started, with what its build or input said."""
        why = failed.get(broken.id, "not done: an earlier step failed")
        log = self._keep_log(broken.id)
        if log:
            text = (self.directory / log).read_text(errors="replace")
            why = f"{why}; {crash.first_error(text)}"
        status = Status.BUILD_FAILED if broken.kind == "build" else Status.PREPARE_FAILED
        record_failure(self.journal, run, status, why, log)

    def _keep_log(self, job_id: str) -> Optional[str]:
        """Output of a failed job, copied beside the records: stage directories may be cleaned."""
        stages = sorted(
            (self.directory / "reframe").rglob("rfm_job.out"), key=lambda p: p.stat().st_mtime
        )
        for out in reversed(stages):
            script = out.with_name("rfm_job.sh")
            if script.exists() and job_id in script.read_text(errors="replace"):
                target = self.directory / "records" / f"{job_id}.log"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(
                    out.read_text(errors="replace")
                    + out.with_name("rfm_job.err").read_text(errors="replace")
                )
                return f"records/{target.name}"
        return None

    def _wanted(self, planned: Planned, plan: Plan) -> bool:
        """The number is fixed before the first run and never looks at the times: otherwise the
        tests of the answers would not hold."""
        done = self._done(planned)
        return planned.config.key() not in self.state.given_up and done < plan.repeats

    def _done(self, planned: Planned) -> int:
        """Runs that count for the plan. What a search ran while it was choosing does not."""
        samples = self.state.samples.get(planned.config.key(), [])
        return sum(s.ok and not s.searched for s in samples)

    def _fix_repeats(self, repeats: int) -> None:
        for entry in read_journal(self.journal):
            before = entry.get("repeats", repeats)
            if before != repeats:
                raise BadInput(
                    f"'{self.directory}' was begun with {before} repeats, this asks for {repeats}",
                    f"go on with --repeats {before}, or begin another --campaign: adding runs after"
                    " looking finds effects in noise",
                )
        append(self.journal, {"repeats": repeats})

    def _estimate(self, planned: Planned) -> float:
        walls = [
            s.wall_seconds
            for s in self.state.samples.get(planned.config.key(), [])
            if s.wall_seconds
        ]
        return (sum(walls) / len(walls) if walls else planned.estimate_s) + OVERHEAD_S

    def _left(self) -> float:
        return (
            float("inf")
            if self.options.budget_s is None
            else self.options.budget_s - self._measuring_s
        )

    def _rounds(self, runnable: list[Planned], plan: Plan) -> None:
        """Every round runs each unfinished configuration once, in random order, so that a drift of
        the machine (temperature, neighbours) falls on all alike."""
        order = random.Random(self.options.seed)
        moments = self._moments(plan.repeats) if self.options.over_s else []
        while todo := [p for p in runnable if self._wanted(p, plan)]:
            order.shuffle(todo)
            if moments:
                self._wait_until(moments[min(map(self._done, todo))])
            left = {p.config.key(): plan.repeats - self._done(p) for p in todo}
            self.progress.phase = "measuring"
            self.progress.left_s = sum(self._estimate(p) * left[p.config.key()] for p in todo)
            self.progress.done = sum(len(s) for s in self.state.samples.values())
            self.progress.expected = self.progress.done + sum(left.values())
            while todo:
                if self._left() <= 0:
                    return
                self._execute(self._batch(todo))

    def _moments(self, rounds: int) -> list[float]:
        """When each round begins: at a moment that is drawn in its own part of the whole time, so
        that hours of the day and days of the week are not those of one choice or one round. Kept in
        the journal: what goes on later keeps to them."""
        for entry in read_journal(self.journal):
            if "moments" in entry:
                return entry["moments"]
        draw, part = random.Random(self.options.seed), self.options.over_s / rounds
        moments = [time.time() + part * (number + draw.random()) for number in range(rounds)]
        append(self.journal, {"moments": moments})
        return moments

    def _wait_until(self, moment: float) -> None:
        self.progress.phase = time.strftime("waiting until %a %H:%M", time.localtime(moment))
        while (left := moment - time.time()) > 0:
            self.report(self.progress)
            time.sleep(min(left, 5.0))

    def _batch(self, todo: list[Planned]) -> list[Planned]:
        """Takes from the end of `todo` about one session's work, one run at least."""
        batch, limit = [todo.pop()], min(BATCH_S, self._left())
        while todo and sum(map(self._estimate, batch)) < limit:
            batch.append(todo.pop())
        return batch

    def _searching(
        self,
        runnable: list[Planned],
        plan: Plan,
        chooser: Callable[[dict[str, list[Sample]], float], Optional[Planned]],
    ) -> None:
        """Half of the time searches, the rest runs the best of each application afresh. A search
        runs a winner again because it won: only the fresh runs are judged."""
        by_key = {p.config.key(): p for p in runnable}
        budget = self._left()
        while self._left() > budget / 2:
            self.progress.phase, self.progress.left_s = "searching", self._left() - budget / 2
            planned = chooser(self.state.samples, self._left() - budget / 2)
            if planned is None or planned.config.key() not in by_key:
                break
            self._execute([planned], searched=True)
        self._rounds(self._finalists(runnable), plan)

    def _finalists(self, runnable: list[Planned]) -> list[Planned]:
        """Of every application those that were fastest while searching."""
        medians: dict[str, list[tuple[float, Planned]]] = {}
        for planned in runnable:
            key = planned.config.key()
            times = [s.seconds for s in self.state.samples.get(key, []) if s.ok and s.seconds]
            if times and key not in self.state.given_up:
                pair = float(np.median(times)), planned
                medians.setdefault(planned.config.app, []).append(pair)
        return [
            planned
            for pairs in medians.values()
            for _, planned in sorted(pairs, key=lambda pair: pair[0])[:FINALISTS]
        ]

    def _execute(self, batch: list[Planned], searched: bool = False) -> None:
        start = time.monotonic()
        runs: list[Job] = []
        for planned in batch:
            repeat = len(self.state.samples.get(planned.config.key(), []))
            if searched:  # before the runs, so that an interruption cannot make them fresh ones
                append(self.journal, {"searched": [planned.config.key(), repeat]})
            _, job = self._jobs(planned, repeat)
            Path(job.destination).mkdir(parents=True, exist_ok=True)
            runs.append(job)
        try:
            failed = run_batch(runs, self.directory, self.tools.site, self._tick)
        except KeyboardInterrupt:
            for job in runs:
                leftovers.end(str(Path(job.destination) / "watch"))
            raise
        self._record_silent(runs, failed)
        self.resume()
        if self.options.diagnose:
            for planned in batch:
                self._diagnose(planned)
        spent = time.monotonic() - start
        self._measuring_s += spent
        self.progress.done = sum(len(s) for s in self.state.samples.values())
        self.progress.left_s = max(0.0, self.progress.left_s - spent)
        self._tick()

    def _record_silent(self, runs: list[Job], failed: dict[str, str]) -> None:
        """Runs that left no sample: their time was up, or their launcher did not start."""
        recorded = {e["sample"]["id"] for e in self._entries() if "sample" in e}
        for job in runs:
            if sample_id(job.machine, job.campaign, job.id) in recorded:
                continue
            why, status = failed.get(job.id, "ReFrame says nothing"), Status.FAILED
            if re.search(r"time.*limit|limit.*time|timed out|timeout", why, re.I | re.S):
                status = Status.TIMEOUT
                why = f"no end within {job.time_limit_s} s; all its processes were ended"
            left = leftovers.end(str(Path(job.destination) / "watch"))
            record_failure(self.journal, job, status, why, self._keep_log(job.id), left)

    def _diagnose(self, planned: Planned) -> None:
        """Tries whether a segmentation fault comes from a finite stack limit: as many more runs
        with and without it as it takes to tell that from chance."""
        samples = self.state.samples.get(planned.config.key(), [])
        if not samples or samples[-1].status is not Status.CRASHED:
            return
        sample, entries = samples[-1], self._entries()
        sets = (e.get("provenance", {}).get(sample.provenance) for e in entries)
        provenance: dict[str, Any] = next(filter(None, sets), {})
        stack = (provenance.get("stack_limit_kib") or ["unknown"])[0]
        tried = any(e.get("diagnosed") == sample.id for e in entries)
        if tried or not crash.may_be_stack(sample.signal, stack):
            return
        limited, unlimited = [True], self._crashes(planned, sample.repeat, 0, ["unlimited"])
        # One crash without the limit settles it: more runs could only say the same.
        while not unlimited[-1] and limited[-1] and len(unlimited) < crash.TRIES:
            both = self._crashes(planned, sample.repeat, len(unlimited), ["", "unlimited"])
            limited.append(both[0])
            unlimited.append(both[1])
        words = crash.verdict(
            sample.diagnosis or "", str(provenance.get("flags", "")), limited, unlimited
        )
        append(self.journal, {"diagnosed": sample.id, "diagnosis": words})

    def _crashes(self, planned: Planned, repeat: int, number: int, stacks: list[str]) -> list[bool]:
        """One more run of a crashed configuration under each of these limits, outside the samples;
        whether each crashed too."""
        jobs = [self._trial_job(planned, repeat, number, stack) for stack in stacks]
        run_batch(jobs, self.directory, self.tools.site, self._tick)
        ended = {
            e["sample"]["id"]: e["sample"]["status"]
            for e in read_journal(self.journal)
            if "sample" in e
        }
        names = (sample_id(job.machine, job.campaign, job.id) for job in jobs)
        return [ended.get(name) != Status.OK.value for name in names]

    def _trial_job(self, planned: Planned, repeat: int, number: int, stack: str) -> Job:
        _, job = self._jobs(planned, repeat, stack=stack)
        name = f"{planned.config.key()}-{repeat}{TRIAL}-{stack or 'limited'}-{number}"
        place = Path(job.destination).with_name(name)
        place.mkdir(parents=True, exist_ok=True)
        return job.model_copy(update={"id": name, "destination": str(place)})

    # What came out

    def results(self) -> ResultSet:
        results = ResultSet()
        diagnoses: dict[str, str] = {}
        entries = self._entries()
        searched = searched_in(entries)
        for entry in entries:
            if "machine" in entry:
                results.machines[entry["machine"]["id"]] = entry["machine"]
            elif "noise" in entry:
                note = f"noise check before {self.directory.name}: {entry['noise']['verdict']}" + (
                    f" ({'; '.join(entry['noise']['reasons'])})"
                    if entry["noise"]["reasons"]
                    else ""
                )
                if note not in results.notes:
                    results.notes.append(note)
            elif "diagnosed" in entry:
                diagnoses[entry["diagnosed"]] = entry["diagnosis"]
            elif "sample" in entry and not _trial(entry):
                results.samples.append(self._sample(entry))
                results.provenance.update(entry["provenance"])
        for sample in results.samples:
            sample.diagnosis = diagnoses.get(sample.id, sample.diagnosis)
            sample.searched = (sample.configuration.key(), sample.repeat) in searched
        flag_outliers(results)
        return results


def searched_in(entries: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """(configuration, repeat) of the runs that a search made while it was choosing."""
    return {(key, repeat) for e in entries if "searched" in e for key, repeat in [e["searched"]]}


def flag_outliers(results: ResultSet) -> None:
    """Outliers are kept and flagged: they may be the truth about this machine."""
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in results.samples:
        if sample.ok:
            groups.setdefault((sample.machine, sample.configuration.key()), []).append(sample)
    for samples in groups.values():
        for sample, odd in zip(samples, outliers([s.seconds for s in samples if s.seconds])):
            sample.flags = [f for f in sample.flags if f != "outlier"] + (
                ["outlier"] if odd else []
            )


def save_results(results: ResultSet, directory: Path) -> Path:
    path = directory / "results.json"
    temporary = path.with_suffix(".part")
    results.save(temporary)
    temporary.replace(path)
    return path
