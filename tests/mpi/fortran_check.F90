! Windows of MPI through one of its Fortran interfaces, function by function: INTERFACE is 1 for
! mpif.h, 2 for `use mpi`, 3 for `use mpi_f08`; with LARGE, mpi_f08's large-count forms as well.
! Ends with "fortran_check: N ranks, ok". With MPI_CHECK_STEPS=1, rank 0 names each function before
! it calls it first, for coverage.py.
#if INTERFACE == 3
#define A_WIN type(MPI_Win)
#define A_GROUP type(MPI_Group)
#define A_REQUEST type(MPI_Request)
#define A_TYPE type(MPI_Datatype)
#define A_BASE type(c_ptr)
#else
#define A_WIN integer
#define A_GROUP integer
#define A_REQUEST integer
#define A_TYPE integer
#define A_BASE integer(MPI_ADDRESS_KIND)
#endif

module common
#if INTERFACE == 2
  use mpi
#elif INTERFACE == 3
  use mpi_f08
#endif
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  implicit none
#if INTERFACE == 1
  include 'mpif.h'
#endif
  integer, parameter :: aint = MPI_ADDRESS_KIND
  integer, parameter :: words = 64
  integer :: me, ranks, right, left, failures = 0, ierr
  logical :: names_steps = .false.

contains

  subroutine step(name)
    character(*), intent(in) :: name
    if (names_steps) write (error_unit, '(2a)') 'step ', name
    flush (error_unit)
  end subroutine

  subroutine check(good, what)
    logical, intent(in) :: good
    character(*), intent(in) :: what
    if (good) return
    failures = failures + 1
    write (error_unit, '(a,i0,2a)') 'fortran_check: rank ', me, ' fails: ', what
  end subroutine

  subroutine barrier()
    integer :: failed
    call MPI_Barrier(MPI_COMM_WORLD, failed)
  end subroutine

  function pointer_of(base) result(pointer)
    A_BASE, intent(in) :: base
    type(c_ptr) :: pointer
#if INTERFACE == 3
    pointer = base
#else
    pointer = transfer(base, pointer)
#endif
  end function

  integer(aint) function number_of(pointer)
    type(c_ptr), intent(in) :: pointer
    number_of = transfer(pointer, number_of)
  end function
end module

module parts
  use common
  implicit none
contains

  ! Windows of all kinds, and what they say about themselves.
  subroutine kinds()
    A_WIN :: win
    A_BASE :: base
    A_GROUP :: group
    integer(c_int), target :: mine(words)
    integer(c_int), pointer :: theirs(:)
    integer(aint) :: bytes, address
    integer(aint), allocatable :: addresses(:)
    integer :: unit, count, value, got, k

    call step('Win_create')
    mine = 0
    call MPI_Win_create(mine, 4_aint * words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_create')
    call attributes(win, number_of(c_loc(mine)), 4_aint * words, 4, MPI_WIN_FLAVOR_CREATE)
    call step('Win_get_group')
    call MPI_Win_get_group(win, group, ierr)
    call MPI_Group_size(group, count, ierr)
    call check(count == ranks, 'MPI_Win_get_group')
    call MPI_Group_free(group, ierr)
    call step('Win_free')
    call MPI_Win_free(win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_free')

    call step('Win_allocate')
    call MPI_Win_allocate(4_aint * words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_allocate')
    call attributes(win, number_of(pointer_of(base)), 4_aint * words, 4, MPI_WIN_FLAVOR_ALLOCATE)
    call MPI_Win_free(win, ierr)

    call step('Win_allocate_shared')
    call MPI_Win_allocate_shared(4_aint * words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_allocate_shared')
    call attributes(win, number_of(pointer_of(base)), 4_aint * words, 4, MPI_WIN_FLAVOR_SHARED)
    call step('Win_shared_query')
    call MPI_Win_shared_query(win, right, bytes, unit, base, ierr)
    call check(bytes == 4 * words .and. unit == 4, 'MPI_Win_shared_query')
    call c_f_pointer(pointer_of(base), theirs, [words])
    call MPI_Win_fence(0, win, ierr)
    value = 1000 + me
    call MPI_Put(value, 1, MPI_INTEGER, right, 5_aint, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call check(theirs(6) == value, 'what was put is where MPI_Win_shared_query says')
    call MPI_Win_free(win, ierr)

    call step('Win_create_dynamic')
    call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_create_dynamic')
    mine = [(100 * me + k, k = 1, words)]
    call step('Win_attach')
    call MPI_Win_attach(win, mine, 4_aint * words, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_attach')
    allocate (addresses(0:ranks - 1))
    call MPI_Get_address(mine, address, ierr)
    call MPI_Allgather(address, 1, MPI_AINT, addresses, 1, MPI_AINT, MPI_COMM_WORLD, ierr)
    call MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win, ierr)
    call MPI_Get(got, 1, MPI_INTEGER, right, addresses(right) + 8, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_unlock(right, win, ierr)
    call check(got == 100 * right + 3, 'a get from attached memory')
    call barrier()
    call step('Win_detach')
    call MPI_Win_detach(win, mine, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_detach')
    call MPI_Win_free(win, ierr)
  end subroutine

  subroutine attributes(win, base, bytes, unit, flavor)
    A_WIN, intent(in) :: win
    integer(aint), intent(in) :: base, bytes
    integer, intent(in) :: unit, flavor
    call step('Win_get_attr')
    call attribute(win, MPI_WIN_BASE, base, 'MPI_WIN_BASE')
    call attribute(win, MPI_WIN_SIZE, bytes, 'MPI_WIN_SIZE')
    call attribute(win, MPI_WIN_DISP_UNIT, int(unit, aint), 'MPI_WIN_DISP_UNIT')
    call attribute(win, MPI_WIN_CREATE_FLAVOR, int(flavor, aint), 'MPI_WIN_CREATE_FLAVOR')
    call attribute(win, MPI_WIN_MODEL, int(MPI_WIN_UNIFIED, aint), 'MPI_WIN_MODEL')
  end subroutine

  subroutine attribute(win, key, expected, name)
    A_WIN, intent(in) :: win
    integer, intent(in) :: key
    integer(aint), intent(in) :: expected
    character(*), intent(in) :: name
    integer(aint) :: value
    logical :: there
    value = -1
    there = .false.
    call MPI_Win_get_attr(win, key, value, there, ierr)
    call check(ierr == MPI_SUCCESS .and. there .and. value == expected, 'attribute ' // name)
  end subroutine

  ! Attributes of the program's own stay with the MPI library.
  subroutine own_attribute(win)
    A_WIN, intent(in) :: win
    integer :: key
    integer(aint) :: value
    logical :: there
    call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, key, 0_aint, ierr)
    call MPI_Win_get_attr(win, key, value, there, ierr)
    call check(.not. there, 'an own attribute before it is set')
    call MPI_Win_set_attr(win, key, 77_aint, ierr)
    call attribute(win, key, 77_aint, 'of the program')
    call MPI_Win_delete_attr(win, key, ierr)
    call MPI_Win_free_keyval(key, ierr)
  end subroutine

  ! One writer and one reader a rank: the right one's word `at` after a put of `value` and `ended`.
  subroutine epochs()
    A_WIN :: win
    A_BASE :: base
    A_GROUP :: world, to, from
    integer(c_int), pointer :: memory(:)
    integer :: value, got, round
    logical :: done

    call MPI_Win_allocate(4_aint * words, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
    call c_f_pointer(pointer_of(base), memory, [words])
    call own_attribute(win)
    call step('Win_fence')
    call MPI_Win_fence(MPI_MODE_NOPRECEDE, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_fence')
    value = 10 + me
    call step('Put')
    call MPI_Put(value, 1, MPI_INTEGER, right, 0_aint, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_fence(0, win, ierr)
    call check(memory(1) == 10 + left, 'MPI_Put between fences')
    call step('Get')
    call MPI_Get(got, 1, MPI_INTEGER, right, 0_aint, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierr)
    call check(got == value, 'MPI_Get between fences')

    call MPI_Comm_group(MPI_COMM_WORLD, world, ierr)
    call MPI_Group_incl(world, 1, [right], to, ierr)
    call MPI_Group_incl(world, 1, [left], from, ierr)
    do round = 1, 2
      value = 100 * round + me
      if (round == 1) call step('Win_post')
      call MPI_Win_post(from, 0, win, ierr)
      if (round == 1) call step('Win_start')
      call MPI_Win_start(to, 0, win, ierr)
      call MPI_Put(value, 1, MPI_INTEGER, right, 1_aint, 1, MPI_INTEGER, win, ierr)
      if (round == 1) call step('Win_complete')
      call MPI_Win_complete(win, ierr)
      if (round == 1) then
        call step('Win_wait')
        call MPI_Win_wait(win, ierr)
      else
        call step('Win_test')
        done = .false.
        do while (.not. done)
          call MPI_Win_test(win, done, ierr)
        end do
      end if
      call check(memory(2) == 100 * round + left, 'MPI_Put between start and complete')
    end do
    call MPI_Group_free(to, ierr)
    call MPI_Group_free(from, ierr)
    call MPI_Group_free(world, ierr)
    call barrier()
    call locks(win)
    call MPI_Win_free(win, ierr)
  end subroutine

  subroutine locks(win)
    A_WIN, intent(in) :: win
    integer :: value, got

    call step('Win_lock')
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win, ierr)
    value = 20 + me
    call MPI_Put(value, 1, MPI_INTEGER, right, 2_aint, 1, MPI_INTEGER, win, ierr)
    call step('Win_flush_local')
    call MPI_Win_flush_local(right, win, ierr)
    call step('Win_flush')
    call MPI_Win_flush(right, win, ierr)
    call MPI_Get(got, 1, MPI_INTEGER, right, 2_aint, 1, MPI_INTEGER, win, ierr)
    call step('Win_unlock')
    call MPI_Win_unlock(right, win, ierr)
    call check(ierr == MPI_SUCCESS .and. got == value, 'put and get under a lock')
    call barrier()
    call step('Win_lock_all')
    call MPI_Win_lock_all(0, win, ierr)
    value = 30 + me
    call MPI_Put(value, 1, MPI_INTEGER, right, 3_aint, 1, MPI_INTEGER, win, ierr)
    call step('Win_flush_local_all')
    call MPI_Win_flush_local_all(win, ierr)
    value = 0
    call step('Win_flush_all')
    call MPI_Win_flush_all(win, ierr)
    call step('Win_sync')
    call MPI_Win_sync(win, ierr)
    call barrier()
    call MPI_Win_sync(win, ierr)
    call MPI_Get(got, 1, MPI_INTEGER, me, 3_aint, 1, MPI_INTEGER, win, ierr)
    call step('Win_unlock_all')
    call MPI_Win_unlock_all(win, ierr)
    call check(ierr == MPI_SUCCESS .and. got == 30 + left, 'put and get under a lock of all')
  end subroutine

  ! Updates: each rank works on its own words at its right neighbour, but for the counter at rank 0.
  subroutine updates()
    A_WIN :: win
    A_BASE :: base
    real(real64), pointer :: memory(:)
    real(real64) :: addend(2), before(2)
    integer(c_int) :: one, old, wanted

    call MPI_Win_allocate(8_aint * words, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
    call c_f_pointer(pointer_of(base), memory, [words])
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win, ierr)
    memory = 0
    call MPI_Win_unlock(me, win, ierr)
    call barrier()
    call MPI_Win_lock_all(0, win, ierr)
    addend = [1.5_real64, 2.5_real64]
    call step('Accumulate')
    call MPI_Accumulate(addend, 2, MPI_DOUBLE_PRECISION, right, 0_aint, 2, MPI_DOUBLE_PRECISION, &
                        MPI_SUM, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call step('Get_accumulate')
    call MPI_Get_accumulate(addend, 2, MPI_DOUBLE_PRECISION, before, 2, MPI_DOUBLE_PRECISION, &
                            right, 0_aint, 2, MPI_DOUBLE_PRECISION, MPI_PROD, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(all(before == addend), 'MPI_Accumulate, and what MPI_Get_accumulate fetches')
    call MPI_Get(before, 2, MPI_REAL8, right, 0_aint, 2, MPI_REAL8, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(all(before == addend * addend), 'MPI_Get_accumulate with MPI_PROD')
    one = 1
    call step('Fetch_and_op')
    call MPI_Fetch_and_op(one, old, MPI_INTEGER, 0, 8_aint, MPI_SUM, win, ierr)
    call MPI_Win_flush(0, win, ierr)
    call check(old >= 0 .and. old < ranks, 'MPI_Fetch_and_op')
    call barrier()
    call MPI_Fetch_and_op(one, old, MPI_INTEGER, 0, 8_aint, MPI_NO_OP, win, ierr)
    call MPI_Win_flush(0, win, ierr)
    call check(old == ranks, 'the sum of all MPI_Fetch_and_op')
    wanted = 0
    one = 7 + me
    call step('Compare_and_swap')
    call MPI_Compare_and_swap(one, wanted, old, MPI_INTEGER, right, 9_aint, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(old == 0, 'MPI_Compare_and_swap that swaps')
    call MPI_Compare_and_swap(one, wanted, old, MPI_INTEGER, right, 9_aint, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(old == 7 + me, 'MPI_Compare_and_swap that does not')
    call own_types(win)
    call requests(win)
    call MPI_Win_unlock_all(win, ierr)
    call barrier()
    call MPI_Win_free(win, ierr)
  end subroutine

  ! Datatypes that only Fortran has.
  subroutine own_types(win)
    A_WIN, intent(in) :: win
    integer :: pair(2), found(2)
    logical :: yes, was
    complex(real64) :: z, z_before
    integer(int64) :: long, long_before

    pair = [5, me]
    call MPI_Accumulate(pair, 1, MPI_2INTEGER, right, 16_aint, 1, MPI_2INTEGER, MPI_MAXLOC, win, &
                        ierr)
    call MPI_Win_flush(right, win, ierr)
    call MPI_Get(found, 1, MPI_2INTEGER, right, 16_aint, 1, MPI_2INTEGER, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(all(found == pair), 'MPI_MAXLOC of MPI_2INTEGER')
    yes = .true.
    call MPI_Accumulate(yes, 1, MPI_LOGICAL, right, 17_aint, 1, MPI_LOGICAL, MPI_LOR, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call MPI_Get_accumulate(yes, 1, MPI_LOGICAL, was, 1, MPI_LOGICAL, right, 17_aint, 1, &
                            MPI_LOGICAL, MPI_LXOR, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(was, 'MPI_LOR of MPI_LOGICAL')
    call MPI_Get(was, 1, MPI_LOGICAL, right, 17_aint, 1, MPI_LOGICAL, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(.not. was, 'MPI_LXOR of MPI_LOGICAL')
    z = (1.0_real64, -2.0_real64)
    call MPI_Accumulate(z, 1, MPI_DOUBLE_COMPLEX, right, 18_aint, 1, MPI_DOUBLE_COMPLEX, MPI_SUM, &
                        win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call MPI_Get_accumulate(z, 1, MPI_DOUBLE_COMPLEX, z_before, 1, MPI_DOUBLE_COMPLEX, right, &
                            18_aint, 1, MPI_DOUBLE_COMPLEX, MPI_NO_OP, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(z == z_before, 'MPI_SUM of MPI_DOUBLE_COMPLEX')
    long = 2_int64**40 + me
    call MPI_Fetch_and_op(long, long_before, MPI_INTEGER8, right, 20_aint, MPI_REPLACE, win, ierr)
    call MPI_Fetch_and_op(long, long_before, MPI_INTEGER8, right, 20_aint, MPI_NO_OP, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(long == long_before, 'MPI_REPLACE of MPI_INTEGER8')
  end subroutine

  subroutine requests(win)
    A_WIN, intent(in) :: win
    A_REQUEST :: request
    A_TYPE :: every_other
    real(real64) :: given(8), got(8), before(4)
    integer :: k

    given = [(10.0_real64 * me + k, k = 1, 8)]
    call step('Rput')
    call MPI_Rput(given, 8, MPI_DOUBLE_PRECISION, right, 32_aint, 8, MPI_DOUBLE_PRECISION, win, &
                  request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Win_flush(right, win, ierr)
    call step('Rget')
    call MPI_Rget(got, 8, MPI_DOUBLE_PRECISION, right, 32_aint, 8, MPI_DOUBLE_PRECISION, win, &
                  request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call check(all(got == given), 'MPI_Rput and MPI_Rget')
    call MPI_Type_vector(4, 1, 2, MPI_DOUBLE_PRECISION, every_other, ierr)
    call MPI_Type_commit(every_other, ierr)
    call step('Raccumulate')
    call MPI_Raccumulate(given, 4, MPI_DOUBLE_PRECISION, right, 32_aint, 1, every_other, MPI_SUM, &
                         win, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Win_flush(right, win, ierr)
    call step('Rget_accumulate')
    call MPI_Rget_accumulate(given, 1, every_other, before, 4, MPI_DOUBLE_PRECISION, right, &
                             32_aint, 1, every_other, MPI_REPLACE, win, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(all(before == given(1:7:2) + given(1:4)), 'MPI_Raccumulate with a vector type')
    call MPI_Get(got, 8, MPI_DOUBLE_PRECISION, right, 32_aint, 8, MPI_DOUBLE_PRECISION, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(all(got == given), 'MPI_Rget_accumulate with vector types')
    call MPI_Type_free(every_other, ierr)
    call from_bottom(win)
#if INTERFACE == 3
    if (MPI_SUBARRAYS_SUPPORTED) then
      given = -given
      call MPI_Put(given(1:7:2), 4, MPI_DOUBLE_PRECISION, right, 32_aint, 4, &
                   MPI_DOUBLE_PRECISION, win, ierr)
      got = 0
      call MPI_Win_flush(right, win, ierr)
      call MPI_Get(got(2:8:2), 4, MPI_DOUBLE_PRECISION, right, 32_aint, 4, MPI_DOUBLE_PRECISION, &
                   win, ierr)
      call MPI_Win_flush(right, win, ierr)
      call check(all(got(2:8:2) == given(1:7:2)) .and. all(got(1:7:2) == 0), 'array sections')
    end if
#endif
  end subroutine

  ! Absolute addresses in a datatype.
  subroutine from_bottom(win)
    A_WIN, intent(in) :: win
    A_TYPE :: here
    integer(c_int), target, save :: given, got
    integer(aint) :: address(1)

    given = 4242 + me
    got = 0
    call MPI_Get_address(given, address(1), ierr)
    call MPI_Type_create_hindexed(1, [1], address, MPI_INTEGER, here, ierr)
    call MPI_Type_commit(here, ierr)
    call MPI_Put(MPI_BOTTOM, 1, here, right, 50_aint, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call MPI_Get(got, 1, MPI_INTEGER, right, 50_aint, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(got == given, 'a put from MPI_BOTTOM')
    call MPI_Type_free(here, ierr)
  end subroutine

#ifdef LARGE
  ! The large-count forms, which the kind of the counts chooses.
  subroutine large()
    integer, parameter :: wide = MPI_COUNT_KIND
    A_WIN :: win
    A_BASE :: base
    A_REQUEST :: request
    integer(c_int), asynchronous :: given(4), got(4), mine(words)
    integer(aint) :: bytes, unit

    mine = 0
    call step('Win_create_c')
    call MPI_Win_create(mine, 4_aint * words, 4_aint, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
    call check(ierr == MPI_SUCCESS, 'MPI_Win_create, large')
    call MPI_Win_free(win, ierr)
    call step('Win_allocate_shared_c')
    call MPI_Win_allocate_shared(4_aint * words, 4_aint, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, &
                                 ierr)
    call step('Win_shared_query_c')
    call MPI_Win_shared_query(win, right, bytes, unit, base, ierr)
    call check(bytes == 4 * words .and. unit == 4, 'MPI_Win_shared_query, large')
    call MPI_Win_free(win, ierr)
    call step('Win_allocate_c')
    call MPI_Win_allocate(4_aint * words, 4_aint, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierr)
    call MPI_Win_lock_all(0, win, ierr)
    given = [1, 2, 3, me]
    call step('Put_c')
    call MPI_Put(given, 4_wide, MPI_INTEGER, right, 0_aint, 4_wide, MPI_INTEGER, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call step('Get_c')
    call MPI_Get(got, 4_wide, MPI_INTEGER, right, 0_aint, 4_wide, MPI_INTEGER, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(all(got == given), 'MPI_Put and MPI_Get, large')
    call step('Rput_c')
    call MPI_Rput(given, 4_wide, MPI_INTEGER, right, 4_aint, 4_wide, MPI_INTEGER, win, request, &
                  ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Win_flush(right, win, ierr)
    call step('Rget_c')
    call MPI_Rget(got, 4_wide, MPI_INTEGER, right, 4_aint, 4_wide, MPI_INTEGER, win, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call check(all(got == given), 'MPI_Rput and MPI_Rget, large')
    call step('Accumulate_c')
    call MPI_Accumulate(given, 4_wide, MPI_INTEGER, right, 0_aint, 4_wide, MPI_INTEGER, MPI_SUM, &
                        win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call step('Get_accumulate_c')
    call MPI_Get_accumulate(given, 4_wide, MPI_INTEGER, got, 4_wide, MPI_INTEGER, right, 0_aint, &
                            4_wide, MPI_INTEGER, MPI_SUM, win, ierr)
    call MPI_Win_flush(right, win, ierr)
    call check(all(got == 2 * given), 'MPI_Accumulate, large')
    call step('Raccumulate_c')
    call MPI_Raccumulate(given, 4_wide, MPI_INTEGER, right, 0_aint, 4_wide, MPI_INTEGER, MPI_SUM, &
                         win, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call MPI_Win_flush(right, win, ierr)
    call step('Rget_accumulate_c')
    call MPI_Rget_accumulate(given, 4_wide, MPI_INTEGER, got, 4_wide, MPI_INTEGER, right, 0_aint, &
                             4_wide, MPI_INTEGER, MPI_NO_OP, win, request, ierr)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
    call check(all(got == 4 * given), 'MPI_Get_accumulate and MPI_Raccumulate, large')
    call MPI_Win_unlock_all(win, ierr)
    call MPI_Win_free(win, ierr)
  end subroutine
#endif
end module

program fortran_check
  use parts
  implicit none
  integer :: all_failures
  character(8) :: wish

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_environment_variable('MPI_CHECK_STEPS', wish)
  names_steps = me == 0 .and. wish == '1'
  right = modulo(me + 1, ranks)
  left = modulo(me - 1, ranks)
  call kinds()
  call epochs()
  call updates()
#ifdef LARGE
  call large()
#endif
  call step('')
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (me == 0 .and. all_failures == 0) print '(a,i0,a)', 'fortran_check: ', ranks, ' ranks, ok'
  call MPI_Finalize(ierr)
  if (all_failures /= 0) error stop 1
end program
