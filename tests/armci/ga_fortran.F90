! ga_fortran: the calls of Global Arrays that Fortran programs make, each checked.
!
! Fortran's strings have no terminator and Global Arrays hands some of them to ARMCI as they are,
! its integers have 8 bytes, and its pointers into local memory are integers. So every operator
! here is followed by letters that do not belong to it.
!   mpirun -n N ga_fortran
! Rank 0 ends with "ga_fortran: N processes, M nodes, K checks, ok".
program ga_fortran
  use iso_c_binding, only: c_int, c_float, c_ptr, c_loc
  implicit none
#include "mafdecls.fh"
#include "global.fh"
  interface
    subroutine ga_igop_of_c(x, n, op) bind(c, name='GA_Igop')
      import :: c_int
      integer(c_int) :: x(*)
      integer(c_int), value :: n
      character(len=1) :: op(*)
    end subroutine
    subroutine ga_pgroup_igop_of_c(group, x, n, op) bind(c, name='GA_Pgroup_igop')
      import :: c_int
      integer(c_int), value :: group
      integer(c_int) :: x(*)
      integer(c_int), value :: n
      character(len=1) :: op(*)
    end subroutine
  end interface
  character(len=6), parameter :: operators(15) = [ &
    '+     ', '*     ', 'max   ', 'min   ', 'absmax', 'absmin', 'or    ', '&&    ', &
    'land  ', '||    ', 'lor   ', '&     ', 'band  ', '|     ', 'bor   ']
  integer, parameter :: numbers = 3   ! of one operation
  integer :: me, n, checks, failures, totals(2), k, world
  logical :: ok

  ! ga_initialize starts ARMCI, which starts MPI: nobody has done that before.
  call ga_initialize()
  ok = ma_init(MT_DBL, 200000_8, 200000_8)
  me = ga_nodeid()
  n = ga_nnodes()
  checks = 0
  failures = 0
  world = ga_pgroup_get_world()
  do k = 1, size(operators)
    call collective(operators(k), world, n, me)
  end do
  call literals()
  call groups()
  call arrays()
  call words()
  call skips()
  call non_blocking()
  totals = [checks, failures]
  call ga_igop(1, totals, 2, '+')
  if (me == 0) then
    print '(a,i0,a,i0,a,i0,a,a)', 'ga_fortran: ', n, ' processes, ', ga_cluster_nnodes(), &
      ' nodes, ', totals(1), ' checks, ', trim(merge('ok    ', 'FAILED', totals(2) == 0))
    flush (6)
  end if
  call ga_terminate()   ! frees a communicator after ARMCI_Finalize; the end of the process ends MPI
  if (totals(2) /= 0) stop 1

contains

  subroutine check(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    checks = checks + 1
    if (good) return
    failures = failures + 1
    print '(i0,a,a)', me, ': wrong: ', what
  end subroutine

  ! What member `rank` brings: of both signs, none of them zero, and so small that the product of
  ! 16 fits into 4 bytes.
  integer function brought(rank, i)
    integer, intent(in) :: rank, i
    brought = merge(rank + i, mod(rank, 2) + 1, rank < 4) * merge(-1, 1, mod(rank + i, 2) == 0)
  end function

  ! The operator on all members, by hand.
  integer function combined(name, members, i)
    character(len=*), intent(in) :: name
    integer, intent(in) :: members, i
    integer :: rank, x
    combined = brought(0, i)
    if (name(1:3) == 'abs') combined = abs(combined)
    if (name == '&&' .or. name == 'land' .or. name == '||' .or. name == 'lor') combined = 1
    do rank = 1, members - 1
      x = brought(rank, i)
      select case (name)
      case ('+'); combined = combined + x
      case ('*'); combined = combined * x
      case ('max'); combined = max(combined, x)
      case ('min'); combined = min(combined, x)
      case ('absmax'); combined = max(combined, abs(x))
      case ('absmin'); combined = min(combined, abs(x))
      case ('or', '|', 'bor'); combined = ior(combined, x)
      case ('&', 'band'); combined = iand(combined, x)
      end select
    end do
  end function

  ! One operator on every type that has it, in a group of `members` of which the caller is `rank`.
  subroutine collective(name, group, members, rank)
    character(len=*), intent(in) :: name
    integer, intent(in) :: group, members, rank
    character(len=32), target :: line
    integer :: wanted(numbers), x8(numbers), i, last
    integer(c_int) :: x4(numbers)
    real(4) :: r(numbers)
    double precision :: d(numbers)
    complex(4) :: c(numbers)
    complex(8) :: z(numbers)
    last = len_trim(name)
    line = trim(name)//'garbage'
    do i = 1, numbers
      wanted(i) = combined(trim(name), members, i)
      x8(i) = brought(rank, i)
    end do
    x4 = int(x8, c_int); r = real(x8, 4); d = x8; c = cmplx(r, -r, 4); z = cmplx(d, -d, 8)
    if (name == '&&' .or. name == 'land') then   ! the last member brings a zero
      if (rank == members - 1) x8(1) = 0
      if (rank == members - 1) x4(1) = 0
      wanted(1) = 0
    end if
    if (group == world) then
      call ga_igop(7, x8, numbers, line(1:last))
      call ga_igop_of_c(x4, int(numbers, c_int), line)
    else
      call ga_pgroup_igop(group, 7, x8, numbers, line(1:last))
      call ga_pgroup_igop_of_c(int(group, c_int), x4, int(numbers, c_int), line)
    end if
    call check(all(x8 == wanted), 'igop '//name)
    call check(all(x4 == wanted), 'igop of 4 bytes '//name)
    select case (name)
    case ('or', '&&', 'land', '||', 'lor', '&', 'band', '|', 'bor'); return   ! integers only
    end select
    if (group == world) then
      call ga_sgop(7, r, numbers, line(1:last))
      call ga_dgop(7, d, numbers, line(1:last))
    else
      call ga_pgroup_sgop(group, 7, r, numbers, line(1:last))
      call ga_pgroup_dgop(group, 7, d, numbers, line(1:last))
    end if
    call check(all(abs(r - wanted) <= 1e-5 * abs(wanted)), 'sgop '//name)
    call check(all(abs(d - wanted) <= 1d-12 * abs(wanted)), 'dgop '//name)
    if (name /= '+') return   ! of complex numbers Global Arrays combines the parts
    if (group == world) then
      call ga_cgop(7, c, numbers, line(1:last))
      call ga_zgop(7, z, numbers, line(1:last))
      call check(all(abs(c - cmplx(wanted, -wanted, 4)) < 1e-4), 'cgop')
      call check(all(abs(z - cmplx(wanted, -wanted, 8)) < 1d-9), 'zgop')
      d = brought(rank, 1)
      call ga_gop(MT_DBL, d, numbers, line(1:last))
    else
      call ga_pgroup_cgop(group, 7, c, numbers, line(1:last))
      call ga_pgroup_zgop(group, 7, z, numbers, line(1:last))
      call check(all(abs(c - cmplx(wanted, -wanted, 4)) < 1e-4), 'pgroup_cgop')
      call check(all(abs(z - cmplx(wanted, -wanted, 8)) < 1d-9), 'pgroup_zgop')
      d = brought(rank, 1)
      call ga_pgroup_gop(group, MT_DBL, d, numbers, line(1:last))
    end if
    call check(all(abs(d - combined('+', members, 1)) < 1d-9), 'gop')
  end subroutine

  ! As programs write them: whether a terminator follows is up to the compiler.
  subroutine literals()
    double precision :: d
    integer :: i
    d = me
    call ga_dgop(1, d, 1, 'max')
    call check(d == n - 1, "'max'")
    d = me + 1
    call ga_dgop(1, d, 1, 'min')
    call check(d == 1, "'min'")
    i = -me
    call ga_igop(1, i, 1, 'absmax')
    call check(i == n - 1, "'absmax'")
    i = 1
    call ga_igop(1, i, 1, '+')
    call check(i == n, "'+'")
    d = 1
    call ga_dgop(1, d, 1, '+  ')
    call check(d == n, "'+  '")
  end subroutine

  ! Two groups, of the even and the odd processes, as the arguments and as the default.
  subroutine groups()
    integer :: list(n), members, mine, i, before, g_a, x
    double precision :: d, got(4)
    members = 0
    do i = mod(me, 2), n - 1, 2
      members = members + 1
      list(members) = i
    end do
    mine = ga_pgroup_create(list, members)
    call check(ga_pgroup_nnodes(mine) == members, 'members of a group')
    call check(ga_pgroup_absolute_id(mine, members - 1) == list(members), 'absolute id')
    do i = 1, size(operators)
      call collective(operators(i), mine, members, me / 2)
    end do
    x = merge(1000 + mod(me, 2), -1, me < 2)
    call ga_pgroup_brdcst(mine, 5, x, 8, 0)
    call check(x == 1000 + mod(me, 2), 'broadcast in a group')
    before = ga_pgroup_get_default()
    call ga_pgroup_set_default(mine)
    d = 1
    call ga_dgop(1, d, 1, 'max'//'imum')
    call check(d == 1 .and. ga_nnodes() == members, 'the default group')
    ok = nga_create(MT_DBL, 1, [4 * members], 'of a group', [4], g_a)
    call check(ok, 'an array of a group')
    call ga_fill(g_a, 0.5d0 + mod(me, 2))
    i = mod(me / 2 + 1, members)
    call nga_get(g_a, [4 * i + 1], [4 * i + 4], got, [4])
    call check(all(got == 0.5d0 + mod(me, 2)), 'got in a group')
    call ga_sync()
    ok = ga_destroy(g_a)
    call ga_pgroup_set_default(before)
    call ga_pgroup_sync(mine)
    ok = ga_pgroup_destroy(mine)
    call check(ok, 'a group destroyed')
    x = merge(42, -1, me == n - 1)
    call ga_brdcst(6, x, 8, n - 1)
    call check(x == 42, 'broadcast')
    call ga_sync()
  end subroutine

  ! Arrays of every type: put, get, accumulate, own memory by an integer index, the largest element.
  subroutine arrays()
    integer, parameter :: rows = 12, columns = 10
    integer :: g_i, g_r, g_d, g_c, g_z, i, j, lo(2), hi(2), ld, first, at(2), largest
    integer :: vi(rows, columns)
    real(4) :: vr(rows, columns)
    double precision :: vd(rows, columns), biggest
    complex(4) :: vc(rows, columns)
    complex(8) :: vz(rows, columns)
    ok = ga_create(MT_INT, rows, columns, 'integers', -1, -1, g_i)
    ok = ok .and. ga_create(MT_REAL, rows, columns, 'reals', -1, -1, g_r)
    ok = ok .and. ga_create(MT_DBL, rows, columns, 'doubles', -1, -1, g_d)
    ok = ok .and. ga_create(MT_SCPL, rows, columns, 'complex', -1, -1, g_c)
    ok = ok .and. ga_create(MT_DCPL, rows, columns, 'double complex', -1, -1, g_z)
    call check(ok, 'arrays of every type')
    if (me == 0) then
      do j = 1, columns
        vi(:, j) = [(100 * j + i, i = 1, rows)]
      end do
      vr = real(vi, 4); vd = vi; vc = cmplx(vr, -vr, 4); vz = cmplx(vd, -vd, 8)
      call ga_put(g_i, 1, rows, 1, columns, vi, rows)
      call ga_put(g_r, 1, rows, 1, columns, vr, rows)
      call ga_put(g_d, 1, rows, 1, columns, vd, rows)
      call ga_put(g_c, 1, rows, 1, columns, vc, rows)
      call ga_put(g_z, 1, rows, 1, columns, vz, rows)
    end if
    call ga_sync()
    vi = 1; vr = 1; vd = 1; vc = (0.0, 1.0); vz = (0.0d0, 1.0d0)
    ! Everybody adds twice to an inner patch; times i where there is one.
    call ga_acc(g_i, 3, rows - 1, 2, columns - 2, vi, rows, 2)
    call ga_acc(g_r, 3, rows - 1, 2, columns - 2, vr, rows, 2.0)
    call ga_acc(g_d, 3, rows - 1, 2, columns - 2, vd, rows, 2d0)
    call ga_acc(g_c, 3, rows - 1, 2, columns - 2, vc, rows, (0.0, 2.0))
    call ga_acc(g_z, 3, rows - 1, 2, columns - 2, vz, rows, (0d0, 2d0))
    call ga_sync()
    call ga_get(g_i, 1, rows, 1, columns, vi, rows)
    call ga_get(g_r, 1, rows, 1, columns, vr, rows)
    call ga_get(g_d, 1, rows, 1, columns, vd, rows)
    call ga_get(g_c, 1, rows, 1, columns, vc, rows)
    call ga_get(g_z, 1, rows, 1, columns, vz, rows)
    do j = 1, columns
      do i = 1, rows
        first = merge(2 * n, 0, i >= 3 .and. i <= rows - 1 .and. j >= 2 .and. j <= columns - 2)
        ok = vi(i, j) == 100 * j + i + first .and. vd(i, j) == vi(i, j) .and. vr(i, j) == vi(i, j)
        ok = ok .and. vc(i, j) == cmplx(100 * j + i - first, -100 * j - i, 4)
        ok = ok .and. vz(i, j) == cmplx(100 * j + i - first, -100 * j - i, 8)
        if (.not. ok) exit
      end do
      if (.not. ok) exit
    end do
    call check(ok, 'what was put and accumulated')
    call ga_sync()
    ! Own memory: its address comes as an index into an array of Fortran's.
    call nga_distribution(g_d, me, lo, hi)
    if (lo(1) > 0 .and. hi(1) >= lo(1)) then
      call nga_access(g_d, lo, hi, first, ld)
      call check(dbl_mb(first) == vd(lo(1), lo(2)), 'own memory, first')
      i = first + (hi(2) - lo(2)) * ld + hi(1) - lo(1)
      call check(dbl_mb(i) == vd(hi(1), hi(2)), 'own memory, last')
      dbl_mb(first) = -1 - me
      call nga_release_update(g_d, lo, hi)
    end if
    call ga_sync()
    call nga_select_elem(g_i, 'max'//'garbage', largest, at)
    call check(largest == maxval(vi) .and. vi(at(1), at(2)) == largest, 'the largest element')
    call nga_select_elem(g_r, 'min', vr, at)
    call check(vr(1, 1) == 101 .and. all(at == [1, 1]), 'the smallest element')
    call nga_select_elem(g_d, 'min', biggest, at)
    call check(biggest < 0, 'the smallest of what owners wrote')
    call ga_sync()
    ok = ga_destroy(g_i) .and. ga_destroy(g_r) .and. ga_destroy(g_d)
    ok = ok .and. ga_destroy(g_c) .and. ga_destroy(g_z)
    call check(ok, 'arrays destroyed')
  end subroutine

  ! A counter that all draw from, and a number that nobody changes without the lock.
  subroutine words()
    integer, parameter :: draws = 20
    integer :: g_c, g_n, i, drawn, sum_of_drawn, number(1)
    ok = nga_create(MT_INT, 1, [1], 'counter', [1], g_c)
    ok = ok .and. nga_create(MT_INT, 1, [1], 'number', [1], g_n)
    ok = ok .and. ga_create_mutexes(2)
    call check(ok, 'a counter and mutexes')
    call ga_zero(g_c)
    call ga_zero(g_n)
    sum_of_drawn = 0
    do i = 1, draws
      drawn = nga_read_inc(g_c, [1], 3)
      sum_of_drawn = sum_of_drawn + drawn
      call ga_lock(1)
      call nga_get(g_n, [1], [1], number, [1])
      number = number + 1
      call ga_init_fence()
      call nga_put(g_n, [1], [1], number, [1])
      call ga_fence()   ! the number may lie on another node than the lock
      call ga_unlock(1)
    end do
    call ga_sync()
    call ga_igop(8, sum_of_drawn, 1, '+')
    call check(sum_of_drawn == 3 * (draws * n) * (draws * n - 1) / 2, 'what was drawn')
    call nga_get(g_n, [1], [1], number, [1])
    call check(number(1) == draws * n, 'under the lock')
    call ga_sync()
    ok = ga_destroy_mutexes() .and. ga_destroy(g_c) .and. ga_destroy(g_n)
    call check(ok, 'mutexes destroyed')
  end subroutine

  ! Every third row and second column, and single elements.
  subroutine skips()
    integer, parameter :: rows = 13, columns = 9
    integer :: g_a, i, j, at(2, 3)
    double precision :: v(rows, columns), part(5, 5), few(3)
    ok = ga_create(MT_DBL, rows, columns, 'skipped', -1, -1, g_a)
    call check(ok, 'an array')
    call ga_zero(g_a)
    part = reshape([(dble(i), i = 1, 25)], [5, 5])
    call nga_strided_acc(g_a, [1, 1], [rows, columns], [3, 2], part, [5], 2d0)
    call ga_sync()
    at = reshape([2, 2, 13, 9, 2, 2], [2, 3])
    few = [1d0, 1d0, 2d0]
    call nga_scatter_acc(g_a, few, at, 3, 1d0)
    call ga_sync()
    call ga_get(g_a, 1, rows, 1, columns, v, rows)
    do j = 1, 5
      do i = 1, 5
        if (i == 5 .and. j == 5) cycle
        call check(v(3 * i - 2, 2 * j - 1) == 2 * n * part(i, j), 'with skips')
      end do
    end do
    call check(v(13, 9) == 2 * n * 25 + n, 'with skips and an element')
    call check(v(2, 2) == 3 * n, 'an element twice')
    call check(v(2, 1) == 0 .and. v(1, 2) == 0, 'between')
    call ga_sync()
    ok = ga_destroy(g_a)
  end subroutine

  subroutine non_blocking()
    integer, parameter :: each = 7
    integer :: g_a, i, handles(n), lo(1), hi(1)
    double precision :: one(each), all_of(each * n)
    ok = nga_create(MT_DBL, 1, [each * n], 'by handles', [each], g_a)
    call check(ok, 'an array')
    call ga_zero(g_a)
    one = 1
    do i = 0, n - 1
      lo = i * each + 1
      hi = lo + each - 1
      call nga_nbacc(g_a, lo, hi, one, [each], 1d0 * (me + 1), handles(i + 1))
    end do
    do i = 1, n
      call nga_nbwait(handles(i))
    end do
    call ga_sync()
    do i = 0, n - 1
      lo = i * each + 1
      hi = lo + each - 1
      call nga_nbget(g_a, lo, hi, all_of(lo(1)), [each], handles(i + 1))
    end do
    do i = 1, n
      call nga_nbwait(handles(i))
    end do
    call check(all(all_of == n * (n + 1) / 2), 'accumulated by handles')
    call ga_sync()
    ok = ga_destroy(g_a)
  end subroutine
end program
