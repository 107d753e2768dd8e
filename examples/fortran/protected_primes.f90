! Primes are counted, whoever dies: those that live go on, with spares in the places of the dead,
! and count each prime once.
!
!     skerry run -n 4 --nodes 2 --spares 2 build/bin/examples/protected_primes 1
!
! The number: how often a rank kills itself, to try it.
program protected_primes
  use skerry
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  integer, parameter :: steps = 100, every = 5, block = 1000  ! numbers in a step
  type(skerry_job) :: job
  type(skerry_group) :: group
  type(skerry_protected) :: kept
  integer(int64), asynchronous :: found = 0  ! by this member
  integer :: step, status, back, kills = 0
  character(16) :: word = ''

  call get_command_argument(1, word)
  if (word /= '') read (word, *) kills
  call skerry_init(job, on_failure=SKERRY_FAILURE_CONTINUES)
  call random_init(.false., .false.)
  ! On one node there is no partner.
  call skerry_protected_create(skerry_world(job), merge(1, 0, skerry_node_count(job) > 1), kept)
  call skerry_protected_add(kept, found)
  call skerry_protected_divide(kept, c_funloc(divide))
  status = SKERRY_OK
  do
    call skerry_protected_next(kept, steps, every, status, step, group)
    if (step == steps) exit
    call maybe_die()
    call work()
  end do

  back = skerry_protected_recoveries(kept)  ! of a spare: since it has joined
  call skerry_allreduce(group, SKERRY_MAX, back)
  call skerry_allreduce(group, SKERRY_SUM, found)
  if (skerry_group_index(group, skerry_rank(job)) == 0) &
    print '(i0, a, i0, a, i0, a)', found, ' primes below ', steps * block, ', brought back ', &
      back, ' times'
  call skerry_protected_free(kept)
  call skerry_finalize(job)

contains
  ! One step. It is done again if `status` becomes SKERRY_ERR_PEER_DEAD.
  subroutine work()
    integer :: n
    integer(int64) :: total
    do n = step * block + skerry_group_index(group, skerry_rank(job)), (step + 1) * block - 1, &
        skerry_group_size(group)
      if (is_prime(n)) found = found + 1
    end do
    total = found  ! a collective that carries data fails on all if one has died
    call skerry_allreduce(group, SKERRY_SUM, total, status)
  end subroutine

  logical function is_prime(n)
    integer, intent(in) :: n
    integer :: k
    is_prime = n > 1
    do k = 2, int(sqrt(real(n)))
      if (mod(n, k) == 0) is_prime = .false.
    end do
  end function

  ! The state was saved by other members than there are now: takes what some of those had found.
  integer(c_int) function divide(context, state) bind(C)
    type(c_ptr), value :: context
    type(skerry_protected), value :: state
    integer(int64) :: part
    integer :: place
    divide = SKERRY_OK
    if (c_associated(context)) error stop 'no context was given'
    found = 0
    group = skerry_protected_group(state)
    do place = skerry_group_index(group, skerry_rank(job)), skerry_protected_places(state) - 1, &
        skerry_group_size(group)
      call skerry_protected_read(state, place, 0, part, divide)
      if (divide /= SKERRY_OK) return
      found = found + part
    end do
  end function

  ! One member a step draws whether it dies.
  subroutine maybe_die()
    interface
      integer(c_int) function raise(signal) bind(C)
        import
        integer(c_int), value :: signal
      end function
    end interface
    real :: drawn
    if (skerry_protected_recoveries(kept) >= kills .or. skerry_is_spare(job)) return
    if (skerry_group_index(group, skerry_rank(job)) /= mod(step, skerry_group_size(group))) return
    call random_number(drawn)
    if (drawn >= 0.1) return
    if (raise(9) /= 0) error stop 'SIGKILL was not sent'
  end subroutine
end program
