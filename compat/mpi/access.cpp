// Put and get, and the request-based forms of all accesses.
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
  place->offset = static_cast<uint64_t>(at) * (window.is_dynamic ? 1 : window.unit_of(rank));
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
    return type->is_contiguous || (count == 1 && type->pieces.size() == 1);
  }
  // From `first` to the end of the last byte, if all strides are forward.
  uint64_t span() const {
    if (is_one_piece() || count == 0) return bytes();
    const Piece& last = type->pieces.back();
    const int64_t end = (count - 1) * type->extent + last.at + static_cast<int64_t>(last.bytes);
    return end > type->first ? static_cast<uint64_t>(end - type->first) : bytes();
  }
};

int describe(MPI_Datatype type, MPI_Count count, const char* whose, Data* data) {
  if (count < 0) [[unlikely]]
    return fail(MPI_ERR_COUNT, whose, " count is ", count);
  *data = {find_type(type), count};
  return data->type != nullptr ? MPI_SUCCESS : MPI_ERR_TYPE;
}
int describe_target(MPI_Datatype type, MPI_Count count, MPI_Datatype same, const Data& as,
                    Data* data) {
  if (type != same || count < 0) [[unlikely]]
    return describe(type, count, "target", data);
  *data = {as.type, count};
  return MPI_SUCCESS;
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
      Cursor(origin.type->pieces, origin.type->extent),
      Cursor(target.type->pieces, target.type->extent), bytes,
      [&](int64_t from, int64_t at, uint64_t part) {
        parts.push_back({base + from, to.offset + static_cast<uint64_t>(at), part});
        return parts.size() < most ? MPI_SUCCESS : flush();
      });
  return failed != MPI_SUCCESS || parts.empty() ? failed : flush();
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
  if (const int failed = locate(window, rank, at, target.type->first, target.span(), &place);
      failed != MPI_SUCCESS)
    return failed;
  if (origin.is_one_piece() && target.is_one_piece()) [[likely]]
    return move_part(way, place, target.type->first, base + origin.type->first, bytes);
  return move_parts(way, place, base, origin, target, bytes);
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
