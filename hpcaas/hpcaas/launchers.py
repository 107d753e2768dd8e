"""The words of each launcher for the same policy: srun, OpenMPI 4 and 5, MPICH's hydra, Intel MPI,
and none at all."""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import BadInput
from .model import Configuration
from .placement import DEFAULT_DISTRIBUTION, thread_environment
from .toolchain import Mpi


# What rank.sh reads on every node.
WATCH_VARIABLES = (
    "HPCAAS_WATCH",
    "HPCAAS_WATCH_EARLY",
    "HPCAAS_PYTHON",
    "HPCAAS_WATCHER",
    "HPCAAS_STACK",
)


@dataclass
class Launch:
    """A command prefix and its environment; `remarks` say what could not be expressed exactly."""

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def launch(config: Configuration, mpi: Mpi | None, *, wide_cores: bool = False) -> Launch:
    """Prefix for a configuration. wide_cores: the machine has several hardware threads per core."""
    binding = config.binding or "none"
    env = {"OMP_NUM_THREADS": str(config.threads), **thread_environment(binding)}
    if config.launcher == "srun":
        built = _srun(config, binding, wide_cores)
    elif mpi is None:
        built = _serial(config, binding)
    elif mpi.kind == "openmpi":
        built = _openmpi(config, mpi, binding, wide_cores)
    elif mpi.kind == "mpich":
        built = _hydra(config, mpi, binding)
    elif mpi.kind == "intelmpi":
        built = _intel(config, mpi, binding)
    else:
        raise BadInput(
            f"MPI '{mpi.name}' is of unknown kind '{mpi.kind}'",
            "say kind: openmpi, mpich or intelmpi in the site file",
        )
    built.env = {**env, **built.env, **(mpi.env if mpi else {})}
    return built


def _distribution(config: Configuration) -> tuple[str, str]:
    over_nodes, _, over_sockets = (config.distribution or DEFAULT_DISTRIBUTION).partition(":")
    return over_nodes, over_sockets


def _serial(config: Configuration, binding: str) -> Launch:
    if config.ranks != 1:
        raise BadInput(
            f"{config.ranks} ranks need an MPI, and none is chosen", "choose --mpi, or 1 rank"
        )
    # One process: OpenMP's places are the whole policy.
    return Launch([])


def _srun(config: Configuration, binding: str, wide_cores: bool) -> Launch:
    argv = [
        "srun",
        f"--nodes={config.nodes}",
        f"--ntasks={config.ranks}",
        f"--ntasks-per-node={config.per_node}",
        f"--cpus-per-task={config.threads}",
    ]
    if config.pmi:
        argv.append(f"--mpi={config.pmi}")
    # The paper's `auto`: Slurm picks a policy by itself as soon as it is asked to be verbose.
    argv.append("--cpu-bind=verbose" if binding == "auto" else f"--cpu-bind={binding}")
    argv.append(f"--distribution={config.distribution or DEFAULT_DISTRIBUTION}")
    if wide_cores:
        argv.append("--hint=multithread" if config.smt == "on" else "--hint=nomultithread")
    return Launch(argv)


def _openmpi(config: Configuration, mpi: Mpi, binding: str, wide_cores: bool) -> Launch:
    argv = [mpi.mpirun, "-n", str(config.ranks)]
    remarks: list[str] = []
    five = mpi.major >= 5
    socket = "package" if five else "socket"
    over_nodes, over_sockets = _distribution(config)
    width = f":PE={config.threads}" if config.threads > 1 else ""
    if binding == "auto":
        argv += ["--report-bindings"]
        if config.distribution:
            argv += ["--map-by", "node" if over_nodes == "cyclic" else "slot"]
    elif binding == "none":
        argv += ["--bind-to", "none", "--map-by", "node" if over_nodes == "cyclic" else "slot"]
    else:
        if over_nodes == "cyclic":
            unit = "node"
            if over_sockets == "cyclic":
                # --map-by node fills a node's sockets in order; nothing says `node, then socket` in
                # one word.
                remarks.append(
                    "OpenMPI has no word for cyclic:cyclic; ranks go round nodes and fill sockets in order (cyclic:block)"
                )
        elif over_sockets == "cyclic" and binding != "sockets":
            unit = socket
        else:
            unit = {
                "threads": "hwthread",
                "cores": "core",
                "sockets": socket if over_sockets == "cyclic" else "core",
            }[binding]
            if width and unit in ("core", "hwthread"):
                unit = "slot"
        argv += [
            "--map-by",
            unit + (width if binding != "sockets" else ""),
            "--bind-to",
            {"threads": "hwthread", "cores": "core", "sockets": socket}[binding],
        ]
        if binding == "threads":
            argv += ["--use-hwthread-cpus"] if not five else []
    if config.ranks_per_node or config.nodes > 1:
        argv += ["-N" if five else "-npernode", str(config.per_node)]
    env = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    framework = {
        "ucx": ["--mca", "pml", "ucx"],
        "ofi": ["--mca", "pml", "cm", "--mca", "mtl", "ofi"],
        "ob1": ["--mca", "pml", "ob1"],
    }
    if config.framework:
        if config.framework not in framework:
            raise BadInput(
                f"OpenMPI has no communication framework '{config.framework}'",
                f"use one of {', '.join(framework)}",
            )
        argv += framework[config.framework]
    # mpirun exports nothing to other nodes unless told, and warns of a variable that is not set.
    exported = ["OMP_NUM_THREADS", *thread_environment(binding), *WATCH_VARIABLES]
    for name in exported if config.nodes > 1 else []:
        argv += ["-x", name]
    return Launch(argv, env, remarks)


def _hydra(config: Configuration, mpi: Mpi, binding: str) -> Launch:
    argv = [mpi.mpirun, "-n", str(config.ranks)]
    over_nodes, over_sockets = _distribution(config)
    env: dict[str, str] = {}
    if config.nodes > 1 or config.ranks_per_node:
        # One rank per node and turn is what `cyclic` means; hydra starts over at the first host
        # when the list ends.
        argv += ["-ppn", "1" if over_nodes == "cyclic" else str(config.per_node)]
    if binding == "none":
        argv += ["-bind-to", "none"]
    elif binding != "auto":
        unit = {"threads": "hwthread", "cores": "core", "sockets": "socket"}[binding]
        width = f":{config.threads}" if config.threads > 1 and binding != "sockets" else ""
        argv += ["-bind-to", unit + width]
        if over_sockets == "cyclic":
            argv += ["-map-by", "socket"]
    if config.framework:
        if config.framework not in mpi.frameworks:
            raise BadInput(
                f"MPICH '{mpi.name}' was built for {', '.join(mpi.frameworks) or 'an unknown device'}, not for '{config.framework}'",
                "leave out --framework, or add another MPICH installation to the site file",
            )
        if len(mpi.frameworks) > 1:
            env["MPICH_CH4_NETMOD"] = config.framework
    return Launch(argv, env)


def _intel(config: Configuration, mpi: Mpi, binding: str) -> Launch:
    argv = [mpi.mpirun, "-n", str(config.ranks)]
    over_nodes, over_sockets = _distribution(config)
    env: dict[str, str] = {}
    if config.nodes > 1 or config.ranks_per_node:
        argv += ["-ppn", "1" if over_nodes == "cyclic" else str(config.per_node)]
    if binding == "none":
        env["I_MPI_PIN"] = "0"
    elif binding != "auto":
        env["I_MPI_PIN"] = "1"
        env["I_MPI_PIN_CELL"] = "unit" if binding == "threads" else "core"
        env["I_MPI_PIN_DOMAIN"] = (
            "socket"
            if binding == "sockets"
            else ("omp" if config.threads > 1 else ("1" if binding == "threads" else "core"))
        )
        env["I_MPI_PIN_ORDER"] = "scatter" if over_sockets == "cyclic" else "compact"
    if config.framework:
        if config.framework != "ofi":
            raise BadInput(
                f"Intel MPI speaks ofi only, not '{config.framework}'",
                "choose ofi, or another MPI for ucx",
            )
        env["I_MPI_FABRICS"] = "shm:ofi"
    return Launch(argv, env)
