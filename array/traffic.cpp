// What one process moves between nodes for one array: advice on mirroring rests on it.
#include <algorithm>

#include "impl.hpp"

namespace sk {
inline namespace v0 {
namespace detail {

void TrafficCount::mark(const layout::Distribution& layout, const Patch& part,
                        std::uint64_t element_bytes) {
  std::call_once(once_, [&] {
    map_.emplace(layout, mirror_tile_edge(element_bytes));
    tiles_.resize(static_cast<std::size_t>(map_->tiles()));
  });
  map_->for_each(part, [&](const layout::TileMap::Tile& tile) {
    std::atomic_ref(tiles_[static_cast<std::size_t>(tile.number)])
        .store(1, std::memory_order_relaxed);
    const std::uint64_t bytes = static_cast<std::uint64_t>(tile.whole.elements()) * element_bytes;
    if (bytes > tile_bytes_.load(std::memory_order_relaxed))
      tile_bytes_.store(bytes, std::memory_order_relaxed);
  });
}

void TrafficCount::read(Traffic& into) {
  into.gets = gets_.parts.value;
  into.get_bytes = gets_.bytes.value;
  into.get_ns = gets_.ns.value;
  into.get_nb_bytes = gets_.nb_bytes.value;
  into.accs = accs_.parts.value;
  into.acc_bytes = accs_.bytes.value;
  into.acc_ns = accs_.ns.value;
  into.acc_nb_bytes = accs_.nb_bytes.value;
  into.tile_bytes = tile_bytes_;
  into.tiles = tiles_;
}

void TrafficCount::clear() {
  for (Tallies* each : {&gets_, &accs_})
    for (Tally* tally : {&each->parts, &each->bytes, &each->ns, &each->nb_bytes}) tally->value = 0;
  std::fill(tiles_.begin(), tiles_.end(), std::uint8_t{0});
}

}  // namespace detail
}  // namespace v0
}  // namespace sk
