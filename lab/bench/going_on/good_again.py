"""A program of bench.py: allreduces until a rank kills itself, then says how long the others took
from that moment to the first good allreduce over those that live.

    good_again.py ours|ulfm FILE
"""

import os
import signal
import sys
import time

import numpy as np

which, path = sys.argv[1:3]
STEPS = 200


def die():
    with open(path + ".new", "w") as file:
        file.write(repr(time.time()))
    os.rename(path + ".new", path)
    os.kill(os.getpid(), signal.SIGKILL)


def tell(rank, members):
    if rank == 0:
        with open(path) as file:
            died = float(file.read())
        print(f"good again after {time.time() - died:.4f} s with {members} ranks", flush=True)


def ours():
    import skerry as sk

    sk.init(on_failure="continue")
    group, step, shrunk = sk.world(), 0, False
    while step < 2 * STEPS:
        try:
            sk.allreduce(np.ones(100), group=group)
            if shrunk:
                tell(sk.rank(), len(group))
                shrunk = False
            step += 1
            if step == STEPS and sk.rank() == sk.size() - 1:
                die()
        except sk.PeerDeadError:
            group, shrunk = group.shrink(), True


def ulfm():
    from mpi4py import MPI

    comm, step, shrunk = MPI.COMM_WORLD, 0, False
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    rank, last = comm.rank, comm.size - 1
    out = np.empty(100)
    while step < 2 * STEPS:
        try:
            comm.Allreduce(np.ones(100), out)
            if shrunk:
                tell(rank, comm.size)
                shrunk = False
            step += 1
            if step == STEPS and rank == last:
                die()
        except MPI.Exception:
            comm.Revoke()
            comm = comm.Shrink()
            comm.Set_errhandler(MPI.ERRORS_RETURN)
            shrunk = True


(ours if which == "ours" else ulfm)()
