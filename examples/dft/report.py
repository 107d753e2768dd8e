"""What the example prints, writes and draws."""

import json
import os
import platform
import sys
from pathlib import Path

AGREES_HARTREE = 1e-8
STEPS = "steps_1_to_6"


def say(text):
    print(text, flush=True)


def header(mode):
    return f"\n{mode} arrays\n cycle       energy / Hartree        change   steps 1-6 / s"


def cycle(number, energy, change, seconds):
    return f"{number:6d} {energy:22.10f} {'' if change is None else f'{change:13.2e}':>13} {seconds:15.3f}"


def count_bytes(value):
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.4g} {unit}"
        value /= 1000
    return f"{value:.4g} GB"


def summary(result):
    seconds, steps = result["seconds"], result[STEPS]
    split = ", ".join(
        f"{name} {seconds[name]:.2f}"
        for name in ("get", "compute", "acc", "wait", "merge", "matmul")
    )
    return "\n".join(
        [
            f"{'converged' if result['converged'] else 'NOT CONVERGED'} after {result['iterations']} iterations "
            f"({result['matrices']} matrices): {result['energy_hartree']:.10f} Hartree, {result['electrons']:.5f} electrons on the grid",
            f"  seconds, mean of the ranks: {split}; Coulomb {seconds['coulomb']:.2f}, diagonalisation {seconds['diag']:.2f}; "
            f"all {seconds['total']:.2f}",
            f"  between nodes: {result['operations_between_nodes']} operations, {count_bytes(result['bytes_between_nodes'])}; of these in "
            f"steps 1 to 6: {steps['operations_between_nodes']} operations, {count_bytes(steps['bytes_between_nodes'])}",
        ]
    )


def comparison(document):
    lines = [""]
    expected = document["reference_hartree"]
    modes = [mode for mode in ("distributed", "mirrored") if mode in document]
    if expected is not None:
        lines.append(f"PySCF             {expected:.10f} Hartree")
        for mode in modes:
            difference = document[mode]["energy_hartree"] - expected
            verdict = (
                "agrees"
                if abs(difference) <= AGREES_HARTREE
                else f"DIFFERS by more than {AGREES_HARTREE:g}"
            )
            lines.append(
                f"{mode:17s} {document[mode]['energy_hartree']:.10f} Hartree, difference {difference:+.1e}: {verdict}"
            )
    if len(modes) == 2:
        far, near = document["distributed"], document["mirrored"]
        for name, key in (
            ("bytes", "bytes_between_nodes"),
            ("operations", "operations_between_nodes"),
        ):
            if far[STEPS][key]:
                saved = 100 * (1 - near[STEPS][key] / far[STEPS][key])
                lines.append(
                    f"mirroring saves in steps 1 to 6 {saved:.1f} % of the {name} between nodes"
                )
    return "\n".join(lines)


def document(arguments, system, atoms, sk, reference, results):
    """The contents of the JSON file: `reference_hartree` (null if not computed), one object per mode, and how they came about."""
    import molecule
    import pyscf

    return {
        "reference_hartree": reference["reference_hartree"] if reference else None,
        **results,
        "molecule": molecule.formula(atoms),
        "basis": arguments.basis,
        "functional": arguments.xc,
        "grid_level": arguments.level,
        "grid_points": len(system.weights),
        "batches": len(system.batches),
        "cutoff": arguments.cutoff,
        "basis_functions": int(system.mol.nao),
        "ranks": sk.size(),
        "nodes": sk.nodes(),
        "fabric": sk.fabric(),
        "pyscf": pyscf.__version__,
        "machine": {
            "system": platform.platform(),
            "python": platform.python_version(),
            "cores": len(os.sched_getaffinity(0)),
            "load": list(os.getloadavg()),
        },
    }


def status(document):
    """Exit status: 0 if all converged and agree with the reference, where there is one."""
    expected = document["reference_hartree"]
    for mode in ("distributed", "mirrored"):
        if mode in document:
            result = document[mode]
            if not result["converged"]:
                return 1
            if expected is not None and abs(result["energy_hartree"] - expected) > AGREES_HARTREE:
                return 1
    return 0


def write(document, path):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


COLOURS = {
    "matmul": "#8172b3",
    "get": "#4c72b0",
    "compute": "#55a868",
    "acc": "#dd8452",
    "wait": "#c9c9c9",
    "merge": "#c44e52",
    "coulomb": "#937860",
    "diag": "#8c8c8c",
}


def draw(document, path):
    """The figure: time split, traffic between nodes, convergence."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    modes = [mode for mode in ("distributed", "mirrored") if mode in document]
    figure, (times, traffic, energies) = pyplot.subplots(
        1, 3, figsize=(13, 4.2), layout="constrained"
    )
    figure.suptitle(
        f"{document['molecule']}, {document['basis']}, {document['functional']}: {document['ranks']} ranks on "
        f"{document['nodes']} nodes ({document['fabric']})"
    )

    bottom = [0.0] * len(modes)
    for phase, colour in COLOURS.items():
        heights = [document[mode]["seconds"][phase] for mode in modes]
        times.bar(modes, heights, 0.55, bottom=bottom, color=colour, label=phase)
        bottom = [low + height for low, height in zip(bottom, heights)]
    times.set_ylabel("seconds, all iterations (mean of the ranks)")
    times.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)

    parts = (
        ("steps 1 to 6", lambda r: r[STEPS]["bytes_between_nodes"]),
        ("all", lambda r: r["bytes_between_nodes"]),
    )
    for index, (label, value) in enumerate(parts):
        at = [place + (index - 0.5) * 0.36 for place in range(len(modes))]
        bars = traffic.bar(
            at,
            [value(document[mode]) / 1e6 for mode in modes],
            0.36,
            label=label,
            color=("#4c72b0", "#a1b4d4")[index],
        )
        traffic.bar_label(bars, fmt="%.0f", fontsize=8)
    operations = [document[mode][STEPS]["operations_between_nodes"] for mode in modes]
    traffic.set_xticks(
        range(len(modes)),
        [f"{mode}\n{count} operations\nin steps 1 to 6" for mode, count in zip(modes, operations)],
    )
    traffic.set_ylabel("MB between nodes, all iterations")
    traffic.legend(fontsize=8, frameon=False)

    for mode, marker in zip(modes, "o+"):
        found = document[mode]["energies_hartree"]
        expected = (
            document["reference_hartree"]
            if document["reference_hartree"] is not None
            else found[-1]
        )
        energies.semilogy(
            range(1, len(found) + 1),
            [max(abs(energy - expected), 1e-13) for energy in found],
            marker + "-",
            label=mode,
        )
    energies.axhline(AGREES_HARTREE, color="#8c8c8c", linewidth=0.8)
    energies.set_xlabel("iteration")
    energies.set_ylabel(
        "|energy - PySCF| / Hartree"
        if document["reference_hartree"] is not None
        else "|energy - last| / Hartree"
    )
    energies.legend(fontsize=8, frameon=False)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main():
    """Draws a result file: python report.py out/demo.json out/demo.png"""
    source, target = sys.argv[1:3]
    draw(json.loads(Path(source).read_text()), target)


if __name__ == "__main__":
    main()
