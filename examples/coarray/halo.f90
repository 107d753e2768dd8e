! Heat along a rod, a piece on each image: a halo exchange by puts into coarrays, with events.
!
!   caf halo.f90 -o halo && cafrun -n 4 ./halo
!   skerry mpi -- cafrun -n 4 ./halo
!
! Each image writes its edges into its neighbours' ghost cells and posts an event there. Nobody
! waits for all images: an image goes on as soon as its own two edges have come.
program halo
  use, intrinsic :: iso_fortran_env, only: event_type, real64
  implicit none
  integer, parameter :: cells = 200, steps = 100
  ! Of two places each, used in turn: a neighbour may be one step ahead.
  real(real64) :: from_left(0:1)[*], from_right(0:1)[*]
  type(event_type) :: left_came[*], right_came[*]
  real(real64) :: rod(0:cells + 1)
  real(real64), allocatable :: whole(:)
  integer :: me, images, step, turn, k

  me = this_image()
  images = num_images()
  rod = [(start((me - 1)*cells + k), k=0, cells + 1)]
  sync all
  do step = 1, steps
    turn = modulo(step, 2)
    if (me > 1) then
      from_right(turn)[me - 1] = rod(1)
      event post (right_came[me - 1])
    end if
    if (me < images) then
      from_left(turn)[me + 1] = rod(cells)
      event post (left_came[me + 1])
    end if
    if (me > 1) then
      event wait (left_came)
      rod(0) = from_left(turn)
    end if
    if (me < images) then
      event wait (right_came)
      rod(cells + 1) = from_right(turn)
    end if
    call advance(rod)
  end do

  ! The same on one image alone.
  allocate (whole(0:cells*images + 1))
  whole(:) = [(start(k), k=0, cells*images + 1)]
  do step = 1, steps
    call advance(whole)
  end do
  if (any(rod(1:cells) /= whole((me - 1)*cells + 1:me*cells))) then
    print '(a,i0,a)', 'halo: image ', me, ' differs from the calculation on one image'
    error stop 1
  end if
  sync all
  if (me == 1) print '(a,i0,a)', 'halo: ', images, ' images, ok'

contains

  pure real(real64) function start(k)
    integer, intent(in) :: k
    start = merge(100.0_real64, 0.0_real64, k == 0) + modulo(k*37, 11)
  end function

  ! One step of time. The ends keep their temperature.
  pure subroutine advance(piece)
    real(real64), intent(inout) :: piece(0:)
    integer :: last
    last = ubound(piece, 1)
    piece(1:last - 1) = piece(1:last - 1) + &
                        0.25_real64*(piece(0:last - 2) - 2*piece(1:last - 1) + piece(2:last))
  end subroutine
end program
