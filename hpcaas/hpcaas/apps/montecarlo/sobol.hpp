// Sobol points with Joe-Kuo directions, in Gray-code order, addressable by index so that every rank
// and thread can start anywhere.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace montecarlo {

inline constexpr int max_dimensions = 512;
inline constexpr int sobol_bits = 32;

// Points are produced a block at a time: one vector lane per path, so that every loop over lanes is
// unit stride.
inline constexpr int lanes = 16;
static_assert(std::has_single_bit(static_cast<unsigned>(lanes)),
              "Gray code splits into block and lane only for a power of two");

class SobolDirections {
 public:
  // dimensions: 1..max_dimensions; the caller checks it.
  explicit SobolDirections(int dimensions);

  int dimensions() const { return dimensions_; }

  // Direction number of a dimension for one bit of the Gray code.
  std::uint32_t at(int dimension, int bit) const {
    return v_[static_cast<std::size_t>(dimension * sobol_bits + bit)];
  }

  // Point `index` of one dimension, computed from nothing: the reference that the blocks below must
  // agree with.
  std::uint32_t point(int dimension, std::uint64_t index) const;

 private:
  int dimensions_;
  std::vector<std::uint32_t> v_;
};

// Walks over blocks of `lanes` consecutive points. x(block, lane) = base(block) ^ low(lane) because
// Gray codes of the two parts do not overlap; moving to the next block flips one direction number
// per dimension.
class SobolBlocks {
 public:
  SobolBlocks(const SobolDirections& directions, std::uint64_t first_block);

  // Moves to the next block.
  void advance();

  std::uint32_t base(int dimension) const { return base_[static_cast<std::size_t>(dimension)]; }
  const std::uint32_t* low(int dimension) const {
    return &low_[static_cast<std::size_t>(dimension) * lanes];
  }

 private:
  const SobolDirections& directions_;
  std::uint64_t block_;
  std::vector<std::uint32_t> base_;
  std::vector<std::uint32_t> low_;
};

}  // namespace montecarlo
