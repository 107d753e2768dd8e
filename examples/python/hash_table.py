"""A hash table over all ranks: any rank finds, adds and counts keys in any rank's part.

Use one when every rank must find or add records by key and nobody can say who will need which:
removing duplicates, counting words or k-mers, remembering results of a search.

skerry run -n 4 --nodes 2 python examples/python/hash_table.py --draws 1000
"""

import argparse
import collections
import random
import sys

import numpy as np

import skerry as sk

EMPTY = 0  # no key


class Table:
    """`slots` slots of key and count in each rank's part. A slot is claimed by compare-and-swap and
    counted by an atomic sum, so ranks never wait for one another; the owner takes no part. Use it
    inside `with table.window.lock_all()`."""

    def __init__(self, slots):
        self.slots = slots
        self.window = sk.window((slots, 2), "int64")

    def owner(self, key):
        return key * 2654435761 % 2**32 // 2**16 % sk.size()  # Knuth's multiplicative hash

    def places(self, key):
        """Where the key's slot may be, in the order in which slots are claimed."""
        return (2 * ((key * 40503 + i) % self.slots) for i in range(self.slots))

    def count(self, key):
        """Adds 1 to what the key has; a new key has 0."""
        owner = self.owner(key)
        for at in self.places(key):
            if self.window.compare_swap(owner, at, EMPTY, key) in (EMPTY, key):
                self.window.update(owner, at + 1, 1)
                return
        raise RuntimeError(f"rank {owner}'s part is full: give more --slots")

    def __getitem__(self, key):
        """Also right while others count: each word is read atomically."""
        owner, slot = self.owner(key), np.empty(2, "int64")
        for at in self.places(key):
            self.window.fetch_update(owner, at, None, "no_op", slot)
            if slot[0] in (key, EMPTY):
                return int(slot[1]) if slot[0] == key else 0
        return 0


def draw(rank, draws, keys):
    """The keys that a rank counts. Few are drawn often, as words are."""
    numbers = random.Random(rank)
    return [1 + numbers.randrange(1 + numbers.randrange(keys)) for _ in range(draws)]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=100, help="keys that each rank counts (100)")
    parser.add_argument("--keys", type=int, default=80, help="different keys (80)")
    parser.add_argument("--slots", type=int, default=500, help="slots of each rank's part (500)")
    options = parser.parse_args()
    sk.init()
    table = Table(options.slots)
    with table.window.lock_all():
        for key in draw(sk.rank(), options.draws, options.keys):
            table.count(key)
    sk.barrier()
    # Compare with counts made without it. Each rank checks the keys of its own number.
    expected = collections.Counter()
    for rank in range(sk.size()):
        expected.update(draw(rank, options.draws, options.keys))
    own = range(1 + sk.rank(), options.keys + 1, sk.size())
    with table.window.lock_all():
        wrong = sk.allreduce(sum(table[key] != expected[key] for key in own))
    if sk.rank() == 0:
        print(f"{options.draws} draws of {sk.size()} ranks: {options.keys} counts, {wrong} wrong")
    sk.finalize()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
