#include "unaligned.hpp"

#include <algorithm>
#include <vector>

#include "local.hpp"
#include "runtime.hpp"

namespace skerry::armci {
namespace {

// What is fetched at a time at most; whole elements of every type.
constexpr uint64_t batch_bytes = 1 << 20;

// One in every process. An element at such an address is never added to by Skerry's accumulates,
// so the mutex of its process alone makes the addition atomic.
skerry_mutexes* mutexes = nullptr;

bool are_disjoint(std::vector<skerry_piece> pieces) {
  std::ranges::sort(pieces, {}, &skerry_piece::offset);
  for (size_t i = 1; i < pieces.size(); ++i)
    if (pieces[i - 1].offset + pieces[i - 1].bytes > pieces[i].offset) return false;
  return true;
}

// Fetches, adds, stores. The pieces do not overlap.
int add_batch(skerry_segment* segment, int proc, int type, const void* scale,
              std::span<const skerry_piece> pieces) {
  uint64_t bytes = 0;
  for (const skerry_piece& piece : pieces) bytes += piece.bytes;
  std::vector<char> sums(bytes);
  std::vector<skerry_piece> fetched(pieces.begin(), pieces.end());
  char* at = sums.data();
  for (skerry_piece& piece : fetched) {
    piece.origin = at;
    at += piece.bytes;
  }
  if (const int status = skerry_get_vector(segment, proc, fetched.data(), fetched.size());
      status != SKERRY_OK)
    return status;
  for (size_t i = 0; i < pieces.size(); ++i) {
    skerry_strided shape{};
    shape.block_bytes = pieces[i].bytes;
    transfer_locally(Kind::accumulate, pieces[i].origin, fetched[i].origin, shape, type, scale);
  }
  return skerry_put_vector(segment, proc, fetched.data(), fetched.size());
}

int add_batches(skerry_segment* segment, int proc, int type, const void* scale,
                std::span<const skerry_piece> pieces) {
  const auto add = [&](const std::vector<skerry_piece>& batch) {
    if (are_disjoint(batch)) return add_batch(segment, proc, type, scale, batch);
    int status = SKERRY_OK;
    for (const skerry_piece& piece : batch)
      if (status == SKERRY_OK) status = add_batch(segment, proc, type, scale, {&piece, 1});
    return status;
  };
  std::vector<skerry_piece> batch;
  uint64_t held = 0;
  for (const skerry_piece& piece : pieces)
    for (uint64_t done = 0; done < piece.bytes;) {
      const uint64_t now = std::min(piece.bytes - done, batch_bytes - held);
      batch.push_back({static_cast<char*>(piece.origin) + done, piece.offset + done, now});
      done += now;
      held += now;
      if (held < batch_bytes) continue;
      if (const int status = add(batch); status != SKERRY_OK) return status;
      batch.clear();
      held = 0;
    }
  return batch.empty() ? SKERRY_OK : add(batch);
}

}  // namespace

int start_unaligned() { return skerry_mutexes_create(runtime().world.group, 1, &mutexes); }

int add_unaligned(skerry_segment* segment, int proc, int type, const void* scale,
                  std::span<const skerry_piece> pieces) {
  int status = skerry_mutex_lock(mutexes, proc, 0);
  if (status != SKERRY_OK) return status;
  status = add_batches(segment, proc, type, scale, pieces);
  // The next holder finds what was stored: the unlock arrives behind it.
  const int unlocked = skerry_mutex_unlock(mutexes, proc, 0);
  return status != SKERRY_OK ? status : unlocked;
}

}  // namespace skerry::armci
