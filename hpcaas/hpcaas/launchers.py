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
        built = _openmpi(config, mpi, binding)
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


_OPENMPI_ENV = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
_OPENMPI_FRAMEWORKS = {
    "ucx": ["--mca", "pml", "ucx"],
    "ofi": ["--mca", "pml", "cm", "--mca", "mtl", "ofi"],
    "ob1": ["--mca", "pml", "ob1"],
}


def _openmpi(config: Configuration, mpi: Mpi, binding: str) -> Launch:
    five = mpi.major >= 5
    argv, remarks = [mpi.mpirun, "-n", str(config.ranks)], list[str]()
    by_node = "node" if _distribution(config)[0] == "cyclic" else "slot"
    if binding == "auto":
        argv += ["--report-bindings"] + (["--map-by", by_node] if config.distribution else [])
    elif binding == "none":
        argv += ["--bind-to", "none", "--map-by", by_node]
    else:
        argv += _openmpi_binding(config, binding, five, remarks)
    if config.ranks_per_node or config.nodes > 1:
        argv += ["-N" if five else "-npernode", str(config.per_node)]
    if config.framework not in (None, *_OPENMPI_FRAMEWORKS):
        raise BadInput(
            f"OpenMPI has no communication framework '{config.framework}'",
            f"use one of {', '.join(_OPENMPI_FRAMEWORKS)}",
        )
    argv += _OPENMPI_FRAMEWORKS.get(config.framework or "", [])
    # mpirun exports nothing to other nodes unless told, and warns of a variable that is not set.
    if config.nodes > 1:
        for name in ("OMP_NUM_THREADS", *thread_environment(binding), *WATCH_VARIABLES):
            argv += ["-x", name]
    return Launch(argv, dict(_OPENMPI_ENV), remarks)


def _openmpi_binding(
    config: Configuration, binding: str, five: bool, remarks: list[str]
) -> list[str]:
    """Mapping and binding to threads, cores or sockets, which version 5 calls packages."""
    socket = "package" if five else "socket"
    over_nodes, over_sockets = _distribution(config)
    unit = {"threads": "hwthread", "cores": "core", "sockets": socket}[binding]
    width = f":PE={config.threads}" if config.threads > 1 and binding != "sockets" else ""
    if over_nodes == over_sockets == "cyclic":
        # --map-by node fills a node's sockets in order; nothing says `node, then socket` in one
        # word.
        remarks.append(
            "OpenMPI has no word for cyclic:cyclic; ranks go round nodes and fill sockets in order"
            " (cyclic:block)"
        )
    if over_nodes == "cyclic":
        dealt = "node"
    elif over_sockets == "cyclic":
        dealt = socket
    elif binding == "sockets":
        dealt = "core"
    else:
        dealt = "slot" if width else unit
    words = ["--map-by", dealt + width, "--bind-to", unit]
    return words + (["--use-hwthread-cpus"] if binding == "threads" and not five else [])


def _hydra(config: Configuration, mpi: Mpi, binding: str) -> Launch:
    argv = _start(config, mpi)
    if binding == "none":
        argv += ["-bind-to", "none"]
    elif binding != "auto":
        unit = {"threads": "hwthread", "cores": "core", "sockets": "socket"}[binding]
        width = f":{config.threads}" if config.threads > 1 and binding != "sockets" else ""
        argv += ["-bind-to", unit + width]
        if _distribution(config)[1] == "cyclic":
            argv += ["-map-by", "socket"]
    if config.framework not in (None, *mpi.frameworks):
        raise BadInput(
            f"MPICH '{mpi.name}' was built for {', '.join(mpi.frameworks) or 'an unknown device'},"
            f" not for '{config.framework}'",
            "leave out --framework, or add another MPICH installation to the site file",
        )
    several = config.framework and len(mpi.frameworks) > 1
    return Launch(argv, {"MPICH_CH4_NETMOD": str(config.framework)} if several else {})


def _start(config: Configuration, mpi: Mpi) -> list[str]:
    """What hydra's mpirun, of MPICH and of Intel MPI, begins with. One rank per node and turn is
    what `cyclic` means; hydra starts over at the first host when the list ends."""
    argv = [mpi.mpirun, "-n", str(config.ranks)]
    if config.nodes > 1 or config.ranks_per_node:
        cyclic = _distribution(config)[0] == "cyclic"
        argv += ["-ppn", "1" if cyclic else str(config.per_node)]
    return argv


def _intel(config: Configuration, mpi: Mpi, binding: str) -> Launch:
    env: dict[str, str] = {}
    if binding == "none":
        env["I_MPI_PIN"] = "0"
    elif binding != "auto":
        cyclic = _distribution(config)[1] == "cyclic"
        env["I_MPI_PIN"] = "1"
        env["I_MPI_PIN_CELL"] = "unit" if binding == "threads" else "core"
        env["I_MPI_PIN_DOMAIN"] = _intel_domain(config, binding)
        env["I_MPI_PIN_ORDER"] = "scatter" if cyclic else "compact"
    if config.framework:
        if config.framework != "ofi":
            raise BadInput(
                f"Intel MPI speaks ofi only, not '{config.framework}'",
                "choose ofi, or another MPI for ucx",
            )
        env["I_MPI_FABRICS"] = "shm:ofi"
    return Launch(_start(config, mpi), env)


def _intel_domain(config: Configuration, binding: str) -> str:
    """The CPUs of one rank."""
    if binding == "sockets":
        return "socket"
    if config.threads > 1:
        return "omp"
    return "1" if binding == "threads" else "core"
