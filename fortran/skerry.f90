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
  type, bind(C), public :: skerry_window
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  ! A non-blocking operation: 0 if none is under way.
  integer, parameter, public :: skerry_handle = c_int64_t

  ! The constants of the headers.
  integer(c_int), parameter, public :: SKERRY_OK = 0
  integer(c_int), parameter, public :: SKERRY_ERR_INVALID = -1
  integer(c_int), parameter, public :: SKERRY_ERR_RANGE = -2
  integer(c_int), parameter, public :: SKERRY_ERR_FREED = -3
  integer(c_int), parameter, public :: SKERRY_ERR_NO_MEMORY = -4
  integer(c_int), parameter, public :: SKERRY_ERR_PEER_DEAD = -5
  integer(c_int), parameter, public :: SKERRY_ERR_TIMEOUT = -6
  integer(c_int), parameter, public :: SKERRY_ERR_NETWORK = -7
  integer(c_int), parameter, public :: SKERRY_ERR_CONFIG = -8
  integer(c_int), parameter, public :: SKERRY_ERR_UNSUPPORTED = -9
  integer(c_int), parameter, public :: SKERRY_ERR_FORKED = -10
  integer(c_int), parameter, public :: SKERRY_ERR_THREAD = -11
  integer(c_int), parameter, public :: SKERRY_ERR_INTERNAL = -12
  integer(c_int), parameter, public :: SKERRY_ERR_CONFLICT = -13
  integer(c_int), parameter, public :: SKERRY_THREAD_SINGLE = 0
  integer(c_int), parameter, public :: SKERRY_THREAD_SERIALIZED = 1
  integer(c_int), parameter, public :: SKERRY_THREAD_MULTIPLE = 2
  integer(c_int), parameter, public :: SKERRY_FAILURE_ENDS_JOB = 0
  integer(c_int), parameter, public :: SKERRY_FAILURE_RETURNS = 1
  integer(c_int), parameter, public :: SKERRY_SUM = 0
  integer(c_int), parameter, public :: SKERRY_PROD = 1
  integer(c_int), parameter, public :: SKERRY_MIN = 2
  integer(c_int), parameter, public :: SKERRY_MAX = 3
  integer(c_int), parameter, public :: SKERRY_LAND = 4
  integer(c_int), parameter, public :: SKERRY_LOR = 5
  integer(c_int), parameter, public :: SKERRY_LXOR = 6
  integer(c_int), parameter, public :: SKERRY_BAND = 7
  integer(c_int), parameter, public :: SKERRY_BOR = 8
  integer(c_int), parameter, public :: SKERRY_BXOR = 9
  integer(c_int), parameter, public :: SKERRY_REPLACE = 10
  integer(c_int), parameter, public :: SKERRY_NO_OP = 11
  integer(c_int), parameter, public :: SKERRY_LOCK_EXCLUSIVE = 0
  integer(c_int), parameter, public :: SKERRY_LOCK_SHARED = 1
  integer(c_int), parameter, public :: SKERRY_NO_CHECK = 1
  integer(c_int), parameter, public :: SKERRY_NO_STORE = 2
  integer(c_int), parameter, public :: SKERRY_NO_PUT = 4
  integer(c_int), parameter, public :: SKERRY_NO_PRECEDE = 8
  integer(c_int), parameter, public :: SKERRY_NO_SUCCEED = 16

  interface skerry_put
    procedure put_4, put_8
  end interface
  interface skerry_get
    procedure get_4, get_8
  end interface
  interface skerry_acc
    procedure acc_4, acc_8
  end interface
  interface skerry_put_nb
    procedure put_nb_4, put_nb_8
  end interface
  interface skerry_get_nb
    procedure get_nb_4, get_nb_8
  end interface
  interface skerry_acc_nb
    procedure acc_nb_4, acc_nb_8
  end interface
  interface skerry_put_notify
    procedure put_notify_4, put_notify_8
  end interface
  interface skerry_update
    procedure update_4, update_8
  end interface
  interface skerry_window_put
    procedure window_put_4, window_put_8
  end interface
  interface skerry_window_get
    procedure window_get_4, window_get_8
  end interface
  interface skerry_window_update
    procedure window_update_4, window_update_8
  end interface
  interface skerry_fetch_update
    procedure fetch_update_4, fetch_update_8
  end interface
  interface skerry_window_fetch_update
    procedure window_fetch_update_4, window_fetch_update_8
  end interface
  interface skerry_fetch_add
    procedure fetch_add_i32_4, fetch_add_i32_8, fetch_add_i64_4, fetch_add_i64_8
  end interface
  interface skerry_swap
    procedure swap_i32_4, swap_i32_8, swap_i64_4, swap_i64_8
  end interface
  interface skerry_compare_swap
    procedure compare_swap_i32_4, compare_swap_i32_8, compare_swap_i64_4, compare_swap_i64_8
  end interface
  interface skerry_notify_wait
    procedure notify_wait_4, notify_wait_8
  end interface
  interface skerry_segment_alloc
    procedure segment_alloc_4, segment_alloc_8
  end interface
  interface skerry_local
    procedure segment_local_i4, segment_local_i8, segment_local_r4, segment_local_r8, &
        segment_local_c4, segment_local_c8, window_local_i4, window_local_i8, &
        window_local_r4, window_local_r8, window_local_c4, window_local_c8
  end interface

  interface
    subroutine skerry_init(job, thread_level, on_failure, status) &
        bind(C, name="skerryf_init")
      import
      type(skerry_job), intent(out) :: job
      integer(c_int), intent(in), optional :: thread_level, on_failure
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_finalize(job, status) &
        bind(C, name="skerryf_finalize")
      import
      type(skerry_job), intent(inout) :: job
      integer(c_int), intent(out), optional :: status
    end subroutine
    function c_rank(job) &
        result(answer) bind(C, name="skerry_rank")
      import
      type(c_ptr), value :: job
      integer(c_int) :: answer
    end function
    function c_size(job) &
        result(answer) bind(C, name="skerry_size")
      import
      type(c_ptr), value :: job
      integer(c_int) :: answer
    end function
    function c_node_count(job) &
        result(answer) bind(C, name="skerry_node_count")
      import
      type(c_ptr), value :: job
      integer(c_int) :: answer
    end function
    function c_thread_level_granted(job) &
        result(answer) bind(C, name="skerry_thread_level_granted")
      import
      type(c_ptr), value :: job
      integer(c_int) :: answer
    end function
    function c_node_of(job, rank) &
        result(answer) bind(C, name="skerry_node_of")
      import
      type(c_ptr), value :: job
      integer(c_int), value :: rank
      integer(c_int) :: answer
    end function
    function c_node_size(job, node) &
        result(answer) bind(C, name="skerry_node_size")
      import
      type(c_ptr), value :: job
      integer(c_int), value :: node
      integer(c_int) :: answer
    end function
    function c_same_node(job, rank) &
        result(answer) bind(C, name="skerry_same_node")
      import
      type(c_ptr), value :: job
      integer(c_int), value :: rank
      integer(c_int) :: answer
    end function
    function c_node_rank(job, node, i) &
        result(answer) bind(C, name="skerry_node_rank")
      import
      type(c_ptr), value :: job
      integer(c_int), value :: node, i
      integer(c_int) :: answer
    end function
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
    function c_version() &
        result(text) bind(C, name="skerry_version")
      import
      type(c_ptr) :: text
    end function
    function c_status_name(code) &
        result(text) bind(C, name="skerry_status_name")
      import
      integer(c_int), value :: code
      type(c_ptr) :: text
    end function
    function c_fabric_name(job) &
        result(text) bind(C, name="skerry_fabric_name")
      import
      type(c_ptr), value :: job
      type(c_ptr) :: text
    end function
    function c_strlen(text) &
        result(length) bind(C, name="strlen")
      import
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
    function c_world(job) &
        result(group) bind(C, name="skerry_world")
      import
      type(c_ptr), value :: job
      type(c_ptr) :: group
    end function
    subroutine skerry_sync(group, status) &
        bind(C, name="skerryf_sync")
      import
      type(skerry_group), intent(in) :: group
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_barrier(group, status) &
        bind(C, name="skerryf_barrier")
      import
      type(skerry_group), intent(in) :: group
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_group_split(parent, color, key, group, status) &
        bind(C, name="skerryf_group_split")
      import
      type(skerry_group), intent(in) :: parent
      integer(c_int), value :: color, key
      type(skerry_group), intent(out) :: group
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_group_free(group, status) &
        bind(C, name="skerryf_group_free")
      import
      type(skerry_group), intent(inout) :: group
      integer(c_int), intent(out), optional :: status
    end subroutine
    function c_group_size(group) &
        result(answer) bind(C, name="skerry_group_size")
      import
      type(c_ptr), value :: group
      integer(c_int) :: answer
    end function
    function c_group_index(group, rank) &
        result(answer) bind(C, name="skerry_group_index")
      import
      type(c_ptr), value :: group
      integer(c_int), value :: rank
      integer(c_int) :: answer
    end function
    function c_group_rank(group, index) &
        result(answer) bind(C, name="skerry_group_rank")
      import
      type(c_ptr), value :: group
      integer(c_int), value :: index
      integer(c_int) :: answer
    end function
    subroutine skerry_broadcast(group, buffer, root, status) &
        bind(C, name="skerryf_broadcast")
      import
      type(skerry_group), intent(in) :: group
      type(*), dimension(..), intent(inout) :: buffer
      integer(c_int), value :: root
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_reduce(group, reduction, buffer, root, status) &
        bind(C, name="skerryf_reduce")
      import
      type(skerry_group), intent(in) :: group
      integer(c_int), value :: reduction
      type(*), dimension(..), intent(inout) :: buffer
      integer(c_int), value :: root
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_allreduce(group, reduction, buffer, status) &
        bind(C, name="skerryf_allreduce")
      import
      type(skerry_group), intent(in) :: group
      integer(c_int), value :: reduction
      type(*), dimension(..), intent(inout) :: buffer
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_allgather(group, in, out, status) &
        bind(C, name="skerryf_allgather")
      import
      type(skerry_group), intent(in) :: group
      type(*), dimension(..), intent(in) :: in
      type(*), dimension(..), intent(inout) :: out
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine segment_alloc_8(group, bytes, segment, status) &
        bind(C, name="skerryf_segment_alloc_8")
      import
      type(skerry_group), intent(in) :: group
      integer(c_int64_t), value :: bytes
      type(skerry_segment), intent(out) :: segment
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine segment_alloc_4(group, bytes, segment, status) &
        bind(C, name="skerryf_segment_alloc_4")
      import
      type(skerry_group), intent(in) :: group
      integer(c_int32_t), value :: bytes
      type(skerry_segment), intent(out) :: segment
      integer(c_int), intent(out), optional :: status
    end subroutine
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
    subroutine skerry_segment_free(segment, status) &
        bind(C, name="skerryf_segment_free")
      import
      type(skerry_segment), intent(inout) :: segment
      integer(c_int), intent(out), optional :: status
    end subroutine
    function c_segment_bytes(segment, rank) &
        result(bytes) bind(C, name="skerry_segment_bytes")
      import
      type(c_ptr), value :: segment
      integer(c_int), value :: rank
      integer(c_int64_t) :: bytes
    end function
    function c_segment_local(segment) &
        result(memory) bind(C, name="skerry_segment_local")
      import
      type(c_ptr), value :: segment
      type(c_ptr) :: memory
    end function
    function c_segment_pointer(segment, rank) &
        result(memory) bind(C, name="skerry_segment_pointer")
      import
      type(c_ptr), value :: segment
      integer(c_int), value :: rank
      type(c_ptr) :: memory
    end function
    function c_window_bytes(window, rank) &
        result(bytes) bind(C, name="skerry_window_bytes")
      import
      type(c_ptr), value :: window
      integer(c_int), value :: rank
      integer(c_int64_t) :: bytes
    end function
    function c_window_local(window) &
        result(memory) bind(C, name="skerry_window_local")
      import
      type(c_ptr), value :: window
      type(c_ptr) :: memory
    end function
    function c_window_pointer(window, rank) &
        result(memory) bind(C, name="skerry_window_pointer")
      import
      type(c_ptr), value :: window
      integer(c_int), value :: rank
      type(c_ptr) :: memory
    end function
    function c_segment_group(segment) &
        result(group) bind(C, name="skerry_segment_group")
      import
      type(c_ptr), value :: segment
      type(c_ptr) :: group
    end function
    function c_window_group(window) &
        result(group) bind(C, name="skerry_window_group")
      import
      type(c_ptr), value :: window
      type(c_ptr) :: group
    end function
    subroutine put_8(segment, rank, offset, origin, status) &
        bind(C, name="skerryf_put_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      type(*), dimension(..), intent(in) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine put_4(segment, rank, offset, origin, status) &
        bind(C, name="skerryf_put_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      type(*), dimension(..), intent(in) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine get_8(segment, rank, offset, origin, status) &
        bind(C, name="skerryf_get_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      type(*), dimension(..), intent(inout) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine get_4(segment, rank, offset, origin, status) &
        bind(C, name="skerryf_get_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      type(*), dimension(..), intent(inout) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine acc_8(segment, rank, offset, origin, scale, status) &
        bind(C, name="skerryf_acc_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      type(*), dimension(..), intent(in) :: origin
      type(*), dimension(..), intent(in), optional :: scale
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine acc_4(segment, rank, offset, origin, scale, status) &
        bind(C, name="skerryf_acc_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      type(*), dimension(..), intent(in) :: origin
      type(*), dimension(..), intent(in), optional :: scale
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine put_nb_8(segment, rank, offset, origin, handle, status) &
        bind(C, name="skerryf_put_nb_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      type(*), dimension(..), intent(in), asynchronous :: origin
      integer(skerry_handle), intent(out), optional :: handle
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine put_nb_4(segment, rank, offset, origin, handle, status) &
        bind(C, name="skerryf_put_nb_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      type(*), dimension(..), intent(in), asynchronous :: origin
      integer(skerry_handle), intent(out), optional :: handle
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine get_nb_8(segment, rank, offset, origin, handle, status) &
        bind(C, name="skerryf_get_nb_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      type(*), dimension(..), intent(inout), asynchronous :: origin
      integer(skerry_handle), intent(out), optional :: handle
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine get_nb_4(segment, rank, offset, origin, handle, status) &
        bind(C, name="skerryf_get_nb_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      type(*), dimension(..), intent(inout), asynchronous :: origin
      integer(skerry_handle), intent(out), optional :: handle
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine acc_nb_8(segment, rank, offset, origin, scale, handle, status) &
        bind(C, name="skerryf_acc_nb_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      type(*), dimension(..), intent(in), asynchronous :: origin
      type(*), dimension(..), intent(in), optional :: scale
      integer(skerry_handle), intent(out), optional :: handle
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine acc_nb_4(segment, rank, offset, origin, scale, handle, status) &
        bind(C, name="skerryf_acc_nb_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      type(*), dimension(..), intent(in), asynchronous :: origin
      type(*), dimension(..), intent(in), optional :: scale
      integer(skerry_handle), intent(out), optional :: handle
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_wait(job, handle, status) &
        bind(C, name="skerryf_wait")
      import
      type(skerry_job), intent(in) :: job
      integer(skerry_handle), intent(inout) :: handle
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine c_test(job, handle, done, status) &
        bind(C, name="skerryf_test")
      import
      type(skerry_job), intent(in) :: job
      integer(skerry_handle), intent(inout) :: handle
      integer(c_int), intent(out) :: done
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_wait_implicit(job, status) &
        bind(C, name="skerryf_wait_implicit")
      import
      type(skerry_job), intent(in) :: job
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_fence(job, rank, status) &
        bind(C, name="skerryf_fence")
      import
      type(skerry_job), intent(in) :: job
      integer(c_int), value :: rank
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_fence_node(job, node, status) &
        bind(C, name="skerryf_fence_node")
      import
      type(skerry_job), intent(in) :: job
      integer(c_int), value :: node
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_fence_all(job, status) &
        bind(C, name="skerryf_fence_all")
      import
      type(skerry_job), intent(in) :: job
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine fetch_add_i32_8(segment, rank, offset, value, result, status) &
        bind(C, name="skerryf_fetch_add_i32_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      integer(c_int32_t), value :: value
      integer(c_int32_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine fetch_add_i32_4(segment, rank, offset, value, result, status) &
        bind(C, name="skerryf_fetch_add_i32_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      integer(c_int32_t), value :: value
      integer(c_int32_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine swap_i32_8(segment, rank, offset, value, result, status) &
        bind(C, name="skerryf_swap_i32_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      integer(c_int32_t), value :: value
      integer(c_int32_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine swap_i32_4(segment, rank, offset, value, result, status) &
        bind(C, name="skerryf_swap_i32_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      integer(c_int32_t), value :: value
      integer(c_int32_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine compare_swap_i32_8(segment, rank, offset, expected, desired, result, status) &
        bind(C, name="skerryf_compare_swap_i32_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      integer(c_int32_t), value :: expected, desired
      integer(c_int32_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine compare_swap_i32_4(segment, rank, offset, expected, desired, result, status) &
        bind(C, name="skerryf_compare_swap_i32_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      integer(c_int32_t), value :: expected, desired
      integer(c_int32_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine fetch_add_i64_8(segment, rank, offset, value, result, status) &
        bind(C, name="skerryf_fetch_add_i64_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      integer(c_int64_t), value :: value
      integer(c_int64_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine fetch_add_i64_4(segment, rank, offset, value, result, status) &
        bind(C, name="skerryf_fetch_add_i64_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      integer(c_int64_t), value :: value
      integer(c_int64_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine swap_i64_8(segment, rank, offset, value, result, status) &
        bind(C, name="skerryf_swap_i64_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      integer(c_int64_t), value :: value
      integer(c_int64_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine swap_i64_4(segment, rank, offset, value, result, status) &
        bind(C, name="skerryf_swap_i64_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      integer(c_int64_t), value :: value
      integer(c_int64_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine compare_swap_i64_8(segment, rank, offset, expected, desired, result, status) &
        bind(C, name="skerryf_compare_swap_i64_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      integer(c_int64_t), value :: expected, desired
      integer(c_int64_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine compare_swap_i64_4(segment, rank, offset, expected, desired, result, status) &
        bind(C, name="skerryf_compare_swap_i64_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      integer(c_int64_t), value :: expected, desired
      integer(c_int64_t), intent(out), optional :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine update_8(segment, rank, offset, operation, origin, status) &
        bind(C, name="skerryf_update_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      integer(c_int), value :: operation
      type(*), dimension(..), intent(in) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine update_4(segment, rank, offset, operation, origin, status) &
        bind(C, name="skerryf_update_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      integer(c_int), value :: operation
      type(*), dimension(..), intent(in) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine fetch_update_8(segment, rank, offset, operation, origin, result, status) &
        bind(C, name="skerryf_fetch_update_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      integer(c_int), value :: operation
      type(*), dimension(..), intent(in) :: origin
      type(*), dimension(..), intent(inout) :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine fetch_update_4(segment, rank, offset, operation, origin, result, status) &
        bind(C, name="skerryf_fetch_update_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      integer(c_int), value :: operation
      type(*), dimension(..), intent(in) :: origin
      type(*), dimension(..), intent(inout) :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine put_notify_8(segment, rank, offset, origin, counter_offset, increment, status) &
        bind(C, name="skerryf_put_notify_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int64_t), value :: offset
      type(*), dimension(..), intent(in) :: origin
      integer(c_int64_t), value :: counter_offset, increment
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine put_notify_4(segment, rank, offset, origin, counter_offset, increment, status) &
        bind(C, name="skerryf_put_notify_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int), value :: rank
      integer(c_int32_t), value :: offset
      type(*), dimension(..), intent(in) :: origin
      integer(c_int32_t), value :: counter_offset, increment
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine notify_wait_8(segment, counter_offset, at_least, timeout_ns, value, status) &
        bind(C, name="skerryf_notify_wait_8")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int64_t), value :: counter_offset, at_least
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int64_t), intent(out), optional :: value
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine notify_wait_4(segment, counter_offset, at_least, timeout_ns, value, status) &
        bind(C, name="skerryf_notify_wait_4")
      import
      type(skerry_segment), intent(in) :: segment
      integer(c_int32_t), value :: counter_offset, at_least
      integer(c_int64_t), intent(in), optional :: timeout_ns
      integer(c_int64_t), intent(out), optional :: value
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_mutexes_create(group, count, mutexes, status) &
        bind(C, name="skerryf_mutexes_create")
      import
      type(skerry_group), intent(in) :: group
      integer(c_int), value :: count
      type(skerry_mutexes), intent(out) :: mutexes
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_mutexes_free(mutexes, status) &
        bind(C, name="skerryf_mutexes_free")
      import
      type(skerry_mutexes), intent(inout) :: mutexes
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_mutex_lock(mutexes, rank, index, status) &
        bind(C, name="skerryf_mutex_lock")
      import
      type(skerry_mutexes), intent(in) :: mutexes
      integer(c_int), value :: rank, index
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_mutex_unlock(mutexes, rank, index, status) &
        bind(C, name="skerryf_mutex_unlock")
      import
      type(skerry_mutexes), intent(in) :: mutexes
      integer(c_int), value :: rank, index
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_allocate(group, bytes, unit, window, status) &
        bind(C, name="skerryf_window_allocate")
      import
      type(skerry_group), intent(in) :: group
      integer(c_int64_t), value :: bytes, unit
      type(skerry_window), intent(out) :: window
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_create(group, base, window, status) &
        bind(C, name="skerryf_window_create")
      import
      type(skerry_group), intent(in) :: group
      type(*), dimension(..), intent(in), asynchronous :: base
      type(skerry_window), intent(out) :: window
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_free(window, status) &
        bind(C, name="skerryf_window_free")
      import
      type(skerry_window), intent(inout) :: window
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_lock(window, mode, rank, promises, status) &
        bind(C, name="skerryf_window_lock")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: mode, rank
      integer(c_int), intent(in), optional :: promises
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_lock_all(window, promises, status) &
        bind(C, name="skerryf_window_lock_all")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), intent(in), optional :: promises
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_fence(window, promises, status) &
        bind(C, name="skerryf_window_fence")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), intent(in), optional :: promises
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_unlock_all(window, status) &
        bind(C, name="skerryf_window_unlock_all")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_flush_all(window, status) &
        bind(C, name="skerryf_window_flush_all")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_flush_local_all(window, status) &
        bind(C, name="skerryf_window_flush_local_all")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_sync(window, status) &
        bind(C, name="skerryf_window_sync")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_unlock(window, rank, status) &
        bind(C, name="skerryf_window_unlock")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_flush(window, rank, status) &
        bind(C, name="skerryf_window_flush")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine skerry_window_flush_local(window, rank, status) &
        bind(C, name="skerryf_window_flush_local")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine window_put_8(window, rank, at, origin, status) &
        bind(C, name="skerryf_window_put_8")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int64_t), value :: at
      type(*), dimension(..), intent(in) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine window_put_4(window, rank, at, origin, status) &
        bind(C, name="skerryf_window_put_4")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int32_t), value :: at
      type(*), dimension(..), intent(in) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine window_get_8(window, rank, at, origin, status) &
        bind(C, name="skerryf_window_get_8")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int64_t), value :: at
      type(*), dimension(..), intent(inout) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine window_get_4(window, rank, at, origin, status) &
        bind(C, name="skerryf_window_get_4")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int32_t), value :: at
      type(*), dimension(..), intent(inout) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine window_update_8(window, rank, at, operation, origin, status) &
        bind(C, name="skerryf_window_update_8")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int64_t), value :: at
      integer(c_int), value :: operation
      type(*), dimension(..), intent(in) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine window_update_4(window, rank, at, operation, origin, status) &
        bind(C, name="skerryf_window_update_4")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int32_t), value :: at
      integer(c_int), value :: operation
      type(*), dimension(..), intent(in) :: origin
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine window_fetch_update_8(window, rank, at, operation, origin, result, status) &
        bind(C, name="skerryf_window_fetch_update_8")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int64_t), value :: at
      integer(c_int), value :: operation
      type(*), dimension(..), intent(in) :: origin
      type(*), dimension(..), intent(inout) :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    subroutine window_fetch_update_4(window, rank, at, operation, origin, result, status) &
        bind(C, name="skerryf_window_fetch_update_4")
      import
      type(skerry_window), intent(in) :: window
      integer(c_int), value :: rank
      integer(c_int32_t), value :: at
      integer(c_int), value :: operation
      type(*), dimension(..), intent(in) :: origin
      type(*), dimension(..), intent(inout) :: result
      integer(c_int), intent(out), optional :: status
    end subroutine
    function c_counter(job, name) &
        result(value) bind(C, name="skerryf_counter")
      import
      type(skerry_job), intent(in) :: job
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t) :: value
    end function
    subroutine skerry_connections_limit(job, limit, status) &
        bind(C, name="skerryf_connections_limit")
      import
      type(skerry_job), intent(in) :: job
      integer(c_int), value :: limit
      integer(c_int), intent(out), optional :: status
    end subroutine
  end interface

  public :: skerry_abort, skerry_acc, skerry_acc_nb, skerry_allgather, skerry_allreduce, &
       skerry_barrier, skerry_broadcast, skerry_compare_swap, skerry_connections_limit, &
       skerry_counter, skerry_fabric_name, skerry_fence, skerry_fence_all, skerry_fence_node, &
       skerry_fetch_add, skerry_fetch_update, skerry_finalize, skerry_get, skerry_get_nb, &
       skerry_group_free, skerry_group_index, skerry_group_rank, skerry_group_size, &
       skerry_group_split, skerry_init, skerry_last_error, skerry_local, skerry_mutex_lock, &
       skerry_mutex_unlock, skerry_mutexes_create, skerry_mutexes_free, skerry_node_count, &
       skerry_node_of, skerry_node_rank, skerry_node_size, skerry_notify_wait, skerry_put, &
       skerry_put_nb, skerry_put_notify, skerry_rank, skerry_reduce, skerry_same_node, &
       skerry_segment_alloc, skerry_segment_bytes, skerry_segment_free, skerry_segment_group, &
       skerry_segment_pointer, skerry_size, skerry_status_name, skerry_swap, skerry_sync, &
       skerry_test, skerry_thread_level_granted, skerry_update, skerry_version, skerry_wait, &
       skerry_wait_implicit, skerry_window_allocate, skerry_window_bytes, &
       skerry_window_create, skerry_window_fence, skerry_window_fetch_update, &
       skerry_window_flush, skerry_window_flush_all, skerry_window_flush_local, &
       skerry_window_flush_local_all, skerry_window_free, skerry_window_get, &
       skerry_window_group, skerry_window_lock, skerry_window_lock_all, skerry_window_pointer, &
       skerry_window_put, skerry_window_sync, skerry_window_unlock, skerry_window_unlock_all, &
       skerry_window_update, skerry_world

contains

  ! ---- who and where
  integer function skerry_rank(job)
    type(skerry_job), intent(in) :: job
    skerry_rank = c_rank(job%handle)
  end function
  integer function skerry_size(job)
    type(skerry_job), intent(in) :: job
    skerry_size = c_size(job%handle)
  end function
  integer function skerry_node_count(job)
    type(skerry_job), intent(in) :: job
    skerry_node_count = c_node_count(job%handle)
  end function
  integer function skerry_thread_level_granted(job)
    type(skerry_job), intent(in) :: job
    skerry_thread_level_granted = c_thread_level_granted(job%handle)
  end function
  integer function skerry_node_of(job, rank)
    type(skerry_job), intent(in) :: job
    integer(c_int), intent(in) :: rank
    skerry_node_of = c_node_of(job%handle, rank)
  end function
  integer function skerry_node_size(job, node)
    type(skerry_job), intent(in) :: job
    integer(c_int), intent(in) :: node
    skerry_node_size = c_node_size(job%handle, node)
  end function
  integer function skerry_node_rank(job, node, i)
    type(skerry_job), intent(in) :: job
    integer(c_int), intent(in) :: node, i
    skerry_node_rank = c_node_rank(job%handle, node, i)
  end function
  logical function skerry_same_node(job, rank)
    type(skerry_job), intent(in) :: job
    integer(c_int), intent(in) :: rank
    skerry_same_node = c_same_node(job%handle, rank) == 1
  end function
  subroutine skerry_abort(job, exit_status, reason)
    type(skerry_job), intent(in) :: job
    integer(c_int), intent(in) :: exit_status
    character(*), intent(in) :: reason
    call c_abort(job%handle, exit_status, reason // c_null_char)
  end subroutine

  ! ---- texts
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
  function skerry_version() result(answer)
    character(:), allocatable :: answer
    answer = text_of(c_version())
  end function
  function skerry_status_name(code) result(answer)
    integer(c_int), intent(in) :: code
    character(:), allocatable :: answer
    answer = text_of(c_status_name(code))
  end function
  function skerry_fabric_name(job) result(answer)
    type(skerry_job), intent(in) :: job
    character(:), allocatable :: answer
    answer = text_of(c_fabric_name(job%handle))
  end function
  ! A counter of docs/counters.md by its name; -1 if there is none.
  function skerry_counter(job, name) result(value)
    type(skerry_job), intent(in) :: job
    character(*), intent(in) :: name
    integer(c_int64_t) :: value
    value = c_counter(job, trim(name) // c_null_char)
  end function

  ! ---- groups
  function skerry_world(job) result(group)
    type(skerry_job), intent(in) :: job
    type(skerry_group) :: group
    group%handle = c_world(job%handle)
  end function
  integer function skerry_group_size(group)
    type(skerry_group), intent(in) :: group
    skerry_group_size = c_group_size(group%handle)
  end function
  integer function skerry_group_index(group, rank)
    type(skerry_group), intent(in) :: group
    integer(c_int), intent(in) :: rank
    skerry_group_index = c_group_index(group%handle, rank)
  end function
  integer function skerry_group_rank(group, index)
    type(skerry_group), intent(in) :: group
    integer(c_int), intent(in) :: index
    skerry_group_rank = c_group_rank(group%handle, index)
  end function

  ! ---- memory
  function skerry_segment_bytes(segment, rank) result(bytes)
    type(skerry_segment), intent(in) :: segment
    integer(c_int), intent(in) :: rank
    integer(c_int64_t) :: bytes
    bytes = c_segment_bytes(segment%handle, rank)
  end function
  ! The memory of `rank`, a member on the own node; null elsewhere.
  function skerry_segment_pointer(segment, rank) result(memory)
    type(skerry_segment), intent(in) :: segment
    integer(c_int), intent(in) :: rank
    type(c_ptr) :: memory
    memory = c_segment_pointer(segment%handle, rank)
  end function
  function skerry_segment_group(segment) result(group)
    type(skerry_segment), intent(in) :: segment
    type(skerry_group) :: group
    group%handle = c_segment_group(segment%handle)
  end function
  function skerry_window_bytes(window, rank) result(bytes)
    type(skerry_window), intent(in) :: window
    integer(c_int), intent(in) :: rank
    integer(c_int64_t) :: bytes
    bytes = c_window_bytes(window%handle, rank)
  end function
  ! The memory of `rank`, a member on the own node; null elsewhere.
  function skerry_window_pointer(window, rank) result(memory)
    type(skerry_window), intent(in) :: window
    integer(c_int), intent(in) :: rank
    type(c_ptr) :: memory
    memory = c_window_pointer(window%handle, rank)
  end function
  function skerry_window_group(window) result(group)
    type(skerry_window), intent(in) :: window
    type(skerry_group) :: group
    group%handle = c_window_group(window%handle)
  end function
  subroutine segment_local_i4(segment, array)
    type(skerry_segment), intent(in) :: segment
    integer(c_int32_t), pointer, intent(out) :: array(:)
    call c_f_pointer(c_segment_local(segment%handle), array, &
        [own_segment_bytes(segment) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine segment_local_i8(segment, array)
    type(skerry_segment), intent(in) :: segment
    integer(c_int64_t), pointer, intent(out) :: array(:)
    call c_f_pointer(c_segment_local(segment%handle), array, &
        [own_segment_bytes(segment) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine segment_local_r4(segment, array)
    type(skerry_segment), intent(in) :: segment
    real(c_float), pointer, intent(out) :: array(:)
    call c_f_pointer(c_segment_local(segment%handle), array, &
        [own_segment_bytes(segment) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine segment_local_r8(segment, array)
    type(skerry_segment), intent(in) :: segment
    real(c_double), pointer, intent(out) :: array(:)
    call c_f_pointer(c_segment_local(segment%handle), array, &
        [own_segment_bytes(segment) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine segment_local_c4(segment, array)
    type(skerry_segment), intent(in) :: segment
    complex(c_float_complex), pointer, intent(out) :: array(:)
    call c_f_pointer(c_segment_local(segment%handle), array, &
        [own_segment_bytes(segment) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine segment_local_c8(segment, array)
    type(skerry_segment), intent(in) :: segment
    complex(c_double_complex), pointer, intent(out) :: array(:)
    call c_f_pointer(c_segment_local(segment%handle), array, &
        [own_segment_bytes(segment) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine window_local_i4(window, array)
    type(skerry_window), intent(in) :: window
    integer(c_int32_t), pointer, intent(out) :: array(:)
    call c_f_pointer(c_window_local(window%handle), array, &
        [own_window_bytes(window) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine window_local_i8(window, array)
    type(skerry_window), intent(in) :: window
    integer(c_int64_t), pointer, intent(out) :: array(:)
    call c_f_pointer(c_window_local(window%handle), array, &
        [own_window_bytes(window) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine window_local_r4(window, array)
    type(skerry_window), intent(in) :: window
    real(c_float), pointer, intent(out) :: array(:)
    call c_f_pointer(c_window_local(window%handle), array, &
        [own_window_bytes(window) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine window_local_r8(window, array)
    type(skerry_window), intent(in) :: window
    real(c_double), pointer, intent(out) :: array(:)
    call c_f_pointer(c_window_local(window%handle), array, &
        [own_window_bytes(window) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine window_local_c4(window, array)
    type(skerry_window), intent(in) :: window
    complex(c_float_complex), pointer, intent(out) :: array(:)
    call c_f_pointer(c_window_local(window%handle), array, &
        [own_window_bytes(window) * 8_c_int64_t / storage_size(array)])
  end subroutine
  subroutine window_local_c8(window, array)
    type(skerry_window), intent(in) :: window
    complex(c_double_complex), pointer, intent(out) :: array(:)
    call c_f_pointer(c_window_local(window%handle), array, &
        [own_window_bytes(window) * 8_c_int64_t / storage_size(array)])
  end subroutine

  subroutine skerry_test(job, handle, done, status)
    type(skerry_job), intent(in) :: job
    integer(skerry_handle), intent(inout) :: handle
    logical, intent(out) :: done
    integer(c_int), intent(out), optional :: status
    integer(c_int) :: answer
    call c_test(job, handle, answer, status)
    done = answer == 1
  end subroutine
end module
