// put, get, accumulate: contiguous, strided, vector, values; blocking and not. ARMCI's addresses
// and counts become Skerry's segments and offsets.
#include <atomic>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "handles.hpp"
#include "local.hpp"
#include "memory.hpp"
#include "unaligned.hpp"

namespace skerry::armci {
namespace {

static_assert(static_cast<int>(ARMCI_ACC_INT) == SKERRY_INT32 &&
              static_cast<int>(ARMCI_ACC_LNG) == SKERRY_INT64 &&
              static_cast<int>(ARMCI_ACC_FLT) == SKERRY_FLOAT &&
              static_cast<int>(ARMCI_ACC_DBL) == SKERRY_DOUBLE &&
              static_cast<int>(ARMCI_ACC_CPL) == SKERRY_COMPLEX_FLOAT &&
              static_cast<int>(ARMCI_ACC_DCP) == SKERRY_COMPLEX_DOUBLE && sizeof(int) == 4 &&
              sizeof(long) == 8);
static_assert(ARMCI_MAX_STRIDE_LEVEL == SKERRY_MAX_LEVELS);
// An ARMCI_Acc_e. (Skerry has more types.)
bool is_acc_type(int type) { return type >= ARMCI_ACC_INT && type <= SKERRY_COMPLEX_DOUBLE; }

// One transfer as the caller described it. near: the caller's buffer; far: the address at `proc`.
struct Transfer {
  const char* call;
  Kind kind;
  void* near;
  void* far;
  int proc;
  int type = 0;                 // accumulate
  const void* scale = nullptr;  // accumulate
  bool blocking = true;
  armci_hdl_t* handle = nullptr;  // not blocking; null: the implicit set
};

int check(const Transfer& t) {
  need_start(t.call);
  if (!is_rank(t.proc))
    return complain(
        t.call, text("there is no process ", t.proc, ": this job has 0 to ", runtime().size - 1));
  if (t.near == nullptr || t.far == nullptr) return complain(t.call, "a null pointer");
  if (t.kind == Kind::accumulate && !is_acc_type(t.type))
    return complain(t.call, text("type ", t.type, ": give an ARMCI_Acc_e, 0 to 5"));
  return 0;
}

[[noreturn]] void nowhere(const Transfer& t) {
  die(t.call, text("address ", static_cast<const void*>(t.far), " of process ", t.proc,
                   " lies in no live allocation of ARMCI_Malloc"));
}

// The address at fault beside Skerry's reason.
int settle(const Transfer& t, int status) {
  if (status == SKERRY_OK) [[likely]]
    return 0;
  die(t.call, text(skerry_last_error(), " (process ", t.proc, ", address ",
                   static_cast<const void*>(t.far), ")"));
}

bool is_aligned(const Transfer& t, uint64_t offset) {
  return (offset & (part_bytes(t.type) - 1)) == 0;
}

// An accumulate of pieces of which some lie where Skerry's accumulates do not go. All is added when
// it returns: nothing is left for a handle.
int accumulate_anywhere(const Transfer& t, skerry_segment* segment,
                        std::span<const skerry_piece> pieces) {
  std::vector<skerry_piece> aligned, unaligned;
  for (const skerry_piece& piece : pieces)
    (is_aligned(t, piece.offset) ? aligned : unaligned).push_back(piece);
  if (!aligned.empty())
    settle(t, skerry_acc_vector(segment, t.proc, t.type, t.scale, aligned.data(), aligned.size()));
  return settle(t, add_unaligned(segment, t.proc, t.type, t.scale, unaligned));
}

int contiguous(const Transfer& t, uint64_t bytes) {
  const Place place = find(t.proc, t.far);
  if (place.segment == nullptr) [[unlikely]] {
    if (t.proc != runtime().rank) nowhere(t);
    if (t.kind == Kind::accumulate && bytes % skerry_type_bytes(t.type) != 0)
      return complain(t.call, text(bytes, " bytes are not whole elements"));
    skerry_strided shape{};
    shape.block_bytes = bytes;
    transfer_locally(t.kind, t.near, t.far, shape, t.type, t.scale);
    return 0;
  }
  if (t.kind == Kind::accumulate) {
    if (bytes % skerry_type_bytes(t.type) != 0)
      return complain(t.call, text(bytes, " bytes are not whole elements"));
    if (!is_aligned(t, place.offset)) [[unlikely]] {
      const skerry_piece piece{t.near, place.offset, bytes};
      return accumulate_anywhere(t, place.segment, {&piece, 1});
    }
  }
  if (t.blocking) [[likely]] {
    switch (t.kind) {
      case Kind::put:
        return settle(t, skerry_put(place.segment, t.proc, place.offset, t.near, bytes));
      case Kind::get:
        return settle(t, skerry_get(place.segment, t.proc, place.offset, t.near, bytes));
      case Kind::accumulate:
        return settle(t, skerry_acc(place.segment, t.proc, place.offset, t.type, t.scale, t.near,
                                    bytes / skerry_type_bytes(t.type)));
    }
  }
  Request request(t.call, t.handle);
  int status = SKERRY_OK;
  switch (t.kind) {
    case Kind::put:
      status = skerry_put_nb(place.segment, t.proc, place.offset, t.near, bytes, request.slot());
      break;
    case Kind::get:
      status = skerry_get_nb(place.segment, t.proc, place.offset, t.near, bytes, request.slot());
      break;
    case Kind::accumulate:
      status = skerry_acc_nb(place.segment, t.proc, place.offset, t.type, t.scale, t.near,
                             bytes / skerry_type_bytes(t.type), request.slot());
      break;
  }
  settle(t, status);
  request.keep();
  return 0;
}

// Contiguous in any disguise or empty; else the shape. Answers below zero: the arguments are wrong.
int read_shape(const Transfer& t, const int* near_stride, const int* far_stride, const int* count,
               int levels, skerry_strided* shape) {
  if (levels < 0 || levels > ARMCI_MAX_STRIDE_LEVEL)
    return complain(t.call, text(levels, " stride levels: give 0 to ", ARMCI_MAX_STRIDE_LEVEL));
  if (count == nullptr || (levels > 0 && (near_stride == nullptr || far_stride == nullptr)))
    return complain(t.call, "count or a stride array is null");
  for (int k = 0; k <= levels; ++k)
    if (count[k] < 0) return complain(t.call, text("count[", k, "] is ", count[k]));
  shape->block_bytes = static_cast<uint64_t>(count[0]);
  shape->levels = 0;
  shape->reserved = 0;
  for (int k = 0; k < levels; ++k) {
    const auto repeated = static_cast<uint64_t>(count[k + 1]);
    if (repeated == 0) shape->block_bytes = 0;
    if (repeated <= 1) continue;  // its stride is never walked
    // Blocks that follow on each other on both sides are one block.
    if (shape->levels == 0 && static_cast<uint64_t>(near_stride[k]) == shape->block_bytes &&
        static_cast<uint64_t>(far_stride[k]) == shape->block_bytes) {
      shape->block_bytes *= repeated;
      continue;
    }
    shape->count[shape->levels] = repeated;
    shape->origin_stride[shape->levels] = near_stride[k];
    shape->target_stride[shape->levels] = far_stride[k];
    ++shape->levels;
  }
  if (shape->block_bytes == 0) shape->levels = 0;
  return 0;
}

bool is_aligned(const Transfer& t, uint64_t offset, const skerry_strided& shape) {
  bool aligned = is_aligned(t, offset);
  for (int k = 0; k < shape.levels; ++k)
    aligned = aligned && shape.target_stride[k] % static_cast<int64_t>(part_bytes(t.type)) == 0;
  return aligned;
}

// The blocks of a shape, each a piece. Bounds are checked when they are sent.
std::vector<skerry_piece> pieces_of(void* near, uint64_t offset, const skerry_strided& shape) {
  std::vector<skerry_piece> pieces{{near, offset, shape.block_bytes}};
  for (int k = 0; k < shape.levels; ++k) {
    const size_t below = pieces.size();
    for (uint64_t i = 1; i < shape.count[k]; ++i)
      for (size_t j = 0; j < below; ++j) {
        const auto step = static_cast<int64_t>(i);
        pieces.push_back({static_cast<char*>(pieces[j].origin) + step * shape.origin_stride[k],
                          pieces[j].offset + static_cast<uint64_t>(step * shape.target_stride[k]),
                          shape.block_bytes});
      }
  }
  return pieces;
}

int strided(const Transfer& t, const int* near_stride, const int* far_stride, const int* count,
            int levels) {
  if (const int wrong = check(t); wrong != 0) return wrong;
  skerry_strided shape;
  shape.reserved = 0;
  if (const int wrong = read_shape(t, near_stride, far_stride, count, levels, &shape); wrong != 0)
    return wrong;
  if (shape.block_bytes == 0) return 0;
  if (shape.levels == 0) return contiguous(t, shape.block_bytes);
  if (t.kind == Kind::accumulate && shape.block_bytes % skerry_type_bytes(t.type) != 0)
    return complain(t.call, text("blocks of ", shape.block_bytes, " bytes are not whole elements"));
  const Place place = find(t.proc, t.far);
  if (place.segment == nullptr) [[unlikely]] {
    if (t.proc != runtime().rank) nowhere(t);
    transfer_locally(t.kind, t.near, t.far, shape, t.type, t.scale);
    return 0;
  }
  if (t.kind == Kind::accumulate && !is_aligned(t, place.offset, shape)) [[unlikely]]
    return accumulate_anywhere(t, place.segment, pieces_of(t.near, place.offset, shape));
  if (t.blocking) {
    switch (t.kind) {
      case Kind::put:
        return settle(t, skerry_put_strided(place.segment, t.proc, place.offset, t.near, &shape));
      case Kind::get:
        return settle(t, skerry_get_strided(place.segment, t.proc, place.offset, t.near, &shape));
      case Kind::accumulate:
        return settle(t, skerry_acc_strided(place.segment, t.proc, place.offset, t.type, t.scale,
                                            t.near, &shape));
    }
  }
  Request request(t.call, t.handle);
  int status = SKERRY_OK;
  switch (t.kind) {
    case Kind::put:
      status = skerry_put_strided_nb(place.segment, t.proc, place.offset, t.near, &shape,
                                     request.slot());
      break;
    case Kind::get:
      status = skerry_get_strided_nb(place.segment, t.proc, place.offset, t.near, &shape,
                                     request.slot());
      break;
    case Kind::accumulate:
      status = skerry_acc_strided_nb(place.segment, t.proc, place.offset, t.type, t.scale, t.near,
                                     &shape, request.slot());
      break;
  }
  settle(t, status);
  request.keep();
  return 0;
}

int plain(const Transfer& t, int bytes) {
  if (bytes == 0 && runtime().job != nullptr && is_rank(t.proc))
    return 0;  // null pointers are fine then
  if (const int wrong = check(t); wrong != 0) return wrong;
  if (bytes < 0) return complain(t.call, text(bytes, " bytes"));
  return contiguous(t, static_cast<uint64_t>(bytes));
}

// The pieces that lie in one allocation, sent together.
int send(const Transfer& t, skerry_segment* segment, const std::vector<skerry_piece>& pieces) {
  if (pieces.empty()) return 0;
  if (t.kind == Kind::accumulate)
    for (const skerry_piece& piece : pieces)
      if (!is_aligned(t, piece.offset)) return accumulate_anywhere(t, segment, pieces);
  if (t.blocking) {
    switch (t.kind) {
      case Kind::put:
        return settle(t, skerry_put_vector(segment, t.proc, pieces.data(), pieces.size()));
      case Kind::get:
        return settle(t, skerry_get_vector(segment, t.proc, pieces.data(), pieces.size()));
      case Kind::accumulate:
        return settle(
            t, skerry_acc_vector(segment, t.proc, t.type, t.scale, pieces.data(), pieces.size()));
    }
  }
  Request request(t.call, t.handle);
  int status = SKERRY_OK;
  switch (t.kind) {
    case Kind::put:
      status = skerry_put_vector_nb(segment, t.proc, pieces.data(), pieces.size(), request.slot());
      break;
    case Kind::get:
      status = skerry_get_vector_nb(segment, t.proc, pieces.data(), pieces.size(), request.slot());
      break;
    case Kind::accumulate:
      status = skerry_acc_vector_nb(segment, t.proc, t.type, t.scale, pieces.data(), pieces.size(),
                                    request.slot());
      break;
  }
  settle(t, status);
  request.keep();
  return 0;
}

int vector(Transfer t, const armci_giov_t* descriptors, int length) {
  need_start(t.call);
  if (length < 0 || (descriptors == nullptr && length > 0))
    return complain(t.call, text("no ", length, " descriptors there"));
  if (!is_rank(t.proc))
    return complain(
        t.call, text("there is no process ", t.proc, ": this job has 0 to ", runtime().size - 1));
  if (t.kind == Kind::accumulate && !is_acc_type(t.type))
    return complain(t.call, text("type ", t.type, ": give an ARMCI_Acc_e, 0 to 5"));
  // Everything is looked at before anything moves.
  for (int d = 0; d < length; ++d) {
    const armci_giov_t& group = descriptors[d];
    if (group.bytes < 0 || group.ptr_array_len < 0)
      return complain(t.call, text("descriptor ", d, " has ", group.ptr_array_len, " pieces of ",
                                   group.bytes, " bytes"));
    if (group.bytes == 0 || group.ptr_array_len == 0) continue;
    if (group.src_ptr_array == nullptr || group.dst_ptr_array == nullptr)
      return complain(t.call, text("descriptor ", d, " has a null array"));
    if (t.kind == Kind::accumulate &&
        static_cast<uint64_t>(group.bytes) % skerry_type_bytes(t.type) != 0)
      return complain(t.call, text("pieces of ", group.bytes, " bytes are not whole elements"));
    for (int i = 0; i < group.ptr_array_len; ++i)
      if (group.src_ptr_array[i] == nullptr || group.dst_ptr_array[i] == nullptr)
        return complain(t.call, text("piece ", i, " of descriptor ", d, " has a null pointer"));
  }
  std::vector<skerry_piece> pieces;
  skerry_segment* segment = nullptr;
  // Of several sends with one handle, all but the first must not wait for those before.
  const bool several = !t.blocking && t.handle != nullptr;
  const bool aggregates = several && (t.handle->request & aggregate_bit) != 0;
  if (several) {
    Request(t.call, t.handle);
    PARMCI_SET_AGGREGATE_HANDLE(t.handle);
  }
  for (int d = 0; d < length; ++d) {
    const armci_giov_t& group = descriptors[d];
    if (group.bytes == 0) continue;
    for (int i = 0; i < group.ptr_array_len; ++i) {
      t.near = t.kind == Kind::get ? group.dst_ptr_array[i] : group.src_ptr_array[i];
      t.far = t.kind == Kind::get ? group.src_ptr_array[i] : group.dst_ptr_array[i];
      const Place place = find(t.proc, t.far);
      if (place.segment != segment || place.segment == nullptr) {
        send(t, segment, pieces);
        pieces.clear();
        segment = place.segment;
      }
      if (segment == nullptr) contiguous(t, static_cast<uint64_t>(group.bytes));
      else pieces.push_back({t.near, place.offset, static_cast<uint64_t>(group.bytes)});
    }
  }
  const int answer = send(t, segment, pieces);
  if (several && !aggregates) PARMCI_UNSET_AGGREGATE_HANDLE(t.handle);
  return answer;
}

Transfer put_of(const char* call, void* src, void* dst, int proc) {
  return {call, Kind::put, src, dst, proc};
}
Transfer get_of(const char* call, void* src, void* dst, int proc) {
  return {call, Kind::get, dst, src, proc};
}
Transfer acc_of(const char* call, int type, void* scale, void* src, void* dst, int proc) {
  return {call, Kind::accumulate, src, dst, proc, type, scale};
}
Transfer later(Transfer t, armci_hdl_t* handle) {
  t.blocking = false;
  t.handle = handle;
  return t;
}

// Words of this node, by a store and a load: what a plain put would do after it has asked who, what
// and where. Release and acquire keep the order of issue.
template <class Word>
bool stored(const void* from, void* to, int proc) {
  Word* const word = word_at<Word>(proc, to);
  if (word == nullptr || from == nullptr) return false;
  Word value;
  std::memcpy(&value, from, sizeof value);
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  return true;
}
template <class Word>
bool loaded(const void* from, void* to, int proc) {
  Word* const word = word_at<Word>(proc, from);
  if (word == nullptr || to == nullptr) return false;
  const Word value = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  std::memcpy(to, &value, sizeof value);
  return true;
}

// The value lives until the call returns: it must be on its way then.
template <class Value>
int put_value(const char* call, Value value, void* dst, int proc) {
  return plain(put_of(call, &value, dst, proc), sizeof value);
}

template <class Value>
Value get_value(const char* call, void* src, int proc) {
  Value value{};
  if (plain(get_of(call, src, &value, proc), sizeof value) != 0)
    die(call, "no value to answer with");
  return value;
}

}  // namespace

PROFILED(int, Put, (void* src, void* dst, int bytes, int proc)) {
  if ((bytes == 8 && stored<uint64_t>(src, dst, proc)) ||
      (bytes == 4 && stored<uint32_t>(src, dst, proc)))
    return 0;
  return plain(put_of("Put", src, dst, proc), bytes);
}
PROFILED(int, Get, (void* src, void* dst, int bytes, int proc)) {
  if ((bytes == 8 && loaded<uint64_t>(src, dst, proc)) ||
      (bytes == 4 && loaded<uint32_t>(src, dst, proc)))
    return 0;
  return plain(get_of("Get", src, dst, proc), bytes);
}
PROFILED(int, Acc, (int type, void* scale, void* src, void* dst, int bytes, int proc)) {
  return plain(acc_of("Acc", type, scale, src, dst, proc), bytes);
}
PROFILED(int, NbPut, (void* src, void* dst, int bytes, int proc, armci_hdl_t* handle)) {
  return plain(later(put_of("NbPut", src, dst, proc), handle), bytes);
}
PROFILED(int, NbGet, (void* src, void* dst, int bytes, int proc, armci_hdl_t* handle)) {
  return plain(later(get_of("NbGet", src, dst, proc), handle), bytes);
}
PROFILED(int, NbAcc,
         (int type, void* scale, void* src, void* dst, int bytes, int proc, armci_hdl_t* handle)) {
  return plain(later(acc_of("NbAcc", type, scale, src, dst, proc), handle), bytes);
}

PROFILED(int, PutS,
         (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels,
          int proc)) {
  return strided(put_of("PutS", src, dst, proc), src_stride, dst_stride, count, levels);
}
PROFILED(int, GetS,
         (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels,
          int proc)) {
  return strided(get_of("GetS", src, dst, proc), dst_stride, src_stride, count, levels);
}
PROFILED(int, AccS,
         (int type, void* scale, void* src, int* src_stride, void* dst, int* dst_stride, int* count,
          int levels, int proc)) {
  if (levels == 0 && count != nullptr && count[0] > 0)
    return plain(acc_of("AccS", type, scale, src, dst, proc), count[0]);
  return strided(acc_of("AccS", type, scale, src, dst, proc), src_stride, dst_stride, count,
                 levels);
}
PROFILED(int, NbPutS,
         (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels, int proc,
          armci_hdl_t* handle)) {
  return strided(later(put_of("NbPutS", src, dst, proc), handle), src_stride, dst_stride, count,
                 levels);
}
PROFILED(int, NbGetS,
         (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels, int proc,
          armci_hdl_t* handle)) {
  return strided(later(get_of("NbGetS", src, dst, proc), handle), dst_stride, src_stride, count,
                 levels);
}
PROFILED(int, NbAccS,
         (int type, void* scale, void* src, int* src_stride, void* dst, int* dst_stride, int* count,
          int levels, int proc, armci_hdl_t* handle)) {
  return strided(later(acc_of("NbAccS", type, scale, src, dst, proc), handle), src_stride,
                 dst_stride, count, levels);
}

PROFILED(int, PutV, (armci_giov_t * pieces, int length, int proc)) {
  return vector(put_of("PutV", nullptr, nullptr, proc), pieces, length);
}
PROFILED(int, GetV, (armci_giov_t * pieces, int length, int proc)) {
  return vector(get_of("GetV", nullptr, nullptr, proc), pieces, length);
}
PROFILED(int, AccV, (int type, void* scale, armci_giov_t* pieces, int length, int proc)) {
  return vector(acc_of("AccV", type, scale, nullptr, nullptr, proc), pieces, length);
}
PROFILED(int, NbPutV, (armci_giov_t * pieces, int length, int proc, armci_hdl_t* handle)) {
  return vector(later(put_of("NbPutV", nullptr, nullptr, proc), handle), pieces, length);
}
PROFILED(int, NbGetV, (armci_giov_t * pieces, int length, int proc, armci_hdl_t* handle)) {
  return vector(later(get_of("NbGetV", nullptr, nullptr, proc), handle), pieces, length);
}
PROFILED(int, NbAccV,
         (int type, void* scale, armci_giov_t* pieces, int length, int proc, armci_hdl_t* handle)) {
  return vector(later(acc_of("NbAccV", type, scale, nullptr, nullptr, proc), handle), pieces,
                length);
}

// Operations on one target take effect in issue order, so the flag follows the data without waiting
// for it.
PROFILED(int, Put_flag, (void* src, void* dst, int bytes, int* flag, int value, int proc)) {
  if (const int wrong = plain(put_of("Put_flag", src, dst, proc), bytes); wrong != 0) return wrong;
  return put_value("Put_flag", value, flag, proc);
}
PROFILED(int, PutS_flag,
         (void* src, int* src_stride, void* dst, int* dst_stride, int* count, int levels, int* flag,
          int value, int proc)) {
  if (const int wrong = strided(put_of("PutS_flag", src, dst, proc), src_stride, dst_stride, count,
                                levels);
      wrong != 0)
    return wrong;
  return put_value("PutS_flag", value, flag, proc);
}

PROFILED(int, PutValueInt, (int value, void* dst, int proc)) {
  return put_value("PutValueInt", value, dst, proc);
}
PROFILED(int, PutValueLong, (long value, void* dst, int proc)) {
  return put_value("PutValueLong", value, dst, proc);
}
PROFILED(int, PutValueFloat, (float value, void* dst, int proc)) {
  return put_value("PutValueFloat", value, dst, proc);
}
PROFILED(int, PutValueDouble, (double value, void* dst, int proc)) {
  return put_value("PutValueDouble", value, dst, proc);
}
// A blocking put is source done when it returns: nothing is left for the handle.
PROFILED(int, NbPutValueInt, (int value, void* dst, int proc, armci_hdl_t*)) {
  return put_value("NbPutValueInt", value, dst, proc);
}
PROFILED(int, NbPutValueLong, (long value, void* dst, int proc, armci_hdl_t*)) {
  return put_value("NbPutValueLong", value, dst, proc);
}
PROFILED(int, NbPutValueFloat, (float value, void* dst, int proc, armci_hdl_t*)) {
  return put_value("NbPutValueFloat", value, dst, proc);
}
PROFILED(int, NbPutValueDouble, (double value, void* dst, int proc, armci_hdl_t*)) {
  return put_value("NbPutValueDouble", value, dst, proc);
}
PROFILED(int, GetValueInt, (void* src, int proc)) {
  return get_value<int>("GetValueInt", src, proc);
}
PROFILED(long, GetValueLong, (void* src, int proc)) {
  return get_value<long>("GetValueLong", src, proc);
}
PROFILED(float, GetValueFloat, (void* src, int proc)) {
  return get_value<float>("GetValueFloat", src, proc);
}
PROFILED(double, GetValueDouble, (void* src, int proc)) {
  return get_value<double>("GetValueDouble", src, proc);
}

PROFILED(void, Fence, (int proc)) {
  const Runtime& rt = runtime();
  if (static_cast<unsigned>(proc - rt.near_from) <
      static_cast<unsigned>(rt.near_count)) {  // our stores are where they belong; order them
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return;
  }
  need_start("Fence");
  if (!is_rank(proc)) die("Fence", text("there is no process ", proc));
  armci::settle("Fence", skerry_fence(runtime().job, proc));
}
PROFILED(void, AllFence, (void)) {
  need_start("AllFence");
  armci::settle("AllFence", skerry_fence_all(runtime().job));
}
PROFILED(void, Barrier, (void)) {
  need_start("Barrier");
  armci::settle("Barrier", skerry_sync(runtime().world.group));
}
PROFILED(void, Copy, (void* src, void* dst, int bytes)) {
  if (bytes > 0) std::memmove(dst, src, static_cast<size_t>(bytes));
}

extern "C" void armci_write_strided(void* pointer, int levels, int stride[], int count[],
                                    char* packed) {
  if (levels == 0) {
    std::memcpy(packed, pointer, static_cast<size_t>(count[0]));
    return;
  }
  size_t below = 1;
  for (int k = 0; k < levels; ++k) below *= static_cast<size_t>(count[k]);
  for (int i = 0; i < count[levels]; ++i)
    armci_write_strided(
        static_cast<char*>(pointer) + static_cast<ptrdiff_t>(i) * stride[levels - 1], levels - 1,
        stride, count, packed + static_cast<size_t>(i) * below);
}
extern "C" void armci_read_strided(void* pointer, int levels, int stride[], int count[],
                                   char* packed) {
  if (levels == 0) {
    std::memcpy(pointer, packed, static_cast<size_t>(count[0]));
    return;
  }
  size_t below = 1;
  for (int k = 0; k < levels; ++k) below *= static_cast<size_t>(count[k]);
  for (int i = 0; i < count[levels]; ++i)
    armci_read_strided(static_cast<char*>(pointer) + static_cast<ptrdiff_t>(i) * stride[levels - 1],
                       levels - 1, stride, count, packed + static_cast<size_t>(i) * below);
}

}  // namespace skerry::armci
