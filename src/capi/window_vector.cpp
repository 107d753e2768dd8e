// Windows: accesses of many pieces.
#include <skerry/window.h>

#include <cstddef>
#include <span>

#include "capi/arguments.hpp"
#include "window/window.hpp"

using namespace skerry;
using namespace skerry::capi;
using window::VectorPiece;
using window::Window;

namespace {

static_assert(sizeof(VectorPiece) == sizeof(skerry_piece) &&
              offsetof(VectorPiece, origin) == offsetof(skerry_piece, origin) &&
              offsetof(VectorPiece, offset) == offsetof(skerry_piece, offset) &&
              offsetof(VectorPiece, bytes) == offsetof(skerry_piece, bytes));

// `what`: of an accumulate. `site`: where the program called.
int with_pieces(const void* site, skerry_window* window, wire::Kind kind, int rank,
                const memory::Update* what, const skerry_piece* pieces, uint64_t count) try {
  if (window == nullptr) return null_argument("window");
  if (!of(window).job().is_alive()) return forked();
  if (of(window).is_freed()) return fail(Window::freed());
  of(window).called_at(site);
  if (pieces == nullptr && count > 0) return null_argument("pieces");
  // The same layout (asserted above): no copy.
  const std::span<const VectorPiece> read(reinterpret_cast<const VectorPiece*>(pieces), count);
  for (uint64_t k = 0; k < count; ++k)
    if (pieces[k].origin == nullptr && pieces[k].bytes > 0)
      return fail(error(Code::invalid, "origin of piece ", k, " is null"));
  Status status = of(window).accesses().access_pieces(rank, kind, what, read);
  return status.ok() ? SKERRY_OK : fail(of(window).located(std::move(status)));
}
CAUGHT

// `site`: where the program called.
int with_shape(const void* site, skerry_window* window, wire::Kind kind, int rank, uint64_t offset,
               void* origin, const skerry_strided* shape) try {
  if (window == nullptr) return null_argument("window");
  if (!of(window).job().is_alive()) return forked();
  if (of(window).is_freed()) return fail(Window::freed());
  of(window).called_at(site);
  Strided sides;
  uint64_t stream = 0;
  Status status = sides.read_shapes(shape);
  if (status.ok()) status = check_stream(sides.target_shape, &stream);
  if (status.ok() && origin == nullptr && stream > 0)
    status = error(Code::invalid, "origin is null");
  if (status.ok())
    status = of(window).accesses().access_strided(rank, kind, offset, sides.target_shape,
                                                  static_cast<std::byte*>(origin),
                                                  sides.origin_shape);
  return status.ok() ? SKERRY_OK : fail(of(window).located(std::move(status)));
}
CAUGHT

}  // namespace

extern "C" {

int skerry_window_put_vector(skerry_window* window, int rank, const skerry_piece* pieces,
                             uint64_t count) {
  return with_pieces(__builtin_return_address(0), window, wire::Kind::put, rank, nullptr, pieces,
                     count);
}
int skerry_window_get_vector(skerry_window* window, int rank, const skerry_piece* pieces,
                             uint64_t count) {
  return with_pieces(__builtin_return_address(0), window, wire::Kind::get, rank, nullptr, pieces,
                     count);
}
int skerry_window_update_vector(skerry_window* window, int rank, int type, int operation,
                                const skerry_piece* pieces, uint64_t count) try {
  memory::Update what;
  if (Status status = read_update(type, operation, &what); !status.ok()) return fail(status);
  return with_pieces(__builtin_return_address(0), window, wire::Kind::accumulate, rank, &what,
                     pieces, count);
}
CAUGHT

int skerry_window_put_strided(skerry_window* window, int rank, uint64_t offset, const void* origin,
                              const skerry_strided* shape) {
  return with_shape(__builtin_return_address(0), window, wire::Kind::put, rank, offset,
                    const_cast<void*>(origin), shape);
}
int skerry_window_get_strided(skerry_window* window, int rank, uint64_t offset, void* origin,
                              const skerry_strided* shape) {
  return with_shape(__builtin_return_address(0), window, wire::Kind::get, rank, offset, origin,
                    shape);
}

}  // extern "C"
