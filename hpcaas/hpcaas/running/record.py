"""From what a run left behind to a Sample: what it printed, where its ranks were, and what else the
machine did."""

from __future__ import annotations

import json
import math
import os
import re
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Optional, Sequence

from ..apps import registry
from ..apps.base import App, Reading, Unreadable
from ..machine import parse_cpu_list
from ..model import Configuration, Energy, Figure, Load, RankPlace, Sample, Status, sample_id
from ..power import parse_ipmi, parse_sacct
from ..toolchain import library_versions
from . import crash
from .jobs import Job, short_hash
from .noise import NOISY_FRACTION, NOISY_WAIT, waited_for_others


# Of a run's standard output, and as much of its errors.
PRINTED_BYTES = 64 << 20
# The two clocks of a host read apart by the coarser one's steps and a few system calls.
CLOCK_STEP_S = 0.05


def append(journal: Path, entry: dict[str, Any]) -> None:
    """One line, on disk before the next run starts: a crash of anything loses at most the run in
    progress."""
    with journal.open("a") as file:
        file.write(json.dumps(entry) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_journal(journal: Path) -> list[dict[str, Any]]:
    """Entries; a last line that was cut by a full disk or a power cut is ignored."""
    entries = []
    if journal.exists():
        for line in journal.read_text(errors="replace").splitlines():
            try:
                entry = json.loads(line)
            except (json.JSONDecodeError, RecursionError):
                continue
            if isinstance(entry, dict):
                entries.append(entry)
    return entries


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def cpu_seconds(begin: str, end: str) -> Optional[float]:
    """Difference of two outputs of bash's `times`: '0m0.010s 0m0.002s' for the shell, then for its
    children."""

    def total(text: str) -> Optional[float]:
        lines = text.splitlines()
        if len(lines) < 2:
            return None
        return sum(int(m) * 60 + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", lines[1]))

    a, b = total(begin), total(end)
    return None if a is None or b is None else b - a


def load_record(node: dict[str, Any], own_cpu_s: Optional[float]) -> Load:
    begin, end = node.get("begin"), node.get("end")
    if not begin or not end:
        return Load(cpu_seconds=own_cpu_s)
    # user nice system idle iowait irq softirq steal
    delta = [b - a for a, b in zip(begin["stat"], end["stat"])]
    total = sum(delta)
    load = Load(
        load_before=begin["load1"],
        load_after=end["load1"],
        frequency_mhz_before=begin["mhz"],
        frequency_mhz_after=end["mhz"],
        cpu_seconds=own_cpu_s,
    )
    if total > 0:
        load.steal_fraction = delta[7] / total
        busy_s = (total - delta[3] - delta[4] - delta[7]) / begin["clock_tick"]
        if own_cpu_s is not None:
            load.other_fraction = max(0.0, busy_s - own_cpu_s) / (total / begin["clock_tick"])
    return load


def rapl_energy(node: dict[str, Any]) -> Energy:
    begin, end = node.get("begin", {}).get("rapl") or {}, node.get("end", {}).get("rapl") or {}
    if not begin or not end:
        return Energy(
            reason="no readable RAPL counter (/sys/class/powercap): a virtual machine, no"
            " permission, or another architecture"
        )
    joules = 0.0
    for domain, (first, wrap) in begin.items():
        last = end.get(domain, [first])[0]
        joules += ((last - first) if last >= first else (last - first + wrap)) / 1e6
    return Energy(joules=joules, source="RAPL package counters of the first node")


def energy_of(node: dict[str, Any]) -> Energy:
    """RAPL if readable, otherwise the board's power over the time of the run, otherwise what Slurm
    gathered, otherwise why there is none."""
    energy = rapl_energy(node)
    if energy.joules is not None:
        return energy
    begin, end = node.get("begin", {}), node.get("end", {})
    watts = [
        w
        for w in (parse_ipmi(begin.get("ipmi", "")), parse_ipmi(end.get("ipmi", "")))
        if w is not None
    ]
    if watts:
        # The board samples slowly: two readings are a rough mean, and said to be.
        return Energy(
            joules=sum(watts) / len(watts) * (end["time"] - begin["time"]),
            source="IPMI power readings before and after, times the run's time; first node only",
        )
    if end.get("slurm"):
        slurm = parse_sacct(end["slurm"])
        if slurm.joules is not None:
            return slurm
        energy.reason = f"{energy.reason}; {slurm.reason}"
    return energy


def watch_record(directory: Path) -> tuple[list[RankPlace], dict[str, str], set[str]]:
    """Places per rank, hashes of programs and libraries, stack limits seen."""
    places: dict[int, RankPlace] = {}
    hashes: dict[str, str] = {}
    stacks: set[str] = set()
    for path in directory.glob("rank.*"):
        parts = _text(path).split()
        if len(parts) >= 5:
            cpus = parse_cpu_list(parts[3]) if parts[3] != "unknown" else []
            places[int(parts[0])] = RankPlace(rank=int(parts[0]), host=parts[1], cpus=cpus)
            stacks.add(parts[4])
    for path in directory.glob("watch.*.json"):
        seen = json.loads(_text(path) or "{}")
        hashes.update(seen.get("hashes", {}))
        for rank in seen.get("ranks", []):
            if rank["rank"] in places:
                places[rank["rank"]].threads = [parse_cpu_list(t) for t in rank["threads"]]
    return [places[r] for r in sorted(places)], hashes, stacks


def _mpi_of(path: str) -> str:
    """Which MPI or fabric a library belongs to; empty for none. libmpi.so is OpenMPI's name, which
    Intel MPI and some builds of MPICH use too."""
    base = os.path.basename(path)
    if base.startswith("libmpi.so"):
        intel = "intel" in path or "impi" in path
        return "intelmpi" if intel else "mpich" if "mpich" in path else "openmpi"
    names = {"libmpich.so": "mpich", "libfabric": "ofi", "libucp": "ucx"}
    return next((name for prefix, name in names.items() if base.startswith(prefix)), "")


def mpi_seen(libraries: list[str]) -> list[str]:
    """MPI implementations and fabrics whose libraries were mapped: what was used, not what was
    asked for."""
    return sorted({name for path in libraries if (name := _mpi_of(path))})


def node_loads(directory: Path) -> dict[str, Load]:
    """Host -> what its watcher saw between the start of its ranks and the last look at them. Fields
    stay empty where no look saw a rank run."""
    loads: dict[str, Load] = {}
    for path in sorted(directory.glob("watch.*.json")):
        seen = json.loads(_text(path) or "{}")
        ran = sum(rank.get("ran_ns", 0) for rank in seen.get("ranks", []))
        waited = sum(rank.get("waited_ns", 0) for rank in seen.get("ranks", []))
        load = loads.setdefault(seen.get("host", path.name), Load(load_after=seen.get("load1")))
        stat = seen.get("stat", {})
        if not ran or "last" not in stat:
            continue
        load.waited_fraction = waited / (ran + waited)
        load.cpu_seconds = ran / 1e9
        delta = [b - a for a, b in zip(stat["begin"], stat["last"])]
        total = sum(delta)
        if total > 0:
            busy_s = (total - delta[3] - delta[4] - delta[7]) / seen["clock_tick"]
            load.steal_fraction = delta[7] / total
            others_s = max(0.0, busy_s - load.cpu_seconds)
            load.other_fraction = others_s / (total / seen["clock_tick"])
    return loads


def spread_over_nodes(sample: Sample, loads: dict[str, Load]) -> None:
    """A job is as slow as its slowest node: its load is the worst of its nodes', and every noisy
    node is named."""
    for name in ("steal_fraction", "other_fraction", "waited_fraction"):
        values = [v for load in loads.values() if (v := getattr(load, name)) is not None]
        setattr(sample.load, name, max(values, default=None))
    sample.nodes = loads
    for host, load in loads.items():
        flag = noise_flag(load)
        if flag:
            kind, _, words = flag.partition(": ")
            sample.flags.append(f"{kind}: {host}: {words}")


def other_processors(directory: Path, cpu_model: str) -> dict[str, str]:
    """Hosts of a run whose processor is not the machine's: a partition may hold several kinds of
    node."""
    seen = [json.loads(_text(path) or "{}") for path in sorted(directory.glob("watch.*.json"))]
    return {
        s["host"]: s["cpu_model"]
        for s in seen
        if cpu_model not in ("", "unknown") and s.get("cpu_model", cpu_model) != cpu_model
    }


def noise_flag(load: Load) -> Optional[str]:
    """`noisy` where others took time from the run. Where they only used what it left free,
    `shared`: caches and memory were not its own."""
    seen = [
        f"{v:.0%} {n}"
        for n, v in (("stolen", load.steal_fraction), ("used by others", load.other_fraction))
        if (v or 0) > NOISY_FRACTION
    ]
    waited = load.waited_fraction
    # Where nobody else used the CPUs, threads waited for each other: the run's own doing.
    kept_waiting = waited_for_others(load, NOISY_WAIT)
    if not seen and not kept_waiting:
        return None
    if waited is not None:
        seen.append(f"waited {waited:.1%} of the time for a CPU")
    taken = waited is None or kept_waiting or (load.steal_fraction or 0) > NOISY_FRACTION
    return ("noisy: " if taken else "shared: ") + ", ".join(seen)


def _verify_threads(config: Configuration, sample: Sample) -> None:
    """Where no MPI launcher binds ranks, the program binds its own threads: as many as there are
    workers, or none."""
    place = sample.placement[0]
    workers = config.ranks * config.threads
    if len(place.cpus) < 2 or len(place.threads) < workers or len(sample.placement) > 1:
        return  # nothing to tell apart, or no look saw all of them
    bound = sum(1 for cpus in place.threads if set(cpus) < set(place.cpus))
    if config.binding in ("cores", "threads") and bound < workers:
        sample.flags.append(
            f"binding differs: {bound} of {workers} workers are bound, asked for {config.binding}"
        )
    elif config.binding == "none" and bound:
        sample.flags.append(f"binding differs: {bound} threads are bound, asked for none")


def _verify(job: Job, sample: Sample, libraries: list[str]) -> None:
    """Compares what was asked for with what was seen."""
    if sample.placement and job.expected:
        _verify_ranks(job.expected, sample)
    elif sample.placement and job.configuration:
        _verify_threads(job.configuration, sample)
    if not job.container:  # its libraries are mapped behind the container's own process
        _verify_libraries(job, sample, libraries)


def _verify_ranks(expected: list[list[int]], sample: Sample) -> None:
    """CPUs that the kernel reports for each rank against those that were asked for."""
    for place in sample.placement:
        wanted = expected[place.rank] if place.rank < len(expected) else place.cpus
        if place.cpus and sorted(place.cpus) != sorted(wanted):
            sample.flags.append(
                f"binding differs: rank {place.rank} may use CPUs {place.cpus}, asked for {wanted}"
            )
            return


IMPLEMENTATIONS = ("openmpi", "mpich", "intelmpi")


def _verify_libraries(job: Job, sample: Sample, libraries: list[str]) -> None:
    """MPI and framework that the processes mapped against those that were asked for."""
    seen = mpi_seen(libraries)
    wanted = (job.static.get("mpi") or "none").split(" ")[0].rstrip("0123456789.")
    mapped = [s for s in seen if s in IMPLEMENTATIONS]
    if wanted in IMPLEMENTATIONS and mapped and wanted not in mapped:
        sample.flags.append(
            f"MPI differs: asked for {wanted}, the processes mapped {', '.join(mapped)}"
        )
    framework = job.configuration.framework if job.configuration else None
    # ob1 is inside OpenMPI's own library.
    if framework in ("ofi", "ucx") and libraries and framework not in seen:
        sample.flags.append(f"framework differs: asked for {framework}, its library was not mapped")


def _status_of(
    sample: Sample, job: Job, code: int, stdout: str, stderr: str, stage: Path, stack: str
) -> None:
    """Fills status, seconds, figure and diagnosis from the application's output and the launcher's
    exit code."""
    app = registry({"plugins": job.plugins})[job.configuration.app]
    if "No space left on device" in stdout + stderr:
        sample.status = Status.DISK_FULL
        sample.diagnosis = "the run wrote 'No space left on device'"
        return
    if max(len(stdout), len(stderr)) >= PRINTED_BYTES:
        sample.status = Status.FAILED
        sample.diagnosis = f"it printed more than {PRINTED_BYTES >> 20} MiB and was cut there"
        return
    sample.signal = crash.signal_of(code, stdout + "\n" + stderr)
    if sample.signal is not None:
        sample.status = Status.CRASHED
        sample.diagnosis = crash.explain(sample.signal, job.static.get("flags", ""), stack)
        return
    reading, why = _read(app, stdout, stage, job.configuration)
    sample.extra = reading.extra if reading else {}
    if reading is None or code != 0:
        said = [f"exit code {code}", why, f"last words: {crash.last_words(stderr or stdout)}"]
        sample.status, sample.diagnosis = Status.FAILED, "; ".join(filter(None, said))
        return
    _take(sample, reading, app)


def _read(
    app: App, stdout: str, stage: Path, config: Configuration
) -> tuple[Optional[Reading], str]:
    """What the application's reader makes of its output, or why it makes nothing of it."""
    try:
        reading = app.read(stdout, stage, config)
    except Unreadable as error:
        return None, str(error)
    except Exception as error:  # a plug-in may fail in any way, and so may output that was cut
        return None, f"{app.name}: read() failed: {type(error).__name__}: {error}"
    if not isinstance(reading, Reading):
        return None, f"{app.name}: read() returned {type(reading).__name__}, not Reading"
    return reading, ""


def _take(sample: Sample, reading: Reading, app: App) -> None:
    """Takes over what the output says, unless it cannot be true."""
    sample.status = Status.WRONG
    seconds = sample.wall_seconds if reading.seconds is None else reading.seconds
    if seconds is None or not 0 < seconds < math.inf:
        sample.diagnosis = f"its clock says {seconds} s"
        return
    odd = [k for k in app.agreement if not math.isfinite(float(reading.extra.get(k) or 0.0))]
    if odd:
        sample.diagnosis = f"{odd[0]} is not finite"
        return
    figure = reading.figure or Figure(name="time", value=seconds, unit="s", better="lower")
    sample.seconds, sample.figure, sample.clock_s = seconds, figure, app.clock_s
    sample.answers = app.answers(reading)
    sample.diagnosis = reading.wrong or None
    sample.status = Status.WRONG if reading.wrong else Status.OK


def new_sample(job: Job, status: Status) -> Sample:
    return Sample(
        id=sample_id(job.machine, job.campaign, job.id),
        campaign=job.campaign,
        configuration=job.configuration,
        machine=job.machine,
        repeat=job.repeat,
        status=status,
    )


def _judge_nodes(job: Job, sample: Sample, watch: Path) -> None:
    """Load and noise of the run, of every node where there are several; a run on another processor
    is no sample of this machine."""
    loads = node_loads(watch)
    if job.nodes > 1:
        spread_over_nodes(sample, loads)
        silent = job.nodes - len(loads)
        if silent:
            sample.flags.append(f"noise unknown: {silent} of {job.nodes} nodes said nothing")
    else:
        sample.load.waited_fraction = next((v.waited_fraction for v in loads.values()), None)
        flag = noise_flag(sample.load)
        if flag:
            sample.flags.append(flag)
    others = other_processors(watch, job.cpu_model)
    if others:
        host, model = next(iter(others.items()))
        sample.status, sample.seconds, sample.figure = Status.OTHER_PROCESSOR, None, None
        sample.answers = {}
        sample.diagnosis = (
            f"host {host} has processor '{model}', this campaign measures '{job.cpu_model}': "
            "choose one kind of node with `access:` in the site file"
        )


def _wall(sample: Sample, said: str) -> tuple[int, str]:
    """Takes start and length of the run from the script's words. Returns its exit code, and words
    for a clock that was set meanwhile."""
    words = [float(word.replace(",", ".")) for word in said.split()] + [0.0, 0.0, -1.0][
        min(3, len(said.split())) :
    ]
    begin, end, code = words[:3]
    started = datetime.fromtimestamp(begin, timezone.utc)
    sample.started = started.isoformat(timespec="milliseconds")
    wall, why = round(end - begin, 4), ""
    if len(words) == 5 and abs(wall - (true := words[4] - words[3])) > CLOCK_STEP_S + 1e-3 * true:
        why = f"the host's clock was set by {wall - true:+.2f} s while it ran"
        wall = round(true, 2)
    sample.wall_seconds = wall if wall > 0 else None  # the clock was set back, or never read
    return int(code), why


def _judge_clocks(sample: Sample, why: str) -> None:
    """Times by a clock that was set are no measurement, whatever the application says."""
    why = why or sample.impossible
    if sample.ok and why:
        sample.status, sample.diagnosis = Status.CLOCK, why
        sample.seconds, sample.figure, sample.answers = None, None, {}


def flag_leftovers(sample: Sample, names: list[str]) -> None:
    if names:
        sample.flags.append(f"left running: {', '.join(names)}; ended after the run")


def record_run(journal: Path, job: Job, stage: Path, stdout_name: str, stderr_name: str) -> Sample:
    directory = Path(job.destination)
    node = json.loads(_text(directory / "node.json") or "{}")
    own = cpu_seconds(_text(directory / "times.begin"), _text(directory / "times.end"))
    sample = new_sample(job, Status.OK)
    code, clock = _wall(sample, _text(directory / "wall"))
    # On several nodes the launcher's children here are not the whole run: no claim about others
    # then.
    sample.load = load_record(node, own if job.nodes == 1 else None)
    sample.energy = energy_of(node)
    sample.placement, hashes, stacks = watch_record(directory / "watch")
    stdout, stderr = _text(stage / stdout_name), _text(stage / stderr_name)
    _status_of(sample, job, code, stdout, stderr, stage, next(iter(stacks), "unknown"))
    _judge_clocks(sample, clock)
    flag_leftovers(sample, json.loads(_text(directory / "left.json") or "[]"))
    _verify(job, sample, list(hashes))
    _judge_nodes(job, sample, directory / "watch")
    # Relative to the campaign: results travel, directories do not.
    sample.log = f"{directory.parent.name}/{directory.name}/output.txt"
    (directory / "output.txt").write_text(
        f"# command\n{' '.join(job.launcher)} {job.executable} {' '.join(job.args)}\n"
        f"# stdout\n{stdout[-200000:]}\n# stderr\n{stderr[-50000:]}"
    )
    cache = str(directory.parents[2])
    versions = library_versions(
        tuple(sorted(path for path in hashes if not path.startswith(cache + "/")))
    )
    hashes = {path.removeprefix(cache + "/"): value for path, value in hashes.items()}
    provenance = {
        **job.static,
        "libraries": hashes,
        "library_versions": versions,
        "fabric_and_mpi_mapped": mpi_seen(list(hashes)),
        "stack_limit_kib": sorted(stacks),
        "kernel": node.get("begin", {}).get("kernel"),
    }
    sample.provenance = short_hash(provenance)
    append(
        journal,
        {
            "sample": json.loads(sample.model_dump_json(exclude_none=True)),
            "provenance": {sample.provenance: provenance},
        },
    )
    return sample


def record_failure(
    journal: Path,
    job: Job,
    status: Status,
    diagnosis: str,
    log: Optional[str] = None,
    left: Sequence[str] = (),
) -> Sample:
    """A run that never got to its output: its build failed, its time was up, its launcher did not
    start."""
    sample = new_sample(job, status)
    sample.diagnosis, sample.log = diagnosis, log
    flag_leftovers(sample, list(left))
    sample.started = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    sample.provenance = short_hash(job.static)
    append(
        journal,
        {
            "sample": json.loads(sample.model_dump_json(exclude_none=True)),
            "provenance": {sample.provenance: job.static},
        },
    )
    return sample
