! The module skerry, by every rank: each call once, with scalars, whole arrays and sections.
!   check          prints "all checks passed" on rank 0
!   check wrong    makes an error without asking for its status: the job ends with the message
program check
  use skerry
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real32, real64, int8, int32, int64
  implicit none
  type(skerry_job) :: job
  type(skerry_group) :: world
  integer :: me, ranks, right, left, status
  character(16) :: word = ''

  call get_command_argument(1, word)
  call skerry_init(job, thread_level=SKERRY_THREAD_SINGLE)
  world = skerry_world(job)
  me = skerry_rank(job)
  ranks = skerry_size(job)
  right = mod(me + 1, ranks)
  left = mod(me + ranks - 1, ranks)
  if (word == 'wrong') call break_a_rule()
  call who_and_where()
  call collectives()
  call transfers()
  call sections()
  call without_waiting()
  call words()
  call locks()
  call protected_memory()
  call windows()
  call errors()
  call skerry_sync(world)
  if (me == 0) print '(a)', 'all checks passed'
  call skerry_finalize(job)

contains
  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(*), intent(in) :: what
    if (holds) return
    call skerry_abort(job, 1, 'wrong: ' // what)
  end subroutine

  subroutine break_a_rule()
    type(skerry_segment) :: memory
    call skerry_segment_alloc(world, 8, memory)
    call skerry_put(memory, 99, 0, 1.0_real64)
    print '(a)', 'went on'
  end subroutine

  subroutine protected_memory()
    type(skerry_protected) :: kept
    type(skerry_group) :: group
    integer(int64), asynchronous :: mine(3)
    integer(int64) :: theirs(2), wide
    integer :: step, done
    call skerry_protected_create(world, 0, kept)
    mine = [me, 5, 6]
    call skerry_protected_add(kept, mine(1:3:2), status)
    call expect(status == SKERRY_ERR_INVALID, 'a section is protected')
    call skerry_protected_add(kept, mine)
    call skerry_protected_divide(kept, c_null_funptr)
    call skerry_protected_save(kept, 4_int64)
    call expect(skerry_protected_step(kept) == 4 .and. skerry_protected_bytes(kept) == 24, 'save')
    call expect(skerry_protected_places(kept) == ranks, 'protected_places')
    call expect(skerry_group_size(skerry_protected_group(kept)) == ranks, 'protected_group')
    theirs = 0
    call skerry_protected_read(kept, right, 0, theirs(1:1))
    call skerry_protected_read(kept, right, 8_int64, theirs(2))
    call expect(theirs(1) == right .and. theirs(2) == 5, 'protected_read')
    do done = 0, 3
      call skerry_protected_next(kept, 3, 2, SKERRY_OK, step, group)
      call expect(step == done .and. skerry_group_size(group) == ranks, 'protected_next')
    end do
    call expect(skerry_protected_step(kept) == 3 .and. skerry_protected_recoveries(kept) == 0, &
        'the last state')
    call skerry_protected_next(kept, 3_int64, 2_int64, SKERRY_ERR_RANGE, wide, group, status)
    call expect(status == SKERRY_ERR_RANGE, 'the outcome of a step')
    call skerry_protected_next(kept, -1, 2, SKERRY_OK, step, group, status)
    call expect(status == SKERRY_ERR_INVALID, 'steps below 0')
    call skerry_protected_recover(kept, status=status)
    call expect(status == SKERRY_ERR_UNSUPPORTED, 'recover in a job that ends with its dead')
    call skerry_protected_forget(kept)
    call skerry_protected_free(kept)
  end subroutine

  subroutine who_and_where()
    integer :: node
    node = skerry_node_of(job, me)
    call expect(node >= 0 .and. node < skerry_node_count(job), 'node_of')
    call expect(skerry_node_rank(job, node, 0) <= me, 'node_rank')
    call expect(skerry_node_size(job, node) >= 1, 'node_size')
    call expect(skerry_same_node(job, me), 'same_node')
    call expect(skerry_thread_level_granted(job) >= SKERRY_THREAD_SINGLE, 'thread level')
    call expect(skerry_fabric_name(job) /= '' .and. skerry_version() /= '', 'names')
    call expect(skerry_status_name(SKERRY_ERR_RANGE) == 'SKERRY_ERR_RANGE', 'status_name')
    call skerry_hear(job, status)  ! this job ends with its first dead: nothing to hear of
    call expect(status == SKERRY_OK, 'hear')
  end subroutine

  subroutine collectives()
    type(skerry_group) :: half
    integer(int32) :: grid(4, 3), all(2, 0:ranks - 1), for_each(2, 0:ranks - 1), mine(2)
    integer(int32) :: counts(0:ranks - 1), parts(2 * ranks), got(2 * ranks)
    integer(int32), asynchronous :: pair(2)
    integer(skerry_handle) :: handle
    real(real64) :: x
    integer :: i, from
    grid = 0
    if (me == ranks - 1) grid = 7
    call skerry_broadcast(world, grid(::2, :), ranks - 1)
    call expect(all_are(grid(::2, :), 7), 'broadcast to a section')
    if (me /= ranks - 1) call expect(all_are(grid(2::2, :), 0), 'beside the section')
    x = me
    call skerry_allreduce(world, SKERRY_MAX, x)
    call expect(x == ranks - 1, 'allreduce')
    grid = me
    call skerry_reduce(world, SKERRY_SUM, grid, 0)
    if (me == 0) call expect(all_are(grid, ranks * (ranks - 1) / 2), 'reduce')
    call skerry_allgather(world, [me, -me], all)
    call expect(all(1, right) == right .and. all(2, left) == -left, 'allgather')
    for_each(1, :) = me
    for_each(2, :) = [(i, i = 0, ranks - 1)]
    call skerry_alltoall(world, for_each, all)
    call expect(all(1, right) == right .and. all(2, left) == me, 'alltoall')
    call skerry_reduce_scatter(world, SKERRY_SUM, for_each, mine)
    call expect(mine(1) == ranks * (ranks - 1) / 2 .and. mine(2) == ranks * me, 'reduce_scatter')
    x = me
    call skerry_scan(world, SKERRY_SUM, x)
    call expect(x == me * (me + 1) / 2, 'scan')
    x = me
    call skerry_exscan(world, SKERRY_SUM, x)
    if (me > 0) call expect(x == me * (me - 1) / 2, 'exscan')
    counts = [(mod(me + i, 3), i = 0, ranks - 1)]
    parts = me
    got = -1
    call skerry_alltoallv(world, parts(:sum(counts)), counts, got(:sum(counts)), counts)
    call expect(.not. any(got(:sum(counts)) /= [((from, i = 1, counts(from)), from = 0, &
        ranks - 1)]), 'alltoallv')
    pair = [me, -me]
    call skerry_allreduce_by(world, c_funloc(keep_larger), pair)
    call expect(pair(1) == ranks - 1 .and. pair(2) == 0, 'allreduce_by')
    call skerry_allreduce_nb(world, SKERRY_SUM, pair, handle)
    call skerry_wait(job, handle)
    call expect(pair(1) == ranks * (ranks - 1) .and. pair(2) == 0, 'allreduce_nb')
    pair = me
    call skerry_broadcast_nb(world, pair, ranks - 1, handle)
    call skerry_wait(job, handle)
    call expect(.not. any(pair /= ranks - 1), 'broadcast_nb')
    call skerry_barrier_nb(world, handle)
    call skerry_wait(job, handle)
    call skerry_group_split(world, mod(me, 2), -me, half)
    call expect(skerry_group_rank(half, 0) >= me, 'a group ordered by key')
    call expect(skerry_group_index(half, me) < skerry_group_size(half), 'group_index')
    call skerry_barrier(half)
    call skerry_group_free(half)
  end subroutine

  subroutine keep_larger(context, into, from, count) bind(C)
    type(c_ptr), value :: context
    integer(c_int64_t), value :: count
    integer(int32), intent(inout) :: into(count)
    integer(int32), intent(in) :: from(count)
    if (c_associated(context)) error stop 'no context was given'
    into = max(into, from)
  end subroutine

  logical function all_are(values, wanted)
    integer(int32), intent(in) :: values(:, :)
    integer, intent(in) :: wanted
    all_are = all(values == wanted)
  end function

  subroutine transfers()
    type(skerry_segment) :: memory
    real(real32), pointer :: reals(:)
    complex(real64), pointer :: own(:)
    complex(real64) :: z(3), back(3)
    character(5) :: text
    integer(int64) :: offset
    call skerry_segment_alloc(world, 4800, memory)
    call skerry_local(memory, reals)
    call skerry_local(memory, own)
    call expect(size(reals) == 1200 .and. size(own) == 300, 'sizes of the own slice')
    call expect(skerry_segment_bytes(memory, right) == 4800, 'segment_bytes')
    z = cmplx(me, [1, 2, 3], real64)
    call skerry_put(memory, right, 16, z)
    offset = 4000
    call skerry_put(memory, right, offset, 'hello')
    call skerry_put(memory, right, 4100, 'there')  ! an offset of 4 bytes
    call skerry_sync(world)
    call expect(all(own(2:4) == cmplx(left, [1, 2, 3], real64)), 'put')
    call skerry_get(memory, me, offset, text)
    call expect(text == 'hello', 'characters')
    call skerry_get(memory, me, 4100, text)
    call expect(text == 'there', 'characters, offset of 4 bytes')
    call skerry_sync(world)
    call skerry_acc(memory, right, 16, z, cmplx(2, 0, real64))
    call skerry_sync(world)
    call skerry_get(memory, right, 16, back)
    call expect(all(back == 3 * z), 'scaled accumulate')
    call skerry_sync(world)
    call skerry_segment_free(memory)
  end subroutine

  subroutine sections()
    type(skerry_segment) :: memory
    real(real64) :: grid(6, 5, 4), back(2, 5, 2)
    integer :: i
    call skerry_segment_alloc(world, 8 * 200, memory)
    grid = reshape([(1000 * me + i, i = 1, size(grid))], shape(grid))
    call skerry_put(memory, right, 0, grid(1:6:3, :, 4:1:-3))
    call skerry_fence(job, right)
    call skerry_get(memory, right, 0, back)
    call expect(all(back == grid(1:6:3, :, 4:1:-3)), 'put of a section')
    grid = 0
    call skerry_get(memory, right, 0, grid(2:6:4, 5:1:-1, ::2))
    call expect(all(grid(2:6:4, 5:1:-1, ::2) == back) .and. count(grid /= 0) == size(back), &
        'get into a section')
    call skerry_acc(memory, right, 0, grid(2:6:4, 5:1:-1, ::2))
    call skerry_fence_all(job)
    call skerry_get(memory, right, 0, grid(:2, :, :2))
    call expect(all(grid(:2, :, :2) == 2 * back), 'accumulate of a section')
    call skerry_put(memory, right, 0, grid(1:0, :, :))
    call skerry_sync(world)
    call skerry_segment_free(memory)
  end subroutine

  subroutine without_waiting()
    type(skerry_segment) :: memory
    integer(int64), asynchronous :: out(100), in(100)
    integer(skerry_handle) :: handle
    logical :: done
    integer :: i
    call skerry_segment_alloc(world, 1600_int64, memory)
    out = [(i + me, i = 1, 100)]
    call skerry_put_nb(memory, right, 0, out, handle)
    call skerry_wait(job, handle)
    call expect(handle == 0, 'a handle after wait')
    call skerry_put_nb(memory, right, 800, out(100:1:-1))
    call skerry_acc_nb(memory, right, 0, out(::2))
    call skerry_wait_implicit(job)
    call skerry_sync(world)
    call skerry_get_nb(memory, right, 800, in, handle)
    done = .false.
    do while (.not. done)
      call skerry_test(job, handle, done)
    end do
    call expect(all(in == out(100:1:-1)), 'get_nb')
    call skerry_get(memory, right, 0, in)
    call expect(all(in(51:) == out(51:)) .and. all(in(:50) == out(:50) + out(::2)), 'acc_nb')
    call skerry_sync(world)
    call skerry_segment_free(memory)
  end subroutine

  subroutine words()
    type(skerry_segment) :: memory
    integer(int64) :: before, value
    integer(int32) :: small, olds(2)
    call skerry_segment_alloc(world, 64, memory)
    call skerry_fetch_add(memory, 0, 0, 1_int64, before)
    call expect(before >= 0 .and. before < ranks, 'fetch_add')
    call skerry_fetch_add(memory, 0, 8, 2)
    call skerry_sync(world)
    call skerry_compare_swap(memory, 0, 8, 2 * ranks, -1, small)
    call expect(small == 2 * ranks .or. small == -1, 'compare_swap')
    call skerry_swap(memory, me, 16, 5_int64, before)
    call expect(before == 0, 'swap')
    call skerry_update(memory, me, 24, SKERRY_MAX, [3, 9])
    call skerry_fetch_update(memory, me, 24, SKERRY_PROD, [2, 2], olds)
    call expect(all(olds == [3, 9]), 'fetch_update')
    call skerry_put_notify(memory, right, 32, me, 40, 1)
    call skerry_notify_wait(memory, 40, 1, value=value)
    call skerry_get(memory, me, 32, small)
    call expect(small == left .and. value == 1, 'put_notify')
    call skerry_notify_wait(memory, 40, 2, 1000_int64, status=status)
    call expect(status == SKERRY_ERR_TIMEOUT, 'a time limit')
    call skerry_sync(world)
    call skerry_segment_free(memory)
  end subroutine

  subroutine locks()
    type(skerry_segment) :: memory
    type(skerry_mutexes) :: mutexes
    integer(int64) :: sum
    integer :: i
    call skerry_segment_alloc(world, 8, memory)
    call skerry_mutexes_create(world, 1, mutexes)
    do i = 1, 20
      call skerry_mutex_lock(mutexes, 0, 0)
      call skerry_get(memory, 0, 0, sum)
      call skerry_put(memory, 0, 0, sum + 1)
      call skerry_mutex_unlock(mutexes, 0, 0)
    end do
    call skerry_sync(world)
    call skerry_get(memory, 0, 0, sum)
    call expect(sum == 20 * ranks, 'sums under a mutex')
    call skerry_sync(world)
    call skerry_mutexes_free(mutexes)
    call skerry_segment_free(memory)
  end subroutine

  subroutine windows()
    type(skerry_window) :: window, given
    real(real64), pointer :: mine(:)
    real(real64), asynchronous, target :: ours(10)
    real(real64) :: two(2), old(2)
    call skerry_window_allocate(world, 80_int64, 8_int64, window)
    call skerry_window_lock(window, SKERRY_LOCK_EXCLUSIVE, right)
    call skerry_window_put(window, right, 2, [1.5_real64, 2.5_real64])
    call skerry_window_flush(window, right)
    call skerry_window_get(window, right, 2, two)
    call skerry_window_unlock(window, right)
    call expect(all(two == [1.5_real64, 2.5_real64]), 'window put and get')
    call skerry_sync(world)
    call skerry_local(window, mine)
    call expect(size(mine) == 10 .and. mine(3) == 1.5_real64, 'own memory of a window')
    call skerry_sync(world)
    call skerry_window_lock_all(window)
    call skerry_window_update(window, right, 2, SKERRY_SUM, two)
    call skerry_window_flush_all(window)
    call skerry_window_fetch_update(window, right, 2, SKERRY_NO_OP, two, old)
    call skerry_window_unlock_all(window)
    call expect(all(old == 2 * two), 'window updates')
    call skerry_window_free(window)
    ours = 0
    call skerry_window_create(world, ours, given)
    call skerry_window_fence(given)
    call skerry_window_put(given, right, 4, real(me, real64))
    call skerry_window_fence(given)
    call expect(ours(5) == left, 'a window over memory of the program')
    call skerry_window_free(given)
  end subroutine

  subroutine errors()
    type(skerry_segment) :: memory
    call skerry_segment_alloc(world, 64, memory)
    call skerry_put(memory, right, 60, [1.0_real64, 2.0_real64], status)
    call expect(status == SKERRY_ERR_RANGE .and. skerry_last_error() /= '', 'range')
    call skerry_acc(memory, right, 0, 'text', status=status)
    call expect(status == SKERRY_ERR_INVALID .and. index(skerry_last_error(), 'type') > 0, &
        'accumulate of characters')
    call skerry_acc(memory, right, 0, [1.0_real64], scale=2, status=status)
    call expect(status == SKERRY_ERR_INVALID .and. index(skerry_last_error(), 'scale') > 0, 'scale')
    call skerry_segment_alloc(world, -1, memory, status)
    call expect(status == SKERRY_ERR_INVALID, 'a negative size')
    call expect(skerry_counter(job, 'fences') >= 0 .and. skerry_counter(job, 'none') == -1, &
        'counters')
  end subroutine
end program
