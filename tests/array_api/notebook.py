"""Ranks in a notebook: sk.Cluster by ipyparallel. Prints a line of JSON: ranks, sum, left."""

import json
import os
import sys

import skerry as sk


def main():
    n, nodes = int(sys.argv[1]), int(sys.argv[2])
    with sk.Cluster(n, nodes=nodes, log_level=40) as ranks:
        view = ranks[:]
        told = view.apply_sync(lambda: (sk.rank(), sk.size(), sk.nodes()))  # noqa: F821
        assert told == [(rank, n, nodes) for rank in range(n)], told
        view.execute("a = sk.zeros((100, 100)); a.local[...] = sk.rank(); sk.sync()").get()
        view.execute("total = float(xp.sum(xp.asarray(a)))").get()
        totals = view["total"]
        pids = view.apply_sync(os.getpid)
        shown = ranks[0].apply_sync(lambda: a._repr_html_())  # noqa: F821
        assert shown.count("<rect") == n, shown
    left = [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
    print(json.dumps({"name": "notebook", "totals": totals, "left": left}))


if __name__ == "__main__":
    main()
