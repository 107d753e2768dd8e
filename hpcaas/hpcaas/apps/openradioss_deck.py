"""A small crush of our own: a square steel tube running against a rigid wall, folding on itself. Written from the keyword
reference, because OpenRadioss's own test decks may not be used commercially.

    python -m hpcaas.apps.openradioss_deck ELEMENTS_ACROSS END_TIME_MS     writes crush_0000.rad and crush_0001.rad
"""

from __future__ import annotations

import sys
from pathlib import Path

# Units: kg, mm, ms (forces in kN, stresses in GPa). Mild steel; a tube of 80 x 80 x 320 mm, 1.5 mm
# thick, at 13.9 mm/ms (50 km/h, the paper's speed).
SIDE_MM, LENGTH_MM, THICKNESS_MM, SPEED = 80.0, 320.0, 1.5, 13.9
DENSITY, YOUNG, POISSON = 7.85e-6, 210.0, 0.3


def _i(*values: int) -> str:
    return "".join(f"{v:>10d}" for v in values)


def _f(*values: float) -> str:
    return "".join(f"{v:>20.10G}" for v in values)


def tube(across: int) -> tuple[list[tuple[float, float, float]], list[tuple[int, int, int, int]]]:
    """Nodes and shells; `across` elements along each side, four times as many along the tube."""
    around, along = 4 * across, 4 * across
    nodes = []
    for k in range(along + 1):
        # A slight taper starts the folding near the wall: a perfect tube would buckle at a place
        # that rounding decides.
        shrink = 1.0 - 0.02 * max(0.0, 1.0 - k / (0.1 * along))
        for i in range(around):
            side, part = divmod(i, across)
            t = part / across
            x, y = ((t, 0.0), (1.0, t), (1.0 - t, 1.0), (0.0, 1.0 - t))[side]
            nodes.append(
                (
                    (x - 0.5) * SIDE_MM * shrink,
                    (y - 0.5) * SIDE_MM * shrink,
                    1.0 + k * LENGTH_MM / along,
                )
            )
    shells = [
        (
            k * around + i + 1,
            k * around + (i + 1) % around + 1,
            (k + 1) * around + (i + 1) % around + 1,
            (k + 1) * around + i + 1,
        )
        for k in range(along)
        for i in range(around)
    ]
    return nodes, shells


def _node_list(ids: list[int]) -> list[str]:
    return [_i(*ids[k : k + 10]) for k in range(0, len(ids), 10)]


def starter(across: int) -> str:
    nodes, shells = tube(across)
    everyone = list(range(1, len(nodes) + 1))
    rear = everyone[-4 * across :]
    # The car behind the tube: 200 kg spread over the rear end, so that the tube is crushed and does
    # not bounce off.
    added = 200.0 / len(rear)
    lines = [
        "#RADIOSS STARTER",
        "/BEGIN",
        "crush",
        _i(2022, 0),
        f"{'kg':>20}{'mm':>20}{'ms':>20}",
        f"{'kg':>20}{'mm':>20}{'ms':>20}",
        "/TITLE",
        "square tube against a rigid wall",
        "/MAT/PLAS_JOHNS/1",
        "mild steel",
        _f(DENSITY),
        _f(YOUNG, POISSON) + _i(0),
        _f(0.25, 0.45, 0.5, 0.0, 0.0),
        _f(0.0, 0.0) + _i(0, 0) + _f(0.0, 0.0),
        _f(0.0, 0.0, 0.0, 0.0),
        "/PROP/SHELL/1",
        "wall of the tube",
        _i(24, 0, 0, 0, 0) + " " * 10 + _f(0.0),
        _f(0.0, 0.0, 0.0, 0.0, 0.0),
        _i(5, 0) + _f(THICKNESS_MM, 0.0) + " " * 10 + _i(1, 1),
        "/PART/1",
        "tube",
        _i(1, 1, 0),
        "/NODE",
    ]
    lines += [_i(n) + _f(*p) for n, p in zip(everyone, nodes)]
    lines.append("/SHELL/1")
    lines += [_i(e, *corners) for e, corners in enumerate(shells, 1)]
    lines += [
        "/GRNOD/NODE/1",
        "all nodes",
        *_node_list(everyone),
        "/GRNOD/NODE/2",
        "rear end",
        *_node_list(rear),
        "/ADMAS/0/1",
        "car behind",
        _f(added) + _i(2),
        "/BCS/1",
        "rear end moves along the tube only",
        "   110 111" + _i(0, 2),
        "/INIVEL/TRA/1",
        "50 km/h",
        _f(0.0, 0.0, -SPEED) + _i(1),
        "/RWALL/PLANE/1",
        "rigid wall",
        _i(0, 0, 1, 0),
        _f(0.0, 0.1, 0.0, 0.0) + _i(0),
        _f(0.0, 0.0, 0.0),
        _f(0.0, 0.0, 1.0),
        "/SURF/PART/1",
        "tube outside",
        _i(1),
        "/INTER/TYPE7/1",
        "tube folds on itself",
        _i(1, 1, 4, 0, 0, 0, 0, 0, 0, 0),
        _f(0.0, 0.0, 0.0, 0.0),
        _f(0.0, 0.0, 0.0, 0.0),
        _f(1.0, 0.1, 1.0, 0.0, 0.0),
        "       000" + " " * 20 + _i(0) + _f(0.0, 0.0, 0.0),
        _i(0, 0) + _f(0.0) + _i(0, 0, 0) + _f(0.0) + _i(0),
        "/TH/RWALL/1",
        "wall force",
        f"{'FNZ':<10}",
        _i(1),
        "/END",
        "",
    ]
    return "\n".join(lines)


def engine(end_ms: float) -> str:
    return "\n".join(
        [
            "/RUN/crush/1/",
            f"{end_ms:>20.10G}",
            "/VERS/2022",
            "/DT",
            _f(0.9, 0.0),
            "/PRINT/-100",
            "/TFILE/4",
            _f(end_ms / 200.0),
            "/MON/ON",
            "/STOP",
            _f(99.0, 0.0, 0.0) + _i(1, 1),
            "",
        ]
    )


if __name__ == "__main__":
    Path("crush_0000.rad").write_text(starter(int(sys.argv[1])))
    Path("crush_0001.rad").write_text(engine(float(sys.argv[2])))
