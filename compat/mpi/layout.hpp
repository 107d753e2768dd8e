// Where the bytes of a datatype lie, in the order of its type map: a list of pieces, or loops over
// such lists if there are many. So a column of a large matrix takes one loop, not a piece per row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace skerry::mpi {

struct Piece {
  int64_t at;
  uint64_t bytes;
};

struct Layout;

// `count` times the same, `stride` apart.
struct Loop {
  int64_t at;  // added to the places of what is repeated
  int64_t count, stride;
  uint64_t bytes;                    // of a block, if `of` is null
  std::shared_ptr<const Layout> of;  // null: a block
};

// Never changes once it is made; datatypes share it.
struct Layout {
  std::vector<Piece> pieces;  // neighbours are joined
  std::vector<Loop> loops;    // if not empty, `pieces` is
  uint64_t count = 0;         // of pieces, those of loops included
  uint64_t bytes = 0;         // the sum of the pieces
  int64_t first = 0;          // of the first piece, which need not be the lowest
  int64_t lowest = 0, highest = 0;
};
using Shape = std::shared_ptr<const Layout>;

Shape layout_of(std::vector<Piece> pieces);

// Collects what a layout consists of, in order.
class LayoutBuilder {
 public:
  void add_block(int64_t at, uint64_t bytes);
  void add(const Shape& of, int64_t at, int64_t count, int64_t stride);
  Shape take();

 private:
  void add_pieces(const Layout& of, int64_t at, int64_t count, int64_t stride);
  void begin_loops();

  // So many are kept one by one: transfers of small types go through a list without detours.
  static constexpr uint64_t most_listed = 1024;
  Layout made_;
};

// Goes through the pieces of elements `extent` apart, in order.
class Cursor {
 public:
  Cursor(const Layout& layout, int64_t extent) : layout_(&layout), extent_(extent) {
    if (layout.count > 0) enter(layout, 0);
  }
  explicit Cursor(const Piece& alone) : now_(alone) {}
  int64_t at() const { return now_.at + static_cast<int64_t>(within_); }
  uint64_t rest() const { return now_.bytes - within_; }
  // By at most `rest`. After the last of one element comes the first of the next.
  void advance(uint64_t bytes) {
    within_ += bytes;
    if (within_ < now_.bytes) return;
    within_ = 0;
    if (list_ != nullptr && ++piece_ < list_->size()) {
      now_ = (*list_)[piece_];
      now_.at += list_at_;
    } else {
      climb();
    }
  }

 private:
  // A list of loops that the cursor is inside of.
  struct Level {
    const std::vector<Loop>* loops;
    int64_t at;    // of the list
    size_t loop;   // the present one
    int64_t turn;  // of it
  };
  void enter(const Layout& layout, int64_t at);
  void take_turn(const Level& level);
  void climb();

  const Layout* layout_ = nullptr;  // null: one piece alone
  int64_t extent_ = 0;
  int64_t element_at_ = 0;
  Piece now_ = {0, 0};
  uint64_t within_ = 0;
  const std::vector<Piece>* list_ = nullptr;  // that `now_` is of; null: it is a loop's block
  int64_t list_at_ = 0;
  size_t piece_ = 0;
  std::vector<Level> levels_;  // the innermost last
};

}  // namespace skerry::mpi
