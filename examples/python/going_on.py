"""A sum that is right whoever dies: the ranks that live go on.

    skerry run -n 4 --nodes 2 python3 going_on.py --kill 3

In each round every member of the group works on its part of the next numbers. An allreduce succeeds
on all members that live or fails on all, so all know the same: the round counts, or it is done
again by those that live.
"""

import argparse
import os
import signal

import numpy as np
import skerry as sk

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--kill", type=int, nargs="*", default=[], help="ranks that kill themselves")
parser.add_argument("--rounds", type=int, default=50)
args = parser.parse_args()

sk.init(on_failure="continue")
EACH = 1000  # numbers in a round


def work(first, group):
    """The squares of this member's part of the numbers from `first` on."""
    numbers = np.arange(first, first + EACH, dtype=np.int64)
    return np.sum(numbers[group.index(sk.rank()) :: len(group)] ** 2)


group, total, rounds, repeated = sk.world(), 0, 0, 0
while rounds < args.rounds:
    if sk.rank() in args.kill and rounds == 10 + args.kill.index(sk.rank()):
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        part = sk.allreduce(np.array([work(rounds * EACH, group)]), group=group)
    except sk.PeerDeadError:
        group = group.shrink(timeout=30)
        repeated += 1
        continue
    total += int(part[0])
    rounds += 1

numbers = args.rounds * EACH
assert total == (numbers - 1) * numbers * (2 * numbers - 1) // 6
if sk.rank() == group.rank(0):
    print(f"{total}: right, by {len(group)} of {sk.size()} ranks; dead: {sk.failed()}, "
          f"rounds done again: {repeated}")
