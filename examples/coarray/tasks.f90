! Tasks of unequal length, taken by whichever image is free: a shared counter with atomics.
!
!   caf tasks.f90 -o tasks && cafrun -n 4 ./tasks
!   skerry mpi -- cafrun -n 4 ./tasks
!
! The counter is image 1's. That image computes tasks like the others, and does nothing for those
! who count.
program tasks
  use, intrinsic :: iso_fortran_env, only: atomic_int_kind, int64
  implicit none
  integer, parameter :: count = 200
  integer(atomic_int_kind) :: next[*], finished[*], first_out[*]
  integer(atomic_int_kind) :: mine, before
  integer(int64) :: total
  integer :: k, done(count)

  next = 0
  finished = 0
  done = 0
  first_out = 0
  total = 0
  sync all
  do
    mine = take()
    if (mine >= count) exit
    total = total + task(int(mine))
    done(mine + 1) = done(mine + 1) + 1
    call atomic_add(finished[1], 1)
  end do
  ! The first image to come here puts its name down, once.
  call atomic_cas(first_out[1], before, 0, this_image())
  sync all
  call co_sum(total)
  call co_sum(done)
  if (this_image() == 1) then
    if (any(done /= 1)) error stop 'tasks: a task was done twice, or never'
    if (total /= sum([(task(k), k=0, count - 1)])) error stop 'tasks: wrong total'
    call atomic_ref(mine, finished)
    if (mine /= count) error stop 'tasks: a count got lost'
    call atomic_ref(mine, first_out)
    if (mine < 1 .or. mine > num_images()) error stop 'tasks: no image was the first'
    print '(a,i0,a)', 'tasks: ', num_images(), ' images, ok'
  end if

contains

  ! The next task's number. This would be atomic_fetch_add(next[1], 1, take), but OpenCoarrays 2.10
  ! leaves its last argument as it was.
  integer function take()
    integer(atomic_int_kind) :: seen, found
    call atomic_ref(seen, next[1])
    do
      call atomic_cas(next[1], found, seen, seen + 1)
      if (found == seen) exit
      seen = found
    end do
    take = found
  end function

  ! The number of steps that 3 n + 1 takes to 1.
  pure integer(int64) function task(seed)
    integer, intent(in) :: seed
    integer(int64) :: n
    n = 10000 + 37*seed
    task = 0
    do while (n /= 1)
      n = merge(n/2, 3*n + 1, modulo(n, 2_int64) == 0)
      task = task + 1
    end do
  end function
end program
