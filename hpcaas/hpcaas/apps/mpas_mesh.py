"""Global meshes for MPAS: a subdivided icosahedron, a few Lloyd steps, and the full mesh description
that MPAS reads.

10 * 4^L + 2 cells; L = 6 is the paper's 40,962. Everything is on the unit sphere, as MPAS's own
meshes are: initialisation scales it. Written from the MPAS mesh specification (orientation of
edges, order of neighbours) and Thuburn et al. 2009 (weights of the tangential velocity); the file
is 64-bit-offset NetCDF because NetCDF-4 ends MPAS's initialisation with a crash.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.io import netcdf_file

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def unit(points: Array) -> Array:
    return points / np.linalg.norm(points, axis=-1, keepdims=True)


def icosahedron() -> tuple[Array, Index]:
    g = (1 + 5**0.5) / 2
    points = np.array(
        [
            (-1, g, 0),
            (1, g, 0),
            (-1, -g, 0),
            (1, -g, 0),
            (0, -1, g),
            (0, 1, g),
            (0, -1, -g),
            (0, 1, -g),
            (g, 0, -1),
            (g, 0, 1),
            (-g, 0, -1),
            (-g, 0, 1),
        ]
    )
    faces = np.array(
        [
            (0, 11, 5),
            (0, 5, 1),
            (0, 1, 7),
            (0, 7, 10),
            (0, 10, 11),
            (1, 5, 9),
            (5, 11, 4),
            (11, 10, 2),
            (10, 7, 6),
            (7, 1, 8),
            (3, 9, 4),
            (3, 4, 2),
            (3, 2, 6),
            (3, 6, 8),
            (3, 8, 9),
            (4, 9, 5),
            (2, 4, 11),
            (6, 2, 10),
            (8, 6, 7),
            (9, 8, 1),
        ]
    )
    # Turned a little: a cell exactly at a pole has no longitude.
    a, b = 0.3, 0.2
    turn = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]]) @ np.array(
        [[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]]
    )
    return unit(points) @ turn.T, faces


def subdivide(points: Array, faces: Index) -> tuple[Array, Index]:
    """Every triangle into four; new points are shared between neighbours."""
    pairs = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
    edges, inverse = np.unique(pairs, axis=0, return_inverse=True)
    middle = len(points) + inverse.reshape(3, -1)
    ab, bc, ca = middle
    a, b, c = faces.T
    finer = np.concatenate(
        [np.stack(t, axis=1) for t in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))]
    )
    return np.concatenate([points, unit(points[edges[:, 0]] + points[edges[:, 1]])]), finer


def circumcentres(points: Array, faces: Index) -> Array:
    a, b, c = (points[faces[:, k]] for k in range(3))
    return unit(np.cross(b - a, c - a))


def triangle_area(a: Array, b: Array, c: Array) -> Array:
    """Area of spherical triangles (Van Oosterom and Strackee), accurate for small ones."""
    volume = np.abs(np.einsum("...i,...i", a, np.cross(b, c)))
    return 2 * np.arctan2(
        volume,
        1
        + np.einsum("...i,...i", a, b)
        + np.einsum("...i,...i", b, c)
        + np.einsum("...i,...i", c, a),
    )


def arc(a: Array, b: Array) -> Array:
    return 2 * np.arcsin(np.clip(np.linalg.norm(a - b, axis=-1) / 2, 0, 1))


@dataclass
class Mesh:
    """Indices are 0-based here and 1-based in the file; -1 stands for none (0 in the file)."""

    cells: Array
    vertices: Array
    edges: Array
    cells_on_edge: Index
    vertices_on_edge: Index
    count: Index  # edges of each cell
    edges_on_cell: Index
    vertices_on_cell: Index
    cells_on_cell: Index
    cells_on_vertex: Index
    edges_on_vertex: Index
    dc: Array
    dv: Array
    area_cell: Array
    area_triangle: Array
    kites: Array
    count_edges: Index
    edges_on_edge: Index
    weights: Array
    angle: Array


def lloyd(points: Array, faces: Index, steps: int) -> Array:
    """Moves every cell centre to the centre of mass of its Voronoi cell; the neighbours stay the
    same."""
    for _ in range(steps):
        centres = circumcentres(points, faces)
        moved = np.zeros_like(points)
        for k in range(3):
            here, after, before = (
                points[faces[:, k]],
                points[faces[:, (k + 1) % 3]],
                points[faces[:, (k + 2) % 3]],
            )
            for other in (after, before):
                middle = unit(here + other)
                np.add.at(
                    moved,
                    faces[:, k],
                    triangle_area(here, middle, centres)[:, None] * unit(here + middle + centres),
                )
        points = unit(moved)
    return points


def _outward(points: Array, faces: Index) -> Index:
    """Faces counter-clockwise seen from outside."""
    one, two, three = (points[faces[:, k]] for k in range(3))
    volume = np.einsum("ij,ij->i", np.cross(two - one, three - one), one)
    return np.where(volume[:, None] < 0, faces[:, ::-1], faces)


def _edges_of(faces: Index) -> tuple[Index, Index, Index]:
    """Of each edge the cells and the vertices beside it, and of each face its edges: edge k joins
    corners k and k + 1. The normal points from cell 1 to cell 2; k x n, to the left of it, from
    vertex 1 to vertex 2."""
    # Directed edges (a -> b) of counter-clockwise triangles: the triangle lies to the left.
    a, b = faces.reshape(-1), np.roll(faces, -1, axis=1).reshape(-1)
    triangle = np.repeat(np.arange(len(faces)), 3)
    ends = np.sort(np.stack([a, b], axis=1), axis=1)
    pairs, inverse = np.unique(ends, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    left, right = (np.empty(len(pairs), dtype=np.int64) for _ in range(2))
    forward = a < b
    left[inverse[forward]], right[inverse[~forward]] = triangle[forward], triangle[~forward]
    return pairs, np.stack([right, left], axis=1), inverse.reshape(-1, 3)


def _around(
    cells_on_edge: Index, edge_of: Index, faces: Index, count: Index, width: int = 6
) -> tuple[Index, Index, Index]:
    """Edges, vertices and neighbours of each cell, walking from edge to edge round it; vertex i
    precedes edge i. Unused places hold -1."""
    # In triangle (c, p, q) counter-clockwise, the edge c-p comes before the edge c-q around c, and
    # the triangle lies between them. Both are kept for cell 1 and for cell 2 of an edge.
    successor, between = (np.full((2, len(cells_on_edge)), -1, dtype=np.int64) for _ in range(2))
    for k in range(3):
        first, then, cell = edge_of[:, k], edge_of[:, (k + 2) % 3], faces[:, k]
        side = (cells_on_edge[first, 1] == cell).astype(np.int64)
        successor[side, first] = then
        between[side, first] = np.arange(len(faces))
    edges, vertices, cells = (np.full((len(count), width), -1, dtype=np.int64) for _ in range(3))
    current, everyone = np.full(len(count), -1, dtype=np.int64), np.arange(len(count))
    for side in (1, 0):
        current[cells_on_edge[:, side]] = np.arange(len(cells_on_edge))
    for i in range(width):
        live = i < count
        here, cell = current[live], everyone[live]
        side = (cells_on_edge[here, 1] == cell).astype(np.int64)
        edges[cell, i] = here
        cells[cell, i] = cells_on_edge[here, 1 - side]
        vertices[cell, (i + 1) % count[cell]] = between[side, here]
        current[live] = successor[side, here]
    return edges, vertices, cells


def _kites(points: Array, vertices: Array, edges: Array, faces: Index, edge_of: Index) -> Array:
    """Area of the part of each face that belongs to its corner k."""
    kites = np.zeros((len(faces), 3))
    for k in range(3):
        corner, after = points[faces[:, k]], edges[edge_of[:, k]]
        before = edges[edge_of[:, (k + 2) % 3]]
        kites[:, k] = triangle_area(corner, after, vertices)
        kites[:, k] += triangle_area(corner, vertices, before)
    return kites


def build(level: int, steps: int = 4) -> Mesh:
    points, faces = icosahedron()
    for _ in range(level):
        points, faces = subdivide(points, faces)
    points = lloyd(points, faces, steps)
    faces = _outward(points, faces)
    vertices = circumcentres(points, faces)
    cells_on_edge, vertices_on_edge, edge_of = _edges_of(faces)
    ends, feet = points[cells_on_edge], vertices[vertices_on_edge]
    edges = unit(ends[:, 0] + ends[:, 1])
    n = len(points)
    count = np.bincount(cells_on_edge.reshape(-1), minlength=n)
    around = _around(cells_on_edge, edge_of, faces, count)
    edges_on_cell, vertices_on_cell, cells_on_cell = around
    dc, dv = arc(ends[:, 0], ends[:, 1]), arc(feet[:, 0], feet[:, 1])
    kites = _kites(points, vertices, edges, faces, edge_of)
    area_cell = np.bincount(faces.reshape(-1), kites.reshape(-1), minlength=n)
    weights = _weights(
        n, cells_on_edge, count, edges_on_cell, vertices_on_cell, faces, kites, area_cell, dc, dv
    )
    return Mesh(
        points,
        vertices,
        edges,
        cells_on_edge,
        vertices_on_edge,
        count,
        edges_on_cell,
        vertices_on_cell,
        cells_on_cell,
        faces,
        edge_of,
        dc,
        dv,
        area_cell,
        kites.sum(axis=1),
        kites,
        *weights,
        _angles(points, edges, cells_on_edge),
    )


def _angles(points: Array, edges: Array, cells_on_edge: Index) -> Array:
    """Angle from local east to the normal of an edge."""
    east = unit(np.stack([-edges[:, 1], edges[:, 0], np.zeros(len(edges))], axis=1))
    north = np.cross(edges, east)
    normal = points[cells_on_edge[:, 1]] - points[cells_on_edge[:, 0]]
    return np.arctan2(np.einsum("ij,ij->i", normal, north), np.einsum("ij,ij->i", normal, east))


def _weights(
    n: int,
    cells_on_edge: Index,
    count: Index,
    edges_on_cell: Index,
    vertices_on_cell: Index,
    faces: Index,
    kites: Array,
    area_cell: Array,
    dc: Array,
    dv: Array,
) -> tuple[Index, Index, Array]:
    """Tangential velocity from normal ones: around each cell of an edge, counter-clockwise, 1/2
    minus the part of the cell passed."""
    m = len(cells_on_edge)
    share = np.zeros((n, 6))  # of a cell's area at vertex i of the cell
    for k in range(3):
        cell = faces[:, k]
        place = np.argmax(vertices_on_cell[cell] == np.arange(len(faces))[:, None], axis=1)
        share[cell, place] = kites[:, k] / area_cell[cell]
    edges_on_edge, weights = np.full((m, 12), -1, dtype=np.int64), np.zeros((m, 12))
    filled = np.zeros(m, dtype=np.int64)
    rows = np.arange(m)
    for side in (0, 1):
        cell = cells_on_edge[:, side]
        position = np.argmax(edges_on_cell[cell] == rows[:, None], axis=1)
        passed = np.zeros(m)
        for step in range(1, 6):
            live = step < count[cell]
            i = (position + step) % count[cell]
            # vertex i lies between edge i - 1 and edge i
            passed = passed + np.where(live, share[cell, i], 0.0)
            other = edges_on_cell[cell, i]
            outward = np.where(cells_on_edge[other, 0] == cell, 1.0, -1.0)
            own = 1.0 if side == 0 else -1.0
            value = own * outward * (0.5 - passed) * dv[other] / dc
            edges_on_edge[rows[live], filled[live]] = other[live]
            weights[rows[live], filled[live]] = value[live]
            filled[live] += 1
    return filled, edges_on_edge, weights


def write(mesh: Mesh, path: Path) -> None:
    def lonlat(p: Array) -> tuple[Array, Array]:
        return np.arcsin(np.clip(p[:, 2], -1, 1)), np.mod(np.arctan2(p[:, 1], p[:, 0]), 2 * np.pi)

    with netcdf_file(str(path), "w", version=2) as file:  # version 2 is the 64-bit-offset format
        file.on_a_sphere, file.sphere_radius, file.is_periodic = "YES", 1.0, "NO"
        file.file_id, file.parent_id, file.mesh_spec, file.history = (
            "hpcaas",
            "",
            "1.0",
            "hpcaas.apps.mpas_mesh",
        )
        for name, size in (
            ("nCells", len(mesh.cells)),
            ("nEdges", len(mesh.edges)),
            ("nVertices", len(mesh.vertices)),
            ("maxEdges", 6),
            ("maxEdges2", 12),
            ("TWO", 2),
            ("vertexDegree", 3),
        ):
            file.createDimension(name, size)

        def put(
            name: str, kind: str, dimensions: tuple[str, ...], values: NDArray[np.generic]
        ) -> None:
            variable = file.createVariable(name, kind, dimensions)
            variable[:] = values

        for name, points in (("Cell", mesh.cells), ("Edge", mesh.edges), ("Vertex", mesh.vertices)):
            dimension = {"Cell": "nCells", "Edge": "nEdges", "Vertex": "nVertices"}[name]
            latitude, longitude = lonlat(points)
            put(f"lat{name}", "d", (dimension,), latitude)
            put(f"lon{name}", "d", (dimension,), longitude)
            for axis, letter in enumerate("xyz"):
                put(f"{letter}{name}", "d", (dimension,), points[:, axis])
            put(f"indexTo{name}ID", "i", (dimension,), np.arange(1, len(points) + 1))
        for name, dimensions, values in (
            ("cellsOnEdge", ("nEdges", "TWO"), mesh.cells_on_edge),
            ("verticesOnEdge", ("nEdges", "TWO"), mesh.vertices_on_edge),
            ("edgesOnCell", ("nCells", "maxEdges"), mesh.edges_on_cell),
            ("verticesOnCell", ("nCells", "maxEdges"), mesh.vertices_on_cell),
            ("cellsOnCell", ("nCells", "maxEdges"), mesh.cells_on_cell),
            ("cellsOnVertex", ("nVertices", "vertexDegree"), mesh.cells_on_vertex),
            ("edgesOnVertex", ("nVertices", "vertexDegree"), mesh.edges_on_vertex),
            ("edgesOnEdge", ("nEdges", "maxEdges2"), mesh.edges_on_edge),
        ):
            put(name, "i", dimensions, values + 1)
        put("nEdgesOnCell", "i", ("nCells",), mesh.count)
        put("nEdgesOnEdge", "i", ("nEdges",), mesh.count_edges)
        for name, dimensions, reals in (
            ("weightsOnEdge", ("nEdges", "maxEdges2"), mesh.weights),
            ("dvEdge", ("nEdges",), mesh.dv),
            ("dcEdge", ("nEdges",), mesh.dc),
            ("angleEdge", ("nEdges",), mesh.angle),
            ("areaCell", ("nCells",), mesh.area_cell),
            ("areaTriangle", ("nVertices",), mesh.area_triangle),
            ("kiteAreasOnVertex", ("nVertices", "vertexDegree"), mesh.kites),
            ("meshDensity", ("nCells",), np.ones(len(mesh.cells))),
        ):
            put(name, "d", dimensions, reals)
        nominal = file.createVariable("nominalMinDc", "d", ())
        nominal.data[...] = mesh.dc.min()  # assignValue of SciPy fails on scalars


def write_graph(mesh: Mesh, path: Path) -> None:
    """graph.info of METIS: neighbours of every cell."""
    lines = [f"{len(mesh.cells)} {len(mesh.edges)}"]
    lines += [
        " ".join(str(c + 1) for c in row[:n])
        for row, n in zip(mesh.cells_on_cell.tolist(), mesh.count.tolist())
    ]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    made = build(int(sys.argv[1]))
    write(made, Path(sys.argv[2]))
    if len(sys.argv) > 3:
        write_graph(made, Path(sys.argv[3]))
    print(f"{len(made.cells)} cells, {len(made.edges)} edges, {len(made.vertices)} vertices")
