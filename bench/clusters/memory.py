"""What one data server takes for its clients, by VmRSS and the kernel's objects for its sockets, as
in figure 8 of W. Yu et al.: for its own clients, and where all ranks talk to all. All connections
and channels are real ones that other processes hold. How many there are follows from the product's
routes and budget."""

from report import machine, row, say

PER_NODE = 12  # the paper's
RANKS = (60, 300, 1200, 2400, 4800, 9600)
SIZES = ("1", "sqrt", "auto")
BUDGET = 8 << 20  # SKERRY_SERVER_BUDGET
MOST_SERVERS = 64  # processes that stand for other servers of the cluster
HOSTS = 0  # needs no network of its own


def memory_of(program, clients, routed, servers=0, through=0, passing=0):
    """What a server takes for so many: bytes by its own account, VmRSS, of the kernel."""
    found = say([program, clients, int(routed), servers, through, passing])[0]
    found["kernel_bytes"] = found["sockets"] * found["socket_bytes"]
    found["bytes"] = found["resident_bytes"] + found["kernel_bytes"]
    return found


def all_to_all(program, plan):
    """The same, with the sessions that come through other servers and the channels that pass."""
    if plan["size"] == 1:
        return memory_of(program, plan["clients"], False)
    others = min(plan["trunks"] // 2, MOST_SERVERS)
    through = max(plan["sessions"] - plan["clients"], 0)
    return memory_of(program, plan["clients"], True, others, through, plan["passing"])


def memory_rows(build):
    program = build / "bin/bench/cluster_memory"
    rows, first = [], {}
    for ranks in RANKS:
        for size in SIZES:
            plan = say([program, "plan", ranks // PER_NODE, PER_NODE, size, BUDGET])[0]
            routed = plan["size"] > 1
            real = memory_of(program, plan["clients"], routed)
            everything = all_to_all(program, plan)
            first.setdefault(ranks, real["bytes"])
            limit = (first[ranks] / 1e6, "size 1")
            target = first[ranks] / 1e7 if routed and ranks == 9600 else None
            name = f"clusters.memory_{ranks}_ranks.size_{size}"
            for each, found in ((name, real), (f"{name}.all_to_all", everything)):
                mb = found["bytes"] / 1e6
                more = {"plan": plan, "load": machine.load()} | found
                is_all = found is everything
                rows.append(row(each, mb, "MB", *limit, target if is_all else None, **more))
                print(f"bench-clusters: {each}: {mb:.2f} MB", flush=True)
    return rows


def million_rows(build):
    """A million ranks, 64 a node: the product's routes, and what a client was measured to take."""
    program = build / "bin/bench/cluster_memory"
    each = {
        "connections": memory_of(program, 1000, True),
        "sessions": memory_of(program, 100, True, 4, 2000, 0),
        "passing": memory_of(program, 100, True, 4, 0, 4000),
    }
    own = memory_of(program, 100, True)["resident_bytes"]
    connection = each["connections"]["bytes"] / 1000
    session = (each["sessions"]["resident_bytes"] - own) / 2000
    passing = (each["passing"]["resident_bytes"] - own) / 4000
    rows = []
    for size, budget in (("1", 0), ("sqrt", 0), ("auto", 32 << 20)):
        plan = say([program, "plan", 15625, 64, size, budget])[0]
        connections = plan["clients"] + plan["trunks"]
        through = max(plan["sessions"] - plan["clients"], 0)
        taken = connections * connection + through * session + plan["passing"] * passing
        rows.append(
            row(
                f"clusters.million_ranks.size_{size}",
                taken / 1e6,
                "MB",
                target=64.0 if size == "auto" else None,
                plan=plan,
                bytes_each={"connection": connection, "session": session, "passing": passing},
                label="simulated: all ranks talk to all; bytes of each as measured with 1000 "
                "connections, 2000 sessions and 4000 channels",
            )
        )
    return rows


def rows(options):
    return memory_rows(options.build) + million_rows(options.build)
