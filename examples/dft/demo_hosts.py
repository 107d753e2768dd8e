"""The demonstration on separate hosts: network namespaces on this machine, joined by links of 100 Mbit/s and unshaped (root).

    python examples/dft/demo_hosts.py

Steps 1 to 6 of an iteration (the exchange-correlation matrix), distributed against mirrored, in one job per link speed. The paper
(48 processors, Ethernet) found them 72.6 % shorter when mirrored. Writes out/demo-hosts.json and out/demo-hosts.png.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import launch
import reference

TARGET_RATE, TARGET_SHORTER = "100mbit", 0.73
STEPS = "steps_1_to_6"
# Weighs a rank, and the session that its agent started it in, more than other work of this machine.
PRIORITY = ["/bin/sh", "-c", 'echo -15 > /proc/self/autogroup; exec nice -n -15 "$0" "$@"']
HOSTS = launch.REPOSITORY / "testbed" / "hosts.sh"


def run(arguments, rate, expected, results):
    """One job on fresh hosts; its results."""
    python_path = launch.python_path()
    hosts = ",".join(f"sk{host}:{arguments.ranks}" for host in range(1, arguments.hosts + 1))
    job = [*launch.launcher(), "run", "--hosts", hosts]
    program = [*PRIORITY] if arguments.priority else []
    program += [
        sys.executable,
        str(launch.HERE / "dft.py"),
        *reference.settings(arguments),
        "--batch",
        str(arguments.batch),
        "--reference",
        str(expected),
        "--json",
        str(results),
    ]
    # The agent's name is known only inside the testbed's run; everything else is quoted for its
    # shell.
    script = " ".join(
        [
            shlex.join([str(HOSTS), "exec", "sk0", *job]),
            '--agent "$TESTBED_AGENT"',
            shlex.join(
                ["--env", f"PYTHONPATH={python_path}", "--env", "OMP_NUM_THREADS=1", *program]
            ),
        ]
    )
    shaping = [] if rate == "unshaped" else ["--rate", rate]
    results.unlink(missing_ok=True)
    subprocess.run(
        [str(HOSTS), "run", str(arguments.hosts), *shaping, "--", "/bin/sh", "-c", script],
        check=True,
    )
    return json.loads(results.read_text())


def compare(document):
    """What this demonstration is about, of one job."""
    far, near = (document[mode][STEPS]["seconds_median"] for mode in ("distributed", "mirrored"))
    counted = {mode: document[mode]["bytes_between_nodes"] for mode in ("distributed", "mirrored")}
    system = {
        mode: document[mode]["bytes_by_operating_system"] for mode in ("distributed", "mirrored")
    }
    return {
        "distributed_seconds": far,
        "mirrored_seconds": near,
        "shorter": 1 - near / far,
        "bytes_counted_of_system": {
            mode: counted[mode] / system[mode] if system[mode] else None for mode in counted
        },
    }


def draw(found, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4.2), layout="constrained")
    for index, (mode, colour) in enumerate((("distributed", "#4c72b0"), ("mirrored", "#c44e52"))):
        at = [place + (index - 0.5) * 0.36 for place in range(len(found))]
        bars = axes.bar(
            at, [row[f"{mode}_seconds"] for row in found.values()], 0.36, label=mode, color=colour
        )
        axes.bar_label(bars, fmt="%.2f", fontsize=8)
    axes.set_xticks(
        range(len(found)),
        [f"{rate}\n{100 * row['shorter']:.1f} % shorter" for rate, row in found.items()],
    )
    axes.set_ylabel("seconds, steps 1 to 6 of an iteration (median)")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reference.add_settings(parser)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--ranks", type=int, default=1, help="on each host (default: %(default)s)")
    parser.add_argument(
        "--batch", type=int, default=256, help="most grid points in a batch (default: %(default)s)"
    )
    parser.add_argument("--rates", nargs="+", default=[TARGET_RATE, "unshaped"])
    parser.add_argument(
        "--priority",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="weigh the job more than other work of this machine, in both modes alike (default: yes)",
    )
    parser.add_argument(
        "--reference",
        type=Path,
        help="file written by reference.py for the same settings, instead of computing it",
    )
    parser.add_argument("--out", type=Path, default=launch.REPOSITORY / "out")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        parser.error("hosts are network namespaces: run this as root")
    arguments.out = arguments.out.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    expected = arguments.reference
    if not expected:
        expected = arguments.out / "reference.json"
        print(
            "reference: unmodified pyscf.dft.RKS, density-fitted, in a process of its own (about a minute) ...",
            flush=True,
        )
        reference.in_own_process(arguments, expected)

    jobs, found = {}, {}
    for rate in arguments.rates:
        print(f"\n{arguments.hosts} hosts x {arguments.ranks} ranks, links {rate}", flush=True)
        jobs[rate] = run(
            arguments, rate, expected.resolve(), arguments.out / f"demo-hosts-{rate}.json"
        )
        found[rate] = compare(jobs[rate])

    print(
        f"\nsteps 1 to 6, seconds per iteration (median), {arguments.hosts} hosts x {arguments.ranks} ranks"
    )
    print("links        distributed   mirrored   shorter   bytes counted / operating system")
    for rate, row in found.items():
        share = ", ".join(
            f"{value:.3f}" if value else "-" for value in row["bytes_counted_of_system"].values()
        )
        print(
            f"{rate:10s} {row['distributed_seconds']:13.3f} {row['mirrored_seconds']:10.3f} {100 * row['shorter']:8.1f} %   {share}"
        )
    document = {
        "comparison": found,
        "target": {"rate": TARGET_RATE, "shorter": TARGET_SHORTER},
        "jobs": jobs,
    }
    if TARGET_RATE in found:
        met = found[TARGET_RATE]["shorter"] >= TARGET_SHORTER
        document["target"]["met"] = met
        print(
            f"target at {TARGET_RATE}: at least {100 * TARGET_SHORTER:.0f} % shorter: {'met' if met else 'NOT MET'}"
        )
    (arguments.out / "demo-hosts.json").write_text(json.dumps(document, indent=1) + "\n")
    draw(found, arguments.out / "demo-hosts.png")
    return 0 if document["target"].get("met", True) else 1


if __name__ == "__main__":
    sys.exit(main())
