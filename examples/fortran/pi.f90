! pi by the midpoint rule: ranks draw intervals from a counter on rank 0 and add to one sum there.
!
!     skerry run -n 4 --nodes 2 build/bin/examples/pi
program pi
  use skerry
  use, intrinsic :: iso_fortran_env, only: real64, int64
  implicit none
  integer(int64), parameter :: intervals = 4000000, chunk = 100000
  type(skerry_job) :: job
  type(skerry_segment) :: memory  ! on rank 0: a counter at byte 0, the sum at byte 8
  real(real64) :: part, total, x
  integer(int64) :: first, i

  call skerry_init(job)
  call skerry_segment_alloc(skerry_world(job), 16, memory)
  do
    call skerry_fetch_add(memory, 0, 0, chunk, first)
    if (first >= intervals) exit
    part = 0
    do i = first, min(first + chunk, intervals) - 1
      x = (i + 0.5_real64) / intervals
      part = part + 4 / (1 + x * x)
    end do
    call skerry_acc(memory, 0, 8, part, scale=1.0_real64 / intervals)
  end do
  call skerry_sync(skerry_world(job))
  if (skerry_rank(job) == 0) then
    call skerry_get(memory, 0, 8, total)
    print '(a, f12.10)', 'pi is about ', total
  end if
  call skerry_finalize(job)
end program
