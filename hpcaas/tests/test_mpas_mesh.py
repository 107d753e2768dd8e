"""The mesh generator: geometry that must hold exactly, and weights that must reconstruct a wind that is known."""

import numpy as np
import pytest
from scipy.io import netcdf_file

from hpcaas.apps import mpas_mesh


@pytest.fixture(scope="module", params=[2, 4])
def mesh(request):
    return mpas_mesh.build(request.param), request.param


def test_numbers_are_those_of_the_icosahedron(mesh):
    m, level = mesh
    assert len(m.cells) == 10 * 4**level + 2
    assert len(m.cells) - len(m.edges) + len(m.vertices) == 2
    assert (m.count == 5).sum() == 12 and (m.count == 6).sum() == len(m.cells) - 12


def test_areas_cover_the_sphere_three_times_over(mesh):
    m, _ = mesh
    for areas in (m.area_cell, m.area_triangle, m.kites):
        assert areas.sum() == pytest.approx(4 * np.pi, rel=1e-12)
        assert areas.min() > 0


def test_neighbours_are_mutual_and_in_order(mesh):
    m, _ = mesh
    for cell in range(0, len(m.cells), 7):
        n = m.count[cell]
        for i in range(n):
            edge, other = m.edges_on_cell[cell, i], m.cells_on_cell[cell, i]
            assert {cell, other} == set(m.cells_on_edge[edge])
            assert {m.vertices_on_cell[cell, i], m.vertices_on_cell[cell, (i + 1) % n]} == set(
                m.vertices_on_edge[edge]
            )
        corners = m.vertices[m.vertices_on_cell[cell, :n]]
        turning = np.einsum(
            "ij,j->i",
            np.cross(corners - m.cells[cell], np.roll(corners, -1, axis=0) - m.cells[cell]),
            m.cells[cell],
        )
        assert (turning > 0).all()  # counter-clockwise from outside


def test_normal_and_tangent_are_right_handed(mesh):
    m, _ = mesh
    normal = m.cells[m.cells_on_edge[:, 1]] - m.cells[m.cells_on_edge[:, 0]]
    tangent = m.vertices[m.vertices_on_edge[:, 1]] - m.vertices[m.vertices_on_edge[:, 0]]
    assert (np.einsum("ij,ij->i", np.cross(normal, tangent), m.edges) > 0).all()


def test_weights_reconstruct_a_rotating_wind(mesh):
    m, level = mesh
    wind = np.cross(np.array([0.3, -0.5, 0.8]), m.edges)
    normal = mpas_mesh.unit(m.cells[m.cells_on_edge[:, 1]] - m.cells[m.cells_on_edge[:, 0]])
    tangent = np.cross(m.edges, normal)
    u, v = np.einsum("ij,ij->i", wind, normal), np.einsum("ij,ij->i", wind, tangent)
    rebuilt = np.where(m.edges_on_edge >= 0, m.weights * u[m.edges_on_edge], 0).sum(axis=1)
    assert np.abs(rebuilt - v).max() < (0.15 if level == 2 else 0.05)
    assert np.sqrt(np.mean((rebuilt - v) ** 2)) < (0.05 if level == 2 else 0.012)


def test_weights_do_no_work(mesh):
    """Antisymmetry: the Coriolis force built on these weights neither makes nor destroys energy."""
    m, _ = mesh
    scaled = {}
    for e in range(len(m.edges)):
        for k in range(m.count_edges[e]):
            scaled[(e, int(m.edges_on_edge[e, k]))] = (
                m.weights[e, k] * m.dc[e] / m.dv[m.edges_on_edge[e, k]]
            )
    assert max(abs(w + scaled[(b, a)]) for (a, b), w in scaled.items()) < 1e-9


def test_the_file_is_what_mpas_reads(mesh, tmp_path):
    m, _ = mesh
    mpas_mesh.write(m, tmp_path / "grid.nc")
    assert (tmp_path / "grid.nc").read_bytes()[:4] == b"CDF\x02"  # 64-bit offset
    with netcdf_file(str(tmp_path / "grid.nc"), mmap=False) as file:
        assert file.on_a_sphere == b"YES" and file.dimensions["nCells"] == len(m.cells)
        assert file.variables["edgesOnCell"][:].min() == (0 if (m.count == 5).any() else 1)
    mpas_mesh.write_graph(m, tmp_path / "graph.info")
    assert len((tmp_path / "graph.info").read_text().splitlines()) == len(m.cells) + 1
