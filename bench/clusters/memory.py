"""What one data server takes for its clients, by its own account, VmRSS and the kernel's objects
for its sockets, as in figure 8 of W. Yu et al. The clients are real connections that another
process holds. What a whole job would ask of a server follows from the product's routes, and is
labelled simulated."""

from report import machine, row, say

PER_NODE = 12  # the paper's
RANKS = (60, 300, 1200, 2400, 4800, 9600)
SIZES = ("1", "sqrt", "auto")
BUDGET = 16 << 20  # of `auto`
HOSTS = 0  # needs no network of its own


def memory_of(program, clients, routed):
    """What a server takes for so many: bytes by its own account, VmRSS, of the kernel."""
    found = say([program, clients, int(routed)])[0]
    return found | {"kernel_bytes": found["sockets"] * found["socket_bytes"]}


# A channel that passes through a server, by the size of its records (Transit, two table entries).
PASSING_BYTES = 400


def passing_bytes(plan, session_bytes):
    """What else a server takes if all ranks talk to all: sessions that come by other servers, and
    about as many channels that it passes on. Computed."""
    if plan["size"] == 1:
        return 0
    return max(0, plan["sessions"] - plan["clients"]) * session_bytes + (
        plan["sessions"] * PASSING_BYTES
    )


def memory_rows(build):
    program = build / "bin/bench/cluster_memory"
    rows, first = [], {}
    for ranks in RANKS:
        for size in SIZES:
            plan = say([program, "plan", ranks // PER_NODE, PER_NODE, size, BUDGET])[0]
            routed = plan["size"] > 1
            real = memory_of(program, plan["clients"], routed)
            own = real["resident_bytes"] + real["kernel_bytes"]
            all_to_all = own + passing_bytes(plan, real["account_bytes"] / plan["clients"])
            first.setdefault(ranks, own)
            common = {"plan": plan, "load": machine.load()} | real
            name = f"clusters.memory_{ranks}_ranks.size_{size}"
            limit = (first[ranks] / 1e6, "size 1")
            target = first[ranks] / 1e7 if routed and ranks == 9600 else None
            label = "measured: VmRSS and the kernel's objects, for a server's own clients"
            rows.append(row(name, own / 1e6, "MB", *limit, None, label=label, **common))
            label = "simulated: the same, and the sessions and channels of a job of all to all"
            name += ".all_to_all"
            rows.append(row(name, all_to_all / 1e6, "MB", *limit, target, label=label, **common))
            print(f"bench-clusters: {name}: {own / 1e6:.2f}, {all_to_all / 1e6:.2f} MB", flush=True)
    return rows


def million_rows(build):
    """A million ranks, 64 a node: the product's routes, and what a client was measured to take."""
    program = build / "bin/bench/cluster_memory"
    link = memory_of(program, 1000, True)
    each = (link["account_bytes"] + link["kernel_bytes"]) / 1000
    session = link["account_bytes"] / 1000
    rows = []
    for size, budget in (("1", 0), ("sqrt", 0), ("auto", 64 << 20)):
        plan = say([program, "plan", 15625, 64, size, budget])[0]
        connections = plan["clients"] + plan["trunks"]
        rows.append(
            row(
                f"clusters.million_ranks.size_{size}",
                (connections * each + plan["sessions"] * (session + PASSING_BYTES)) / 1e6,
                "MB",
                target=64.0 if size == "auto" else None,
                plan=plan,
                label="simulated: all ranks talk to all; bytes of a connection and a session as "
                "measured with 1000",
            )
        )
    return rows


def rows(options):
    return memory_rows(options.build) + million_rows(options.build)
