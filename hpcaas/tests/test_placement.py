"""Policies place every rank and thread as the paper describes them, on any machine."""

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from hpcaas.errors import BadInput
from hpcaas.machine import Topology, parse_cpu_list
from hpcaas.placement import BINDINGS, DISTRIBUTIONS, nodes_of_ranks, place, thread_environment

machines = st.builds(
    Topology.regular,
    sockets=st.integers(1, 4),
    cores_per_socket=st.integers(1, 8),
    threads_per_core=st.integers(1, 2),
)
TWO_SOCKETS = Topology.regular(2, 4, 2)  # cores 0-3 and 4-7; second hardware threads are 8-15


def cpus(places):
    return [sorted(p.cpus) for p in places]


def test_cores_give_every_rank_its_own_core_with_all_its_hardware_threads():
    places = place(
        TWO_SOCKETS,
        nodes=1,
        ranks=8,
        per_node=8,
        threads=1,
        binding="cores",
        distribution="block:block",
        smt="on",
    )
    assert cpus(places) == [[i, i + 8] for i in range(8)]


def test_threads_put_neighbours_on_one_core_as_in_the_paper():
    places = place(
        TWO_SOCKETS,
        nodes=1,
        ranks=8,
        per_node=8,
        threads=1,
        binding="threads",
        distribution="block:block",
        smt="on",
    )
    assert cpus(places) == [[0], [8], [1], [9], [2], [10], [3], [11]]


def test_cyclic_over_sockets_alternates():
    places = place(
        TWO_SOCKETS,
        nodes=1,
        ranks=4,
        per_node=4,
        threads=1,
        binding="cores",
        distribution="block:cyclic",
    )
    assert [0 if p[0] < 4 else 1 for p in cpus(places)] == [0, 1, 0, 1]


def test_sockets_leave_the_whole_socket():
    places = place(
        TWO_SOCKETS,
        nodes=1,
        ranks=2,
        per_node=2,
        threads=2,
        binding="sockets",
        distribution="block:cyclic",
        smt="on",
    )
    assert cpus(places) == [[0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]]


def test_openmpi_by_default_puts_all_threads_of_one_of_two_ranks_on_one_core():
    places = place(
        Topology.regular(1, 4),
        nodes=1,
        ranks=1,
        per_node=1,
        threads=4,
        binding="auto",
        mpi="openmpi",
    )
    assert cpus(places) == [[0]] and places[0].threads == (frozenset({0}),) * 4


def fitting(machine, threads):
    """How many ranks of so many threads the sockets hold, none across two of them."""
    cores_of = Counter(socket for _, socket in {(c.core, c.socket) for c in machine.cpus})
    return sum(cores // threads for cores in cores_of.values())


@given(
    machine=machines,
    binding=st.sampled_from([b for b in BINDINGS if b != "auto"]),
    distribution=st.sampled_from(DISTRIBUTIONS),
    data=st.data(),
)
def test_every_rank_gets_cpus_of_the_machine_and_exclusive_ones_when_bound(
    machine, binding, distribution, data
):
    threads = data.draw(st.integers(1, len(machine.cores)))
    ranks = data.draw(st.integers(1, len(machine.cores) // threads))
    places = place(
        machine,
        nodes=1,
        ranks=ranks,
        per_node=ranks,
        threads=threads,
        binding=binding,
        distribution=distribution,
    )
    everything = {c.id for c in machine.cpus}
    assert len(places) == ranks
    for p in places:
        assert p.cpus and p.cpus <= everything and len(p.threads) == threads
        assert frozenset().union(*p.threads) == p.cpus
    if binding == "none":
        assert all(p.cpus == everything for p in places)
    fits_in_sockets = ranks <= fitting(machine, threads)
    if binding in ("cores", "threads") and fits_in_sockets:
        assert sum(len(p.cpus) for p in places) == len(frozenset().union(*(p.cpus for p in places)))


@given(nodes=st.integers(1, 8), per_node=st.integers(1, 8), data=st.data())
def test_both_distributions_fill_nodes_alike_when_full(nodes, per_node, data):
    block, cyclic = (
        nodes_of_ranks(nodes * per_node, nodes, per_node, p) for p in ("block", "cyclic")
    )
    assert sorted(block) == sorted(cyclic)
    assert block == sorted(block)
    assert cyclic[:nodes] == list(range(nodes))
    ranks = data.draw(st.integers(1, nodes * per_node))
    for policy in ("block", "cyclic"):
        assert (
            max(map(nodes_of_ranks(ranks, nodes, per_node, policy).count, range(nodes))) <= per_node
        )


def test_words_that_do_not_exist_are_refused_with_those_that_do():
    for wrong in ({"binding": "core"}, {"binding": "cores", "distribution": "block"}):
        with pytest.raises(BadInput, match="use one of"):
            place(TWO_SOCKETS, nodes=1, ranks=1, per_node=1, threads=1, **wrong)
    with pytest.raises(BadInput, match="do not fit"):
        nodes_of_ranks(9, 2, 4, "block")


def test_threads_of_openmp_follow_the_policy():
    assert thread_environment("none") == {"OMP_PROC_BIND": "false"}
    assert thread_environment("cores") == {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"}
    assert thread_environment("auto") == {}


def test_cpu_lists_of_the_kernel():
    assert parse_cpu_list("0-3,8,10-11") == [0, 1, 2, 3, 8, 10, 11]
    assert parse_cpu_list("") == []
