#include "layout.hpp"

#include <algorithm>
#include <utility>

namespace skerry::mpi {
namespace {

int64_t end_of(const Piece& piece) { return piece.at + static_cast<int64_t>(piece.bytes); }

// A long list of equal pieces at equal distances is a loop.
void make_loop_if_regular(Layout& made) {
  const std::vector<Piece>& pieces = made.pieces;
  const int64_t stride = pieces[1].at - pieces[0].at;
  for (size_t k = 1; k < pieces.size(); ++k)
    if (pieces[k].bytes != pieces[0].bytes || pieces[k].at - pieces[k - 1].at != stride) return;
  made.loops = {
      {pieces[0].at, static_cast<int64_t>(pieces.size()), stride, pieces[0].bytes, nullptr}};
  made.pieces = {};
}

void include(Layout& made, int64_t lowest, int64_t highest) {
  made.lowest = made.count == 0 ? lowest : std::min(made.lowest, lowest);
  made.highest = made.count == 0 ? highest : std::max(made.highest, highest);
}

void measure(Layout& made) {
  for (const Piece& piece : made.pieces) {
    include(made, piece.at, end_of(piece));
    made.bytes += piece.bytes;
    ++made.count;
  }
  for (const Loop& loop : made.loops) {
    const auto turns = static_cast<uint64_t>(loop.count);
    const int64_t last = (loop.count - 1) * loop.stride;
    const int64_t low = loop.of ? loop.of->lowest : 0;
    const int64_t high = loop.of ? loop.of->highest : static_cast<int64_t>(loop.bytes);
    include(made, loop.at + low + std::min<int64_t>(last, 0),
            loop.at + high + std::max<int64_t>(last, 0));
    made.bytes += turns * (loop.of ? loop.of->bytes : loop.bytes);
    made.count += turns * (loop.of ? loop.of->count : 1);
  }
  if (!made.pieces.empty()) made.first = made.pieces[0].at;
  else if (!made.loops.empty())
    made.first = made.loops[0].at + (made.loops[0].of ? made.loops[0].of->first : 0);
}

}  // namespace

Shape layout_of(std::vector<Piece> pieces) {
  auto made = std::make_shared<Layout>();
  made->pieces = std::move(pieces);
  measure(*made);
  return made;
}

void LayoutBuilder::add_block(int64_t at, uint64_t bytes) {
  if (bytes == 0) return;
  if (!made_.loops.empty()) made_.loops.push_back({at, 1, 0, bytes, nullptr});
  else if (!made_.pieces.empty() && end_of(made_.pieces.back()) == at)
    made_.pieces.back().bytes += bytes;
  else made_.pieces.push_back({at, bytes});
}

void LayoutBuilder::add_pieces(const Layout& of, int64_t at, int64_t count, int64_t stride) {
  for (int64_t k = 0; k < count; ++k)
    for (const Piece& piece : of.pieces) add_block(at + k * stride + piece.at, piece.bytes);
}

void LayoutBuilder::begin_loops() {
  if (made_.pieces.empty()) return;
  made_.loops.push_back({0, 1, 0, 0, layout_of(std::exchange(made_.pieces, {}))});
}

void LayoutBuilder::add(const Shape& of, int64_t at, int64_t count, int64_t stride) {
  if (count <= 0 || of->count == 0) return;
  const auto turns = static_cast<uint64_t>(count);
  if (of->pieces.size() == 1 && (count == 1 || static_cast<int64_t>(of->bytes) == stride))
    return add_block(at + of->first, of->bytes * turns);
  const bool is_short = of->loops.empty() && of->count <= most_listed &&
                        turns <=
                            (most_listed - std::min(most_listed, made_.pieces.size())) / of->count;
  if (is_short && made_.loops.empty()) return add_pieces(*of, at, count, stride);
  if (made_.loops.empty()) begin_loops();
  if (of->pieces.size() == 1) {
    made_.loops.push_back({at + of->first, count, stride, of->bytes, nullptr});
  } else if (of->loops.size() == 1 &&
             (count == 1 || stride == of->loops[0].count * of->loops[0].stride)) {
    Loop longer = of->loops[0];
    longer.at += at;
    longer.count *= count;
    made_.loops.push_back(std::move(longer));
  } else {
    made_.loops.push_back({at, count, stride, 0, of});
  }
}

Shape LayoutBuilder::take() {
  if (made_.pieces.size() > most_listed) make_loop_if_regular(made_);
  made_.pieces.shrink_to_fit();
  made_.loops.shrink_to_fit();
  measure(made_);
  return std::make_shared<const Layout>(std::exchange(made_, {}));
}

void Cursor::enter(const Layout& layout, int64_t at) {
  if (layout.loops.empty()) {
    list_ = &layout.pieces;
    list_at_ = at;
    piece_ = 0;
    now_ = {at + layout.pieces[0].at, layout.pieces[0].bytes};
  } else {
    levels_.push_back({&layout.loops, at, 0, 0});
    take_turn(levels_.back());
  }
}

// `level` may move when a deeper one is added.
void Cursor::take_turn(const Level& level) {
  const Loop& loop = (*level.loops)[level.loop];
  const int64_t at = level.at + loop.at + level.turn * loop.stride;
  list_ = nullptr;
  if (loop.of) enter(*loop.of, at);
  else now_ = {at, loop.bytes};
}

void Cursor::climb() {
  while (!levels_.empty()) {
    Level& level = levels_.back();
    if (++level.turn == (*level.loops)[level.loop].count) {
      level.turn = 0;
      ++level.loop;
    }
    if (level.loop < level.loops->size()) return take_turn(level);
    levels_.pop_back();
  }
  if (layout_ == nullptr) return;  // there is nothing behind a piece alone
  element_at_ += extent_;
  enter(*layout_, element_at_);
}

}  // namespace skerry::mpi
