! Two puts to the same bytes in one epoch: the debug mode names both lines of the program, not of
! MPI's Fortran library. tests/mpi/run.py looks for the lines with "site" below. Needs two ranks.
#ifdef WITH_F08
#define WINDOW type(MPI_Win)
#else
#define WINDOW integer
#endif

subroutine halo(win)
#if defined(WITH_F08)
  use mpi_f08
  implicit none
#elif defined(WITH_USE_MPI)
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  WINDOW :: win
  integer :: value(4), ierror
  integer(kind=MPI_ADDRESS_KIND) :: at
  at = 2
  value = 1
  call MPI_Put(value, 1, MPI_INTEGER, 1, at, 1, MPI_INTEGER, win, ierror) ! site 1
  value(2) = ierror
end subroutine

subroutine corner(win)
#if defined(WITH_F08)
  use mpi_f08
  implicit none
#elif defined(WITH_USE_MPI)
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  WINDOW :: win
  integer :: value(4), ierror
  integer(kind=MPI_ADDRESS_KIND) :: at
  at = 2
  value = 1
  call MPI_Put(value, 1, MPI_INTEGER, 1, at, 1, MPI_INTEGER, win, ierror) ! site 2
  value(2) = ierror
end subroutine

program call_sites
#if defined(WITH_F08)
  use mpi_f08
  implicit none
#elif defined(WITH_USE_MPI)
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  WINDOW :: win
  integer :: rank, ierror
  integer, target :: memory(64)
  integer(kind=MPI_ADDRESS_KIND) :: bytes
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  bytes = 256
  call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
  call MPI_Win_lock_all(0, win, ierror)
  if (rank == 0) then
    call halo(win)
    call corner(win)
    print *, 'not found'
  end if
  call MPI_Win_unlock_all(win, ierror)
  call MPI_Win_free(win, ierror)
  call MPI_Finalize(ierror)
end program
