#!/usr/bin/env python3
"""Ten whole programs as people write them for NumPy: loops over time, rows, columns and elements,
in place and not. skerry.numpy beside NumPy, in one run.

    skerry run -n 2 lab/bench/arrays/programs.py [--scale S] [--rounds N] [--only NAME ...]

Rank 0 runs each with NumPy while the others wait, then all with skerry.numpy. Prints a line of JSON
for each: the best times, their ratio, and that of processor times. tests/python/test_programs.py
compares their results.
"""

import argparse
import json
import time


def heat(np, n):
    """Explicit steps of a five-point stencil between two arrays."""
    now = np.zeros((n, n + 1))
    now[0, :], now[:, -1] = 1.0, -0.5
    after = now.copy()
    for _ in range(20):
        after[1:-1, 1:-1] = now[1:-1, 1:-1] + 0.1 * (
            now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4 * now[1:-1, 1:-1]
        )
        now, after = after, now
    return now, abs(now - after).max()


def waves(np, n):
    """Fields on staggered grids, in place, with a source."""
    x, y, z = np.zeros((n, n + 2)), np.zeros((n, n + 2)), np.zeros((n, n + 2))
    for step in range(15):
        y[0, :] = np.sin(0.3 * step)
        y[1:, :] -= 0.5 * (z[1:, :] - z[:-1, :])
        x[:, 1:] -= 0.5 * (z[:, 1:] - z[:, :-1])
        z[:-1, :-1] -= 0.7 * (x[:-1, 1:] - x[:-1, :-1] + y[1:, :-1] - y[:-1, :-1])
    return x, y, z


def filters(np, n):
    """A recursive filter along rows, then along columns."""
    image = np.cos(np.arange(float(n * (n + 3))).reshape(n, n + 3))
    once, twice = np.empty_like(image), np.empty_like(image)
    once[:, 0] = 0.5 * image[:, 0]
    for j in range(1, image.shape[1]):
        once[:, j] = 0.5 * image[:, j] + 0.25 * once[:, j - 1]
    twice[-1, :] = once[-1, :]
    for i in range(image.shape[0] - 2, -1, -1):
        twice[i, :] = 0.5 * once[i + 1, :] + 0.25 * twice[i + 1, :]
    return once + twice


def triangle(np, n):
    """A triangular system, by rows."""
    lower = np.tril(np.ones((n, n))) * 0.5 + np.eye(n) * n
    b, x = np.arange(float(n)), np.zeros(n)
    for i in range(n):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]
    return x


def factors(np, n):
    """LU in place, by rank-one updates."""
    a = np.cos(np.arange(float(n * n)).reshape(n, n)) + np.eye(n) * n
    for k in range(n - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


def covariances(np, n):
    """Of all pairs of columns, one row of the result at a time."""
    data = np.sin(np.arange(float(3 * n * n)).reshape(3 * n, n))
    data -= np.mean(data, axis=0)
    data /= np.std(data, axis=0)
    out = np.zeros((n, n))
    for i in range(n):
        out[i:, i] = out[i, i:] = data[:, i] @ data[:, i:] / (len(data) - 1.0)
    return out


def bodies(np, n):
    """Forces of all pairs, and steps in time."""
    place = np.stack((np.cos(np.arange(float(n))), np.sin(np.arange(float(n)) * 1.7)), axis=1)
    speed, mass = np.zeros((n, 2)), np.ones(n)
    for _ in range(3):
        dx, dy = (place[:, d][None, :] - place[:, d][:, None] for d in range(2))
        near = (dx * dx + dy * dy + 0.01) ** -1.5
        speed[:, 0] += 1e-4 * (dx * near) @ mass
        speed[:, 1] += 1e-4 * (dy * near) @ mass
        place += speed * 0.01
        speed -= np.mean(speed, axis=0)
    return place, 0.5 * np.sum(speed**2)


def network(np, n):
    """Two layers and a softmax, one step of descent."""
    inputs = np.sin(np.arange(float(2 * n * n)).reshape(2 * n, n))
    first = np.cos(np.arange(float(n * 64)).reshape(n, 64)) * 0.1
    second = np.cos(np.arange(float(640)).reshape(64, 10)) * 0.1
    for _ in range(3):
        hidden = np.maximum(inputs @ first, 0)
        scores = hidden @ second
        scores = np.exp(scores - np.max(scores, axis=1, keepdims=True))
        chances = scores / np.sum(scores, axis=1, keepdims=True)
        chances[:, 3] -= 1.0
        second -= 1e-3 * (hidden.T @ chances) / len(inputs)
    return second, chances


def escapes(np, n):
    """Mandelbrot's set: masks and complex numbers."""
    c = np.linspace(-2.0, 0.5, n)[None, :] + 1j * np.linspace(-1.2, 1.2, n)[:, None]
    z, count = np.zeros_like(c), np.zeros(c.shape, "int64")
    for _ in range(12):
        inside = np.abs(z) < 2
        z[inside] = z[inside] ** 2 + c[inside]
        count[inside] += 1
    return count


def walks(np, n):
    """Elements one by one: a checksum, a trace, a recurrence."""
    codes = (np.arange(n * 50) * 7919) % 256
    check = 0
    for i in range(codes.shape[0]):
        check = ((check << 1) ^ int(codes[i])) & 0xFFFF
    square = np.sqrt(np.arange(float(n * n))).reshape(n, n)
    trace = 0.0
    for i in range(n):
        trace += np.tanh(square[i, i])
    steps = np.zeros(n)
    for i in range(1, n):
        steps[i] = 0.5 * steps[i - 1] + square[0, i]
    return check, trace, steps


PROGRAMS = {each.__name__: each for each in (
    heat, waves, filters, triangle, factors, covariances, bodies, network, escapes, walks
)}  # fmt: skip
SIZES = {"heat": 1000, "waves": 1000, "filters": 1000, "triangle": 1500, "factors": 400,
         "covariances": 600, "bodies": 1200, "network": 1500, "escapes": 800,
         "walks": 2000}  # fmt: skip


def best(program, module, n, rounds, together):
    """The least seconds of some rounds, and of processor time."""
    times, used = [], []
    for _ in range(rounds):
        together()
        begin, begin_used = time.perf_counter(), time.process_time()
        result = program(module, n)
        for each in result if isinstance(result, tuple) else (result,):
            getattr(each, "_evaluate", int)()
        used.append(time.process_time() - begin_used)
        together()
        times.append(time.perf_counter() - begin)
    return min(times), min(used)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS))
    options = parser.parse_args()
    import numpy

    import skerry as sk
    import skerry.numpy as snp

    sk.init()
    for name in options.only:
        n, program = max(8, int(SIZES[name] * options.scale)), PROGRAMS[name]
        base = base_used = 0.0
        if sk.rank() == 0:
            base, base_used = best(program, numpy, n, options.rounds, lambda: None)
        sk.sync()
        found, used = best(program, snp, n, options.rounds, sk.sync)
        used = sk.allreduce(used, "max")
        if sk.rank() == 0:
            print(json.dumps({"name": name, "numpy_s": base, "skerry_s": found,
                              "ratio": found / base, "processor_ratio": used / base_used}),
                  flush=True)  # fmt: skip
    sk.finalize()


if __name__ == "__main__":
    main()
