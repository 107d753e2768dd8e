! ga_scf: a self-consistent field over Global Arrays from Fortran, with dynamic load balance by nxtval.
!
! A Pariser-Parr-Pople ring of 2 x m electrons on 2 x m sites: a Fock matrix from the density and the repulsion integrals
! 1 / (1 / u + r), built in tasks that processes draw from a shared counter, each of which gets rows of the density and accumulates rows
! of the Fock matrix; a new density by ga_dgemm from the eigenvectors. The same energy must come out of a plain serial loop.
!   mpirun -n N ga_scf
program ga_scf
  implicit none
#include "mafdecls.fh"
#include "global.fh"
#include "tcgmsg.fh"
  integer, parameter :: sites = 24, chunk = 3, tasks = sites / chunk
  double precision, parameter :: hopping = -2.4d0, onsite = 11.13d0
  double precision :: h(sites, sites), repulsion(sites, sites), p(sites, sites), f(sites, sites), v(sites, sites), occupied(sites)
  double precision :: e(sites), energy, before, reference, difference
  integer :: g_p, g_f, g_v, g_s, me, n, i, j, cycle, next, task, first, last, drawn, counts(1)
  logical :: ok

  call pbeginf()
  call ga_initialize()
  ok = ma_init(MT_DBL, 500000_8, 500000_8)
  me = ga_nodeid()
  n = ga_nnodes()
  call hamiltonian()

  ok = ga_create(MT_DBL, sites, sites, 'density', chunk, 0_8, g_p)
  ok = ok .and. ga_create(MT_DBL, sites, sites, 'fock', 0_8, chunk, g_f)
  ok = ok .and. ga_duplicate(g_p, g_v, 'orbitals')
  ok = ok .and. ga_duplicate(g_p, g_s, 'overlap')
  if (.not. ok) call ga_error('no arrays', 1_8)
  call ga_zero(g_p)
  call ga_sync()
  if (me == 0) then
    p = 0
    do i = 1, sites
      p(i, i) = 1 + 0.2d0 * (-1)**i   ! off the symmetric point, so that there is something to converge
    end do
    call ga_put(g_p, 1_8, sites, 1_8, sites, p, sites)
  end if
  call ga_sync()

  energy = 0
  drawn = 0
  do cycle = 1, 200
    before = energy
    call ga_zero(g_f)
    ! Tasks are columns of the Fock matrix; the order in which they are drawn is nobody's.
    energy = 0
    next = nxtval(n)
    do task = 0, tasks - 1
      if (task == next) then
        first = task * chunk + 1
        last = first + chunk - 1
        call ga_get(g_p, 1_8, sites, first, last, p(1, first), sites)
        call diagonal_of_density()
        call build(first, last, p, occupied, f, energy)
        call ga_acc(g_f, 1_8, sites, first, last, f(1, first), sites, 1d0)
        drawn = drawn + 1
        next = nxtval(n)
      end if
    end do
    next = nxtval(-n)   ! everybody is done; the counter starts again
    call ga_sync()
    call ga_dgop(1_8, energy, 1_8, '+')
    call ga_zero(g_s)
    do i = 1 + me, sites, n
      call ga_put(g_s, i, i, i, i, [1d0], 1_8)
    end do
    call ga_sync()
    call ga_diag_seq(g_f, g_s, g_v, e)
    ! New density: twice the sum over the lower half of the orbitals.
    call ga_sync()
    call ga_zero(g_p)
    call ga_dgemm('N', 'T', sites, sites, sites / 2, 2d0, g_v, g_v, 0d0, g_p)
    call ga_sync()
    if (abs(energy - before) < 1d-12 * abs(energy)) exit
  end do

  call serial(reference)
  difference = abs(energy - reference)
  counts(1) = drawn
  call ga_igop(2_8, counts, 1_8, '+')
  if (me == 0) then
    if (difference < 1d-9 .and. counts(1) == tasks * cycle) then
      print '(a,i0,a,i0,a,f0.8,a)', 'ga_scf: ', n, ' processes, ', cycle, ' cycles, energy ', energy, ', ok'
    else
      print '(a,f0.10,a,f0.10,a,i0,a,i0)', 'ga_scf: FAILED: energy ', energy, ', serial ', reference, ', tasks ', counts(1), ' of ', tasks * cycle
    end if
  end if
  call ga_terminate()
  call pend()

contains

  subroutine hamiltonian()
    double precision :: angle, distance
    h = 0
    do i = 1, sites
      h(i, mod(i, sites) + 1) = hopping * (1 + 0.05d0 * (-1)**i)
      h(mod(i, sites) + 1, i) = h(i, mod(i, sites) + 1)
      do j = 1, sites
        angle = 3.14159265358979d0 * (i - j) / sites
        distance = 1.4d0 * abs(sin(angle)) / sin(3.14159265358979d0 / sites)
        repulsion(i, j) = 14.397d0 / (14.397d0 / onsite + distance)
      end do
    end do
    do i = 1, sites   ! every site has a nucleus of one charge
      h(i, i) = -sum(repulsion(:, i)) + repulsion(i, i) - 0.5d0 * repulsion(i, i)
    end do
  end subroutine

  subroutine diagonal_of_density()
    integer :: at(2, sites)
    do i = 1, sites
      at(:, i) = i
    end do
    call nga_gather(g_p, occupied, at, sites)
  end subroutine

  subroutine build(low, high, density, diagonal, fock, electronic)
    integer, intent(in) :: low, high
    double precision, intent(in) :: density(sites, sites), diagonal(sites)
    double precision, intent(inout) :: fock(sites, sites), electronic
    integer :: a, b
    do b = low, high
      do a = 1, sites
        fock(a, b) = h(a, b) - 0.5d0 * density(a, b) * repulsion(a, b)
      end do
      fock(b, b) = fock(b, b) + dot_product(diagonal, repulsion(:, b))
      electronic = electronic + 0.5d0 * dot_product(density(:, b), h(:, b) + fock(:, b))
    end do
  end subroutine

  ! The same without arrays that are global, by Jacobi rotations.
  subroutine serial(electronic)
    double precision, intent(out) :: electronic
    double precision :: fock(sites, sites), vectors(sites, sites), density(sites, sites), diagonal(sites), last_energy
    integer :: iteration, k, order(sites)
    density = 0
    do k = 1, sites
      density(k, k) = 1 + 0.2d0 * (-1)**k
    end do
    electronic = 0
    do iteration = 1, 200
      last_energy = electronic
      electronic = 0
      do k = 1, sites
        diagonal(k) = density(k, k)
      end do
      call build(1_8, sites, density, diagonal, fock, electronic)
      call jacobi(fock, vectors, order)
      density = 0
      do k = 1, sites / 2
        density = density + 2 * spread(vectors(:, order(k)), 2, sites) * spread(vectors(:, order(k)), 1, sites)
      end do
      if (abs(electronic - last_energy) < 1d-12 * abs(electronic)) exit
    end do
  end subroutine

  subroutine jacobi(matrix, vectors, order)
    double precision, intent(in) :: matrix(sites, sites)
    double precision, intent(out) :: vectors(sites, sites)
    integer, intent(out) :: order(sites)
    double precision :: a(sites, sites), theta, t, c, s, x(sites), rest
    integer :: sweep, k, l, m
    a = matrix
    vectors = 0
    do k = 1, sites
      vectors(k, k) = 1
    end do
    do sweep = 1, 60
      rest = sum(a**2)
      do k = 1, sites
        rest = rest - a(k, k)**2
      end do
      if (rest < 1d-24) exit
      do k = 1, sites - 1
        do l = k + 1, sites
          if (abs(a(k, l)) < 1d-300) cycle
          theta = (a(l, l) - a(k, k)) / (2 * a(k, l))
          t = sign(1d0, theta) / (abs(theta) + sqrt(theta**2 + 1))
          c = 1 / sqrt(t**2 + 1)
          s = t * c
          x = a(:, k); a(:, k) = c * x - s * a(:, l); a(:, l) = s * x + c * a(:, l)
          x = a(k, :); a(k, :) = c * x - s * a(l, :); a(l, :) = s * x + c * a(l, :)
          x = vectors(:, k); vectors(:, k) = c * x - s * vectors(:, l); vectors(:, l) = s * x + c * vectors(:, l)
        end do
      end do
    end do
    do k = 1, sites
      order(k) = k
    end do
    do k = 1, sites - 1
      do m = k + 1, sites
        if (a(order(m), order(m)) < a(order(k), order(k))) then
          l = order(k); order(k) = order(m); order(m) = l
        end if
      end do
    end do
  end subroutine
end program
