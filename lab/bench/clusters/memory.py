"""What one data server takes for its clients, by VmRSS and the kernel's objects for its sockets, as
in figure 8 of W. Yu et al.: for its own clients, and where all ranks talk to all. All connections
and channels are real ones that other processes hold. How many there are follows from the product's
routes and budget. The same over libfabric, where a server has posted buffers: they are in its own
account whether they were touched or not, and an adapter would pin them."""

from report import machine, row, say

PER_NODE = 12  # the paper's
RANKS = (60, 300, 1200, 2400, 4800, 9600)
SIZES = ("1", "sqrt", "auto")
BUDGET = 8 << 20  # SKERRY_SERVER_BUDGET
MOST_SERVERS = 64  # processes that stand for other servers of the cluster
HOSTS = 0  # needs no network of its own
OFI = "ofi:tcp"
OFI_RANKS = (60, 300, 1200)  # 1,200: 0.2 GB a side, and a minute where progress walks all of them
OFI_SIMULATED_RANKS = (2400, 9600)


def memory_of(program, clients, routed, servers=0, through=0, passing=0, fabric=("tcp",)):
    """What a server takes for so many: bytes by its own account, VmRSS, of the kernel."""
    command = [program, "--fabric", *fabric, clients, int(routed), servers, through, passing]
    found = say(command)[0]
    found["kernel_bytes"] = found["sockets"] * found["socket_bytes"]
    found["bytes"] = found["resident_bytes"] + found["kernel_bytes"]
    return found


def plan_of(program, ranks, size, fabric):
    command = [program, "--fabric", *fabric, "plan", ranks // PER_NODE, PER_NODE, size, BUDGET]
    return say(command)[0]


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
            plan = plan_of(program, ranks, size, ["tcp"])
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


def ofi_memory(program, plan, own_buffers):
    """Bytes that clients of the plan were measured to take, over libfabric, and what they are made
    of. Untouched buffers are in the account alone, libfabric's own memory in VmRSS alone: the
    larger of the two counts."""
    fabric = [OFI, "--own-buffers"] if own_buffers else [OFI]
    found = memory_of(program, plan["clients"], plan["size"] > 1, fabric=fabric)
    larger = max(found["account_bytes"], found["resident_bytes"])
    kept = {each: found[each] for each in ("account_bytes", "resident_bytes", "kernel_bytes")}
    return larger + found["kernel_bytes"], kept | {"label": "measured"}


def beyond(points, clients):
    """On the line through the two measured points with the most clients."""
    (fewer, less), (most, more) = sorted(dict(points).items())[-2:]
    each = (more - less) / (most - fewer)
    label = "simulated: clients of the plan, on the line through the two largest measured"
    return more + (clients - most) * each, {"bytes_each": each, "label": label}


def ofi_rows(build):
    """Over libfabric, with a pool of receive buffers for all connections, and with ten for each."""
    program = build / "bin/bench/cluster_memory"
    rows, points, first = [], {}, {}
    for ranks in OFI_RANKS + OFI_SIMULATED_RANKS:
        for size, own_buffers in [(size, own) for size in SIZES for own in (True, False)]:
            plan = plan_of(program, ranks, size, [OFI, "--own-buffers"] if own_buffers else [OFI])
            known = points.setdefault((plan["size"] > 1, own_buffers), [])
            if ranks in OFI_RANKS:
                taken, more = ofi_memory(program, plan, own_buffers)
                known.append((plan["clients"], taken))
            else:
                taken, more = beyond(known, plan["clients"])
            first.setdefault(ranks, taken)  # size 1, ten buffers for each connection
            limit = (first[ranks] / 1e6, "size 1, own buffers")
            target = None
            if ranks == OFI_SIMULATED_RANKS[-1] and size == "auto" and not own_buffers:
                target = first[ranks] / 1e7
            name = f"clusters.ofi_memory_{ranks}_ranks.size_{size}"
            name += ".own_buffers" if own_buffers else ""
            more |= {"plan": plan, "load": machine.load()}
            rows.append(row(name, taken / 1e6, "MB", *limit, target, **more))
            print(f"bench-clusters: {name}: {taken / 1e6:.2f} MB", flush=True)
    return rows


def rows(options):
    return memory_rows(options.build) + million_rows(options.build) + ofi_rows(options.build)
