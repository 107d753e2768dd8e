// Windows: accesses of many pieces.
#include <skerry/window.h>

#include <vector>

#include "capi/arguments.hpp"
#include "window/window.hpp"

using namespace skerry;
using namespace skerry::capi;
using window::VectorPiece;
using window::Window;

namespace {

using WindowShelf = job::Shelf<std::unique_ptr<Window>>;

Window& of(const skerry_window* handle) { return **WindowShelf::object_of(handle); }

// access(pieces) -> Status. `site`: where the program called.
template <class Access>
int with_pieces(const void* site, skerry_window* window, const skerry_piece* pieces, uint64_t count,
                Access&& access) {
  if (window == nullptr) return null_argument("window");
  if (!of(window).job().is_alive()) return forked();
  of(window).called_at(site);
  if (pieces == nullptr && count > 0) return null_argument("pieces");
  std::vector<VectorPiece> read;
  read.reserve(count);
  for (uint64_t k = 0; k < count; ++k) {
    if (pieces[k].origin == nullptr && pieces[k].bytes > 0)
      return fail(error(Code::invalid, "origin of piece ", k, " is null"));
    read.push_back({static_cast<std::byte*>(pieces[k].origin), pieces[k].offset, pieces[k].bytes});
  }
  Status status = access(std::span<const VectorPiece>(read));
  return status.ok() ? SKERRY_OK : fail(of(window).located(std::move(status)));
}

}  // namespace

extern "C" {

int skerry_window_put_vector(skerry_window* window, int rank, const skerry_piece* pieces,
                             uint64_t count) {
  return with_pieces(__builtin_return_address(0), window, pieces, count,
                     [&](auto read) { return of(window).put_vector(rank, read); });
}
int skerry_window_get_vector(skerry_window* window, int rank, const skerry_piece* pieces,
                             uint64_t count) {
  return with_pieces(__builtin_return_address(0), window, pieces, count,
                     [&](auto read) { return of(window).get_vector(rank, read); });
}
int skerry_window_update_vector(skerry_window* window, int rank, int type, int operation,
                                const skerry_piece* pieces, uint64_t count) {
  memory::Update what;
  if (Status status = read_update(type, operation, &what); !status.ok()) return fail(status);
  return with_pieces(__builtin_return_address(0), window, pieces, count,
                     [&](auto read) { return of(window).update_vector(rank, what, read); });
}

}  // extern "C"
