// What one process moves between nodes for one array: advice on mirroring rests on it.
#include <algorithm>

#include "impl.hpp"

namespace sk {
inline namespace v0 {
namespace detail {

const MirrorTiles& TrafficCount::tiles(const AnyArray::Impl& of) {
  std::call_once(once_, [&] {
    tiles_.emplace(of);
    marks_.resize(static_cast<std::size_t>(tiles_->map.tiles()));
  });
  return *tiles_;
}

void TrafficCount::mark(const AnyArray::Impl& of, std::vector<std::int64_t> numbers) {
  const MirrorTiles& known = tiles(of);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  for (const MirrorTiles::Fetch& fetch : known.fetches(of, numbers))
    for (std::size_t i = fetch.first; i < fetch.end; ++i)
      std::atomic_ref(marks_[static_cast<std::size_t>(numbers[i])])
          .store(i == fetch.first ? 2 : 1, std::memory_order_relaxed);
}

Traffic TrafficCount::read(const AnyArray::Impl& of) {
  Traffic all;
  Traffic::Count* const counts[] = {&all.gets, &all.puts, &all.accs};
  for (std::size_t i = 0; i < tallies_.size(); ++i)
    *counts[i] = {tallies_[i].parts.value, tallies_[i].bytes.value, tallies_[i].ns.value,
                  tallies_[i].nb_bytes.value};
  if (of.all_local) return all;
  const layout::TileMap& map = tiles(of).map;
  std::vector<std::uint8_t> marks(marks_.size());
  for (std::size_t i = 0; i < marks.size(); ++i)
    marks[i] = std::atomic_ref(marks_[i]).load(std::memory_order_relaxed);
  // Where two ranks got the same tile, one of them in a longer run, the shorter one counts: it
  // splits the run if it comes first.
  of.node_group.allreduce(std::span(marks), Reduction::max);
  if (of.nodes->own_index() != 0) return all;
  int block = -1;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i] == 0) continue;
    const auto [b, box] = map.place(static_cast<std::int64_t>(i));
    all.mirror_fetches += marks[i] == 2;
    all.mirror_blocks += b != block;
    all.mirror_bytes += static_cast<std::uint64_t>(box.elements()) * of.element_bytes;
    block = b;
  }
  return all;
}

void TrafficCount::clear() {
  for (Tallies& each : tallies_)
    for (Tally* tally : {&each.parts, &each.bytes, &each.ns, &each.nb_bytes}) tally->value = 0;
  std::fill(marks_.begin(), marks_.end(), std::uint8_t{0});
}

}  // namespace detail
}  // namespace v0
}  // namespace sk
