// Put and get, and the request-based forms of all accesses.
#include <algorithm>

#include "types.hpp"
#include "window.hpp"

namespace skerry::mpi {

// Shared memory in one piece: the epoch is that of `window`, the bytes are those of `data`.
static int locate_in_piece(Window& window, int rank, int64_t from, uint64_t bytes, Place* place) {
  const auto index = static_cast<size_t>(rank);
  const int job_rank = window.over->job_rank(rank);
  if (const int status = skerry_window_put(window.window, job_rank, 0, nullptr, 0); status != 0)
    return settle(status);
  if (bytes > 0 && (from < 0 || static_cast<uint64_t>(from) > window.bytes[index] ||
                    bytes > window.bytes[index] - static_cast<uint64_t>(from)))
    return fail(MPI_ERR_RMA_RANGE, bytes, " bytes at byte ", from, " lie outside the ",
                window.bytes[index], " bytes of rank ", rank, "'s memory");
  place->window = window.data;
  place->rank = window.data_owner;
  place->offset += window.data_at[index];
  return MPI_SUCCESS;
}

int locate(Window& window, int rank, MPI_Aint at, int64_t first, uint64_t bytes, Place* place) {
  place->window = window.window;
  place->rank = window.over->job_rank(rank);
  if (window.is_dynamic) {
    place->offset = static_cast<uint64_t>(at);
  } else if (at < 0) [[unlikely]] {
    return fail(MPI_ERR_DISP, "displacement ", at, ": give one of 0 or more");
  } else if (!offset_of(window, rank, at, &place->offset)) [[unlikely]] {
    return fail(MPI_ERR_RMA_RANGE, "displacement ", at, " in units of ", window.unit_of(rank),
                " bytes lies outside rank ", rank, "'s memory");
  }
  if (window.data == nullptr) [[likely]]
    return MPI_SUCCESS;
  return locate_in_piece(window, rank, static_cast<int64_t>(place->offset) + first, bytes, place);
}

namespace {

// One side of a transfer.
struct Data {
  const Type* type;
  MPI_Count count;
  uint64_t bytes() const { return type->bytes * static_cast<uint64_t>(count); }
  bool is_one_piece() const {
    return type->is_contiguous || (count == 1 && type->data->count == 1);
  }
  // Elements in a row are one part, not one each.
  Cursor cursor() const {
    return is_one_piece() ? Cursor(Piece{type->first, bytes()}) : Cursor(*type->data, type->extent);
  }
  Span span() const { return span_of(*type, type->highest, count); }
};

int describe(MPI_Datatype type, MPI_Count count, const char* whose, Data* data) {
  *data = {find_type(type), count};
  return data->type != nullptr ? check_length(*data->type, count, whose) : MPI_ERR_TYPE;
}
int describe_target(MPI_Datatype type, MPI_Count count, MPI_Datatype same, const Data& as,
                    Data* data) {
  if (type != same) [[unlikely]]
    return describe(type, count, "target", data);
  *data = {as.type, count};
  return count == as.count ? MPI_SUCCESS : check_length(*data->type, count, "target");
}

enum class Way : uint8_t { put, get };

int move_part(Way way, const Place& to, int64_t at, char* origin, uint64_t bytes) {
  const uint64_t offset = to.offset + static_cast<uint64_t>(at);
  return settle(way == Way::put ? skerry_window_put(to.window, to.rank, offset, origin, bytes)
                                : skerry_window_get(to.window, to.rank, offset, origin, bytes));
}

// Many parts at a time: between nodes they travel together.
int move_parts(Way way, const Place& to, char* base, const Data& origin, const Data& target,
               uint64_t bytes) {
  constexpr size_t most = 1024;
  std::vector<skerry_piece> parts;
  const auto flush = [&] {
    const int status = way == Way::put ? skerry_window_put_vector(to.window, to.rank, parts.data(),
                                                                  parts.size())
                                       : skerry_window_get_vector(to.window, to.rank, parts.data(),
                                                                  parts.size());
    parts.clear();
    return settle(status);
  };
  const int failed = for_each_part(
      origin.cursor(), target.cursor(), bytes, [&](int64_t from, int64_t at, uint64_t part) {
        parts.push_back({base + from, to.offset + static_cast<uint64_t>(at), part});
        return parts.size() < most ? MPI_SUCCESS : flush();
      });
  return failed != MPI_SUCCESS || parts.empty() ? failed : flush();
}

// One side as blocks of `block_bytes`, at most two levels. False: it is no such thing.
bool read_levels(const Data& side, uint64_t block_bytes, uint64_t blocks, uint64_t count[2],
                 int64_t stride[2]) {
  const Type& type = *side.type;
  if (type.is_contiguous) {
    count[0] = blocks;
    stride[0] = static_cast<int64_t>(block_bytes);
    count[1] = 1;
    return true;
  }
  if (type.block_bytes != block_bytes) return false;
  count[0] = std::min(blocks, type.data->count);
  stride[0] = type.stride;
  count[1] = blocks / count[0];
  stride[1] = type.extent;
  return count[0] * count[1] == blocks;
}

// Blocks at equal distances on both sides, such as a column of a matrix.
bool read_shape(const Data& origin, const Data& target, uint64_t bytes, skerry_strided* shape) {
  const uint64_t block = origin.type->block_bytes != 0 ? origin.type->block_bytes
                                                       : target.type->block_bytes;
  if (block == 0 || bytes == 0 || bytes % block != 0) return false;
  uint64_t here[2], there[2];
  int64_t here_stride[2] = {}, there_stride[2] = {};
  const uint64_t blocks = bytes / block;
  if (!read_levels(origin, block, blocks, here, here_stride) ||
      !read_levels(target, block, blocks, there, there_stride))
    return false;
  // A contiguous side follows the other one's levels.
  if (origin.type->is_contiguous) {
    here_stride[1] = static_cast<int64_t>(block * there[0]);
    std::copy_n(there, 2, here);
  } else if (target.type->is_contiguous) {
    there_stride[1] = static_cast<int64_t>(block * here[0]);
    std::copy_n(here, 2, there);
  }
  if (here[0] != there[0]) return false;
  *shape = {};
  shape->block_bytes = block;
  shape->levels = here[1] == 1 ? 1 : 2;
  for (int k = 0; k < shape->levels; ++k) {
    shape->count[k] = here[k];
    shape->origin_stride[k] = here_stride[k];
    shape->target_stride[k] = there_stride[k];
  }
  return true;
}

int move_blocks(Way way, const Place& to, char* base, const Data& origin, const Data& target,
                const skerry_strided& shape) {
  const uint64_t offset = to.offset + static_cast<uint64_t>(target.type->first);
  char* const first = base + origin.type->first;
  return settle(way == Way::put
                    ? skerry_window_put_strided(to.window, to.rank, offset, first, &shape)
                    : skerry_window_get_strided(to.window, to.rank, offset, first, &shape));
}

int transfer(Way way, Window& window, char* base, const Data& origin, const Data& target, int rank,
             MPI_Aint at) {
  bool is_nobody = false;
  if (const int failed = check_rank(window, rank, &is_nobody); failed != MPI_SUCCESS) return failed;
  if (is_nobody) return MPI_SUCCESS;
  const uint64_t bytes = way == Way::put ? origin.bytes() : target.bytes();
  const uint64_t room = way == Way::put ? target.bytes() : origin.bytes();
  if (bytes > room) [[unlikely]]
    return fail(MPI_ERR_TRUNCATE, bytes, " bytes do not fit into the ", room,
                way == Way::put ? " bytes of the target's type and count"
                                : " bytes of the origin's type and count");
  Place place;
  const Span span = target.span();
  if (const int failed = locate(window, rank, at, span.first, span.bytes, &place);
      failed != MPI_SUCCESS)
    return failed;
  if (origin.is_one_piece() && target.is_one_piece()) [[likely]]
    return move_part(way, place, target.type->first, base + origin.type->first, bytes);
  if (skerry_strided shape; read_shape(origin, target, bytes, &shape))
    return move_blocks(way, place, base, origin, target, shape);
  return move_parts(way, place, base, origin, target, bytes);
}

// Both sides are the same number of elements of the same type without gaps, and nothing else is
// unusual: the shortest way. False: the long one.
bool is_plain(const Window& window, MPI_Datatype type, MPI_Count count, MPI_Datatype target_type,
              MPI_Count target_count, int rank, MPI_Aint at, uint64_t* offset, uint64_t* bytes) {
  if (target_type != type || target_count != count || count < 0 || window.data != nullptr ||
      window.is_dynamic || rank < 0 || rank >= window.over->size || at < 0) [[unlikely]]
    return false;
  const Type* const known = known_types.find(type);
  if (known == nullptr || !known->is_contiguous || known->first != 0) [[unlikely]]
    return false;
  return offset_of(window, rank, at, offset) &&
         !__builtin_mul_overflow(known->bytes, static_cast<uint64_t>(count), bytes);
}

// The access is done here. A request that is complete is one that receives from nobody.
int make_request(Window& window, int rank, int failed, MPI_Request* request) {
  if (failed == MPI_SUCCESS && rank != MPI_PROC_NULL) {
    if (window.data == nullptr)
      failed = settle(skerry_window_flush_local(window.window, window.over->job_rank(rank)));
    else if (window.is_checked)
      failed = settle(skerry_window_flush_local(window.data, window.data_owner));
  }
  if (failed != MPI_SUCCESS) {
    *request = MPI_REQUEST_NULL;
    return failed;
  }
  return real().Irecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, window.over->comm, request);
}

}  // namespace

int put(Window& window, const void* origin, MPI_Count origin_count, MPI_Datatype origin_type,
        int rank, MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type) {
  uint64_t offset = 0, bytes = 0;
  if (is_plain(window, origin_type, origin_count, target_type, target_count, rank, at, &offset,
               &bytes)) [[likely]]
    return settle(
        skerry_window_put(window.window, window.over->job_rank(rank), offset, origin, bytes));
  Data from, to;
  if (const int failed = describe(origin_type, origin_count, "origin", &from); failed != 0)
    return failed;
  if (const int failed = describe_target(target_type, target_count, origin_type, from, &to);
      failed != 0)
    return failed;
  return transfer(Way::put, window, static_cast<char*>(const_cast<void*>(origin)), from, to, rank,
                  at);
}

int get(Window& window, void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,
        MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type) {
  uint64_t offset = 0, bytes = 0;
  if (is_plain(window, origin_type, origin_count, target_type, target_count, rank, at, &offset,
               &bytes)) [[likely]]
    return settle(
        skerry_window_get(window.window, window.over->job_rank(rank), offset, origin, bytes));
  Data to, from;
  if (const int failed = describe(origin_type, origin_count, "origin", &to); failed != 0)
    return failed;
  if (const int failed = describe_target(target_type, target_count, origin_type, to, &from);
      failed != 0)
    return failed;
  return transfer(Way::get, window, static_cast<char*>(origin), to, from, rank, at);
}

int rput(Window& window, const void* origin, MPI_Count origin_count, MPI_Datatype origin_type,
         int rank, MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type,
         MPI_Request* request) {
  const int failed = put(window, origin, origin_count, origin_type, rank, at, target_count,
                         target_type);
  return make_request(window, rank, failed, request);
}

int rget(Window& window, void* origin, MPI_Count origin_count, MPI_Datatype origin_type, int rank,
         MPI_Aint at, MPI_Count target_count, MPI_Datatype target_type, MPI_Request* request) {
  const int failed = get(window, origin, origin_count, origin_type, rank, at, target_count,
                         target_type);
  return make_request(window, rank, failed, request);
}

int raccumulate(Window& window, const void* origin, MPI_Count origin_count,
                MPI_Datatype origin_type, int rank, MPI_Aint at, MPI_Count target_count,
                MPI_Datatype target_type, MPI_Op op, MPI_Request* request) {
  const int failed = accumulate(window, origin, origin_count, origin_type, rank, at, target_count,
                                target_type, op);
  return make_request(window, rank, failed, request);
}

int rget_accumulate(Window& window, const void* origin, MPI_Count origin_count,
                    MPI_Datatype origin_type, void* result, MPI_Count result_count,
                    MPI_Datatype result_type, int rank, MPI_Aint at, MPI_Count target_count,
                    MPI_Datatype target_type, MPI_Op op, MPI_Request* request) {
  const int failed = get_accumulate(window, origin, origin_count, origin_type, result, result_count,
                                    result_type, rank, at, target_count, target_type, op);
  return make_request(window, rank, failed, request);
}

}  // namespace skerry::mpi
