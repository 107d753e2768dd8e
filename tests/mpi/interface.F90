! Windows from Fortran, by each of its three interfaces: compiled with -DWITH_F08, -DWITH_USE_MPI or
! -DWITH_MPIF. Ends with "interface: N ranks, ok".
#ifdef WITH_F08
#define WINDOW type(MPI_Win)
#define REQUEST type(MPI_Request)
#define ERROR
#define ERROR_ONLY
#else
#define WINDOW integer
#define REQUEST integer
#define ERROR , ierror
#define ERROR_ONLY ierror
#endif
program interface
#ifdef WITH_F08
  use mpi_f08
#endif
#ifdef WITH_USE_MPI
  use mpi
#endif
  use iso_c_binding
  implicit none
#ifdef WITH_MPIF
  include 'mpif.h'
#endif
  integer, parameter :: aint = MPI_ADDRESS_KIND
  integer :: rank, ranks, right, left, ierror, failures, all
  WINDOW :: win
  REQUEST :: request
  integer(c_int64_t), target :: given(16)
  integer(c_int64_t) :: value, old, expected
  integer(aint) :: bytes, at, found
  logical :: flag, done

  failures = 0
  call MPI_Init(ERROR_ONLY)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank ERROR)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks ERROR)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  given = 0
  bytes = 128
  call MPI_Win_create(given, bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win ERROR)

  call MPI_Win_get_attr(win, MPI_WIN_SIZE, found, flag ERROR)
  call check(flag .and. found == 128, 'size')
  call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, found, flag ERROR)
  call check(flag .and. found == 8, 'unit')
  call MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, found, flag ERROR)
  call check(flag .and. found == MPI_WIN_FLAVOR_CREATE, 'flavor')
  call MPI_Win_get_attr(win, MPI_WIN_BASE, found, flag ERROR)
  call check(flag .and. found == transfer(c_loc(given), found), 'base')

  value = 10 + rank
  at = 3
  call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win ERROR)
  call MPI_Put(value, 1, MPI_INTEGER8, right, at, 1, MPI_INTEGER8, win ERROR)
  call MPI_Win_unlock(right, win ERROR)
  call MPI_Barrier(MPI_COMM_WORLD ERROR)
  call MPI_Win_lock_all(0, win ERROR)
  call MPI_Win_sync(win ERROR)
  call check(given(4) == 10 + left, 'put')
  value = 1
  at = 5
  call MPI_Fetch_and_op(value, old, MPI_INTEGER8, 0, at, MPI_SUM, win ERROR)
  call MPI_Win_flush(0, win ERROR)
  call check(old >= 0 .and. old < ranks, 'fetch_and_op')
  at = 6
  call MPI_Accumulate(value, 1, MPI_INTEGER8, right, at, 1, MPI_INTEGER8, MPI_SUM, win ERROR)
  at = 7
  expected = 0
  call MPI_Compare_and_swap(value, expected, old, MPI_INTEGER8, right, at, win ERROR)
  call MPI_Win_flush_all(win ERROR)
  call check(old == 0, 'compare_and_swap')
  at = 6
  call MPI_Rget(old, 1, MPI_INTEGER8, right, at, 1, MPI_INTEGER8, win, request ERROR)
#ifdef WITH_F08
  call MPI_Wait(request, MPI_STATUS_IGNORE)
#else
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
#endif
  call check(old == 1, 'accumulate and rget')
  call MPI_Win_unlock_all(win ERROR)

  call MPI_Win_fence(0, win ERROR)
  value = 100 + rank
  at = 0
  call MPI_Put(value, 1, MPI_INTEGER8, right, at, 1, MPI_INTEGER8, win ERROR)
  call MPI_Win_fence(MPI_MODE_NOSUCCEED, win ERROR)
  call check(given(1) == 100 + left, 'fence')
  call check(given(8) == 1, 'swapped')
  call MPI_Win_free(win ERROR)
  done = .true.
  call check(done, 'freed')

  call MPI_Allreduce(failures, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD ERROR)
  if (rank == 0 .and. all == 0) print '(a,i0,a)', 'interface: ', ranks, ' ranks, ok'
  call MPI_Finalize(ERROR_ONLY)
contains
  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    failures = failures + 1
    print *, 'rank', rank, ': ', what
  end subroutine check
end program interface
