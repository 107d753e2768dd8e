"""The demonstration of a job that goes on: one of 4 hosts is lost (network namespaces; root).

    python examples/dft/demo_failure.py

In the fifth iteration the host's link is cut, and all its processes are killed. The job goes on
with three, and ends with the same energy. Beside it: the plain program on all hosts, and on one
less, which says what the work left needs. Writes out/demo-failure.json and out/demo-failure.svg,
and out/demo-failure-recovery.json for `hpcaas report --term spot --recovery`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import launch
import reference

AGREES_HARTREE, AT_MOST = 1e-8, 1.25
SKIPPED = 77
HOSTS = launch.REPOSITORY / "testbed" / "hosts.sh"
CYCLE = re.compile(r" *(\d+) +(-?\d+\.\d{10})")
INSIDE = "--inside"  # this program, in the testbed


def what_lacks():
    """Why hosts cannot be made here; empty: they can."""
    if os.geteuid() != 0:
        return "needs root, to make hosts of network namespaces"
    lacking = [name for name in ("ip", "nsenter", "unshare") if shutil.which(name) is None]
    if lacking:
        return f"needs {', '.join(lacking)} (iproute2, util-linux)"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return f"may make no network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


# ---- inside the testbed --------------------------------------------------------------------------


def holder(host):
    """The process that holds the namespaces of a host."""
    state = Path(os.environ["TESTBED_DIR"]) / os.environ["TESTBED"] / f"sk{host}"
    return state.read_text().split(":")[0].strip()


def lose(host):
    """Cuts the link, so that nothing tells the others, and kills all processes of the host."""
    inside = ["nsenter", "-t", holder(host)]
    subprocess.run([*inside, "--net", "ip", "link", "set", "eth0", "down"], check=True)
    # -1: all of the host's own process numbers; its process 1, the testbed's, ends then.
    subprocess.run([*inside, "--pid", "--mount", "/bin/sh", "-c", "kill -KILL -1"])


def run(arguments, hosts, results, options=(), killed=None):
    """One job. Its iterations as {number, energy, begin, end}, seconds since the first line of the
    calculation; and what happened, as (seconds, text)."""
    where = ",".join(f"sk{host}:{arguments.ranks}" for host in range(1, hosts + 1))
    command = [
        str(HOSTS), "exec", "sk0", *launch.launcher(), "run", "--hosts", where,
        "--agent", os.environ["TESTBED_AGENT"], "--lease", str(arguments.lease),
        "--env", f"PYTHONPATH={launch.python_path()}", "--env", "OMP_NUM_THREADS=1",
        sys.executable, str(launch.HERE / "dft.py"), *reference.settings(arguments),
        "--arrays", arguments.arrays, "--reference", str(arguments.reference),
        "--json", str(results), *options,
    ]  # fmt: skip
    results.unlink(missing_ok=True)
    job = subprocess.Popen(
        command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    iterations, events, start, last = [], [], None, None
    for line in job.stdout:
        print(f"    {line}", end="", flush=True)
        now = time.monotonic()
        if line.startswith(" cycle"):
            start = last = now
        elif start is not None and (found := CYCLE.match(line)):
            iterations.append(
                # After the loss the first one does the broken one again, and the next.
                {"number": len(iterations) + 1 + (len(events) > 0), "energy": float(found[2]),
                 "begin": last - start, "end": now - start}
            )  # fmt: skip
            last = now
            if killed and len(iterations) == arguments.iteration - 1 and not events:
                time.sleep((now - start) / len(iterations) / 2)  # in the middle of the next one
                lose(killed)
                events.append((time.monotonic() - start, f"host sk{killed} is lost"))
        elif "the job goes on" in line and len(events) == 1:
            events.append((now - start, "noticed"))
            last = now
    status = job.wait()
    if status != 0 or not results.exists():
        sys.exit(f"demo_failure.py: the job ended with status {status}")
    return {"iterations": iterations, "events": events} | json.loads(results.read_text())


def inside(arguments):
    victim = arguments.hosts - 1  # neither the first, where rank 0 is, nor the last
    jobs = {}
    for name, hosts, options, killed in (
        ("plain", arguments.hosts, [], None),
        ("fewer", arguments.hosts - 1, [], None),
        ("lost", arguments.hosts, ["--go-on"], victim),  # last: the host is gone then
    ):
        text = f"{hosts} hosts x {arguments.ranks} ranks"
        if killed:
            text += f"; sk{killed} is lost in iteration {arguments.iteration}"
        print(f"\n{text}", flush=True)
        results = arguments.out / f"demo-failure-{name}.json"
        jobs[name] = run(arguments, hosts, results, options, killed)
    return jobs


# ---- what it shows -------------------------------------------------------------------------------


def median(values):
    return sorted(values)[len(values) // 2]


def compare(arguments, jobs):
    lost, plain, fewer = (jobs[name] for name in ("lost", "plain", "fewer"))
    mode = arguments.arrays
    died, noticed = (at for at, _ in lost["events"][:2])
    before = [each for each in lost["iterations"] if each["end"] <= died]
    after = [each for each in lost["iterations"] if each["end"] > died]
    seconds = {
        name: median([each["end"] - each["begin"] for each in job["iterations"][1:]])
        for name, job in (("plain", plain), ("fewer", fewer))
    }
    left = len(plain["iterations"]) - len(before)
    needed = left * seconds["fewer"]
    took = after[-1]["end"] - died
    moved = lost[mode].get("protection", {})
    return {
        "energy_hartree": lost[mode]["energy_hartree"],
        "reference_hartree": lost["reference_hartree"],
        "plain_hartree": plain[mode]["energy_hartree"],
        "died_s": died, "noticed_s": noticed - died,
        "first_iteration_s": after[0]["end"] - died,
        "took_s": took, "left_iterations": left, "needed_s": needed, "ratio": took / needed,
        "iteration_s": seconds, "iterations": [len(before), len(after)],
        "plain_iterations": len(plain["iterations"]), "protection": moved,
    }  # fmt: skip


def tell(arguments, jobs, found):
    lost = jobs["lost"]
    print("\n iteration    energy / Hartree   seconds   on")
    for each in lost["iterations"]:
        is_before = each["end"] <= found["died_s"]
        hosts = arguments.hosts - (not is_before)
        if not is_before and each["number"] == found["iterations"][0] + 2:
            print(
                f"      --- sk{arguments.hosts - 1} is lost at {found['died_s']:.2f} s, noticed "
                f"{found['noticed_s']:.2f} s later ---"
            )
        seconds, number = each["end"] - each["begin"], str(each["number"])
        if not is_before and each["number"] == found["iterations"][0] + 2:
            number = f"{each['number'] - 1} again, {number}"
        print(f"{number:>10s} {each['energy']:19.10f} {seconds:9.3f}   {hosts} hosts")
    moved = found["protection"]
    if moved:
        print(
            f"protected {moved['states']} states, of which rank 0 sent "
            f"{moved['moved_bytes'] / 1e6:.2f} MB in {moved['seconds']:.3f} s; "
            f"brought back {moved['recovered_bytes'] / 1e6:.2f} MB in "
            f"{moved['recovery_seconds']:.3f} s"
        )
    difference = max(
        abs(found["energy_hartree"] - found[key]) for key in ("plain_hartree", "reference_hartree")
    )
    agrees = difference <= AGREES_HARTREE
    print(
        f"energy {found['energy_hartree']:.10f} Hartree; "
        f"plain {found['plain_hartree']:.10f}, PySCF {found['reference_hartree']:.10f}: "
        f"{'agrees' if agrees else 'DIFFERS'} ({difference:.1e})"
    )
    met = found["ratio"] <= AT_MOST
    print(
        f"from the loss to the end {found['took_s']:.2f} s; the {found['left_iterations']} "
        f"iterations that were left need {found['needed_s']:.2f} s on {arguments.hosts - 1} hosts: "
        f"{found['ratio']:.2f} x (goal {AT_MOST}: {'met' if met else 'NOT MET'})"
    )
    return agrees


def draw(arguments, jobs, found, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    rows = [
        ("lost", f"{arguments.hosts} hosts, one is lost"),
        ("plain", f"plain, {arguments.hosts} hosts"),
        ("fewer", f"plain, {arguments.hosts - 1} hosts"),
    ]
    for row, (name, _) in enumerate(rows):
        for each in jobs[name]["iterations"]:
            is_after = name == "lost" and each["end"] > found["died_s"]
            colour = "#c44e52" if is_after else "#4c72b0" if name == "lost" else "#a1b4d4"
            begin, width = each["begin"], each["end"] - each["begin"]
            axes.barh(row, width, 0.6, left=begin, color=colour, edgecolor="white")
            axes.text(begin + width / 2, row, str(each["number"]), ha="center", va="center",
                      color="white", fontsize=8)  # fmt: skip
    died, noticed = found["died_s"], found["died_s"] + found["noticed_s"]
    axes.barh(0, noticed - died, 0.6, left=died, color="#dddddd", hatch="//", edgecolor="#999999")
    axes.annotate(
        f"sk{arguments.hosts - 1} is lost", (died, -0.3), (died, -0.75), fontsize=8, ha="center",
        arrowprops={"arrowstyle": "->"},
    )  # fmt: skip
    axes.set_ylim(2.5, -1)
    axes.set_yticks(range(3), [text for _, text in rows])
    axes.set_xlabel("seconds")
    axes.set_title(
        f"{found['energy_hartree']:.10f} Hartree with and without the loss; {found['ratio']:.2f} x "
        "what the work left needs",
        fontsize=9,
    )
    figure.savefig(path)


def recovery(found):
    """What surviving cost, as HPCaaS-Bench reads it: until the program works again, without the
    iteration that is done once more. Survivors take over: nobody waits for new nodes, but for the
    loss to be noticed. That they are fewer is not in it."""
    moved = found["protection"]
    again = found["first_iteration_s"] - found["noticed_s"] - 2 * found["iteration_s"]["fewer"]
    return {
        "schema": "hpcaas-recovery/1",
        "measured": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "write_s": [moved["seconds"] / moved["states"]],
        "resume_s": [max(again, moved["recovery_seconds"] / moved["recoveries"])],
        "restart_s": [found["noticed_s"]],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reference.add_settings(parser)
    parser.set_defaults(level=3)  # iterations are short beside the lease otherwise
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=1, help="on each host (default: %(default)s)")
    parser.add_argument("--arrays", choices=("distributed", "mirrored"), default="mirrored")
    parser.add_argument(
        "--iteration", type=int, default=5, help="in which it is lost (default: %(default)s)"
    )
    parser.add_argument("--lease", type=int, default=1000, help="ms (default: %(default)s)")
    parser.add_argument(
        "--reference",
        type=Path,
        help="file written by reference.py for the same settings, instead of computing it",
    )
    parser.add_argument("--out", type=Path, default=launch.REPOSITORY / "out")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.hosts < 3 or arguments.iteration < 2:
        parser.error("give at least 3 hosts, and an iteration from 2 on")
    if lacks := what_lacks():
        print(f"demo_failure.py: skipped: {lacks}", file=sys.stderr)
        return SKIPPED
    arguments.out = arguments.out.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if not arguments.inside:
        if not arguments.reference:
            arguments.reference = arguments.out / "reference.json"
            print("reference: unmodified pyscf.dft.RKS, in a process of its own ...", flush=True)
            reference.in_own_process(arguments, arguments.reference)
        words = [*sys.argv[1:], "--reference", str(arguments.reference.resolve()), INSIDE]
        command = [str(HOSTS), "run", str(arguments.hosts), "--", sys.executable, __file__, *words]
        return subprocess.run(command).returncode
    jobs = inside(arguments)
    found = compare(arguments, jobs)
    agrees = tell(arguments, jobs, found)
    document = {"comparison": found, "jobs": jobs}
    (arguments.out / "demo-failure.json").write_text(json.dumps(document, indent=1) + "\n")
    draw(arguments, jobs, found, arguments.out / "demo-failure.svg")
    (arguments.out / "demo-failure-recovery.json").write_text(json.dumps(recovery(found)) + "\n")
    print(f"written: {arguments.out}/demo-failure.json, .svg and demo-failure-recovery.json")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
