! use skerry: one-sided communication between the processes of a parallel job, from Fortran.
!
! The names, meanings and order of arguments are those of skerry.h and window.h, which describe
! each call, with these differences:
!   - An array brings its address, type, shape and strides: there are no byte counts. Sections such
!     as a(1:100:2, :) are sent from where they lie. Offsets count bytes and may be integers of 4
!     or 8 bytes.
!   - `status`, always last, is optional. With it, it gets SKERRY_OK or an error below 0. Without
!     it, an error ends the job with its message.
!   - Ranks count from 0, as in C. A logical answers a question that is an int in C.
!   - skerry_local gives the own slice as an array pointer of the pointer's type.
!
! Arrays of non-blocking calls must be `asynchronous` and must not be touched until the wait.
! What is given to skerry_protected_add must be `asynchronous` or `target`: skerry_protected_next and
! skerry_protected_save use it, until it is forgotten. The `outcome` of skerry_protected_next is the
! C call's `status`.
! Source: Fortran 2018, chapter 18.
module skerry
  use, intrinsic :: iso_c_binding
  implicit none
  private

  type, bind(C), public :: skerry_job
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(C), public :: skerry_group
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(C), public :: skerry_segment
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(C), public :: skerry_mutexes
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(C), public :: skerry_protected
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, bind(C), public :: skerry_window
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  ! A non-blocking operation: 0 if none is under way.
  integer, parameter, public :: skerry_handle = c_int64_t

  ! The constants of the headers.
!@constants

!@generics

  interface
!@interfaces
    subroutine c_abort(job, exit_status, reason) &
        bind(C, name="skerry_abort")
      import
      type(c_ptr), value :: job
      integer(c_int), value :: exit_status
      character(kind=c_char), intent(in) :: reason(*)
    end subroutine
    function c_last_error() &
        result(text) bind(C, name="skerryf_last_error")
      import
      type(c_ptr) :: text
    end function
    function c_strlen(text) &
        result(length) bind(C, name="strlen")
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
    function own_segment_bytes(segment) &
        result(bytes) bind(C, name="skerryf_segment_own_bytes")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int64_t) :: bytes
    end function
    function own_window_bytes(window) &
        result(bytes) bind(C, name="skerryf_window_own_bytes")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int64_t) :: bytes
    end function
    function c_segment_local(segment) &
        result(memory) bind(C, name="skerry_segment_local")
      import
      type(c_ptr), value :: segment
      type(c_ptr) :: memory
    end function
    function c_window_local(window) &
        result(memory) bind(C, name="skerry_window_local")
      import
      type(c_ptr), value :: window
      type(c_ptr) :: memory
    end function
    subroutine c_test(job, handle, done, status) &
        bind(C, name="skerryf_test")
      import
      type(skerry_job), intent(in) :: job
      integer(skerry_handle), intent(inout) :: handle
      integer(c_int), intent(out) :: done
      integer(c_int), intent(out), optional :: status
    end subroutine
    function c_counter(job, name) &
        result(value) bind(C, name="skerryf_counter")
      import
      type(skerry_job), intent(in) :: job
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t) :: value
    end function
  end interface

  public :: skerry_abort, skerry_counter, skerry_last_error, skerry_local, skerry_test
!@publics

contains

  subroutine skerry_abort(job, exit_status, reason)
    type(skerry_job), intent(in) :: job
    integer(c_int), intent(in) :: exit_status
    character(*), intent(in) :: reason
    call c_abort(job%handle, exit_status, reason // c_null_char)
  end subroutine
  function text_of(text) result(answer)
    type(c_ptr), intent(in) :: text
    character(:), allocatable :: answer
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(text, letters, [c_strlen(text)])
    allocate (character(size(letters)) :: answer)
    do i = 1, size(letters)
      answer(i:i) = letters(i)
    end do
  end function
  function skerry_last_error() result(answer)
    character(:), allocatable :: answer
    answer = text_of(c_last_error())
  end function
  ! A counter of docs/counters.md by its name; -1 if there is none.
  function skerry_counter(job, name) result(value)
    type(skerry_job), intent(in) :: job
    character(*), intent(in) :: name
    integer(c_int64_t) :: value
    value = c_counter(job, trim(name) // c_null_char)
  end function
  subroutine skerry_test(job, handle, done, status)
    type(skerry_job), intent(in) :: job
    integer(skerry_handle), intent(inout) :: handle
    logical, intent(out) :: done
    integer(c_int), intent(out), optional :: status
    integer(c_int) :: answer
    call c_test(job, handle, answer, status)
    done = answer == 1
  end subroutine
!@questions
!@locals
end module
