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

EMPTY = 0
SLOT = np.dtype([("key", "i8"), ("count", "i8")])


class Table:
    """`slots` slots in each rank's part. A writer holds the owner's part alone, readers share it;
    the owner takes no part."""

    def __init__(self, slots):
        self.slots = slots
        self.window = sk.window(slots, SLOT)

    def owner(self, key):
        return key * 2654435761 % 2**32 // 2**16 % sk.size()  # Knuth's multiplicative hash

    def count(self, key):
        """Adds 1 to what the key has; a new key has 0."""
        owner = self.owner(key)
        with self.window.lock(owner):
            at, slot = self._find(owner, key)
            slot["key"], slot["count"] = key, slot["count"] + 1
            self.window.put(owner, at, slot)

    def __getitem__(self, key):
        owner = self.owner(key)
        with self.window.lock(owner, shared=True):
            _, slot = self._find(owner, key)
        return int(slot["count"])

    def _find(self, owner, key):
        """Place and contents of the key's slot, or of the empty one where it belongs."""
        slot = np.empty((), SLOT)
        for i in range(self.slots):
            at = (key * 40503 + i) % self.slots
            self.window.get(owner, at, slot)
            if slot["key"] in (key, EMPTY):
                return at, slot
        raise RuntimeError(f"rank {owner}'s part is full: give more --slots")


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
    for key in draw(sk.rank(), options.draws, options.keys):
        table.count(key)
    sk.barrier()
    # Compare with counts made without it. Each rank checks the keys of its own number.
    expected = collections.Counter()
    for rank in range(sk.size()):
        expected.update(draw(rank, options.draws, options.keys))
    own = range(1 + sk.rank(), options.keys + 1, sk.size())
    wrong = sk.allreduce(sum(table[key] != expected[key] for key in own))
    if sk.rank() == 0:
        print(f"{options.draws} draws of {sk.size()} ranks: {options.keys} counts, {wrong} wrong")
    sk.finalize()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
