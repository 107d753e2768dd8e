#include "sobol.hpp"

namespace montecarlo {
namespace {

struct Polynomial {
  int degree;
  std::uint32_t coefficients;
  std::array<std::uint32_t, 18> m;
};

constexpr Polynomial polynomials[] = {
#include "joe_kuo.inc"
};
static_assert(sizeof(polynomials) / sizeof(polynomials[0]) == max_dimensions - 1,
              "one row per dimension after the first");

constexpr int lane_bits = std::countr_zero(static_cast<unsigned>(lanes));

std::uint64_t gray(std::uint64_t index) { return index ^ (index >> 1); }

}  // namespace

SobolDirections::SobolDirections(int dimensions)
    : dimensions_(dimensions), v_(static_cast<std::size_t>(dimensions) * sobol_bits) {
  for (int bit = 0; bit < sobol_bits; ++bit) v_[static_cast<std::size_t>(bit)] = 1u << (31 - bit);
  for (int d = 1; d < dimensions; ++d) {
    const Polynomial& p = polynomials[d - 1];
    std::uint32_t* v = &v_[static_cast<std::size_t>(d) * sobol_bits];
    for (int i = 0; i < p.degree; ++i) v[i] = p.m[static_cast<std::size_t>(i)] << (31 - i);
    for (int i = p.degree; i < sobol_bits; ++i) {
      v[i] = v[i - p.degree] ^ (v[i - p.degree] >> p.degree);
      for (int k = 1; k < p.degree; ++k) {
        if ((p.coefficients >> (p.degree - 1 - k)) & 1u) v[i] ^= v[i - k];
      }
    }
  }
}

std::uint32_t SobolDirections::point(int dimension, std::uint64_t index) const {
  std::uint32_t x = 0;
  const std::uint64_t code = gray(index);
  for (int bit = 0; bit < sobol_bits; ++bit) {
    if ((code >> bit) & 1u) x ^= at(dimension, bit);
  }
  return x;
}

SobolBlocks::SobolBlocks(const SobolDirections& directions, std::uint64_t first_block)
    : directions_(directions),
      block_(first_block),
      base_(static_cast<std::size_t>(directions.dimensions())),
      low_(static_cast<std::size_t>(directions.dimensions()) * lanes) {
  for (int d = 0; d < directions.dimensions(); ++d) {
    base_[static_cast<std::size_t>(d)] = directions.point(d, first_block << lane_bits);
    for (int lane = 0; lane < lanes; ++lane) {
      low_[static_cast<std::size_t>(d * lanes + lane)] = directions.point(
          d, static_cast<std::uint64_t>(lane));
    }
  }
}

void SobolBlocks::advance() {
  // gray(block * lanes) changes in the bit of the lowest set bit of the new block number, and
  // (because the shift in gray() moves one bit of the block part across the lane boundary) in the
  // bit just below the block part when the block number's parity changes, which it does at every
  // step.
  ++block_;
  const int flipped = std::countr_zero(block_) + lane_bits;
  const int boundary = lane_bits - 1;
  for (int d = 0; d < directions_.dimensions(); ++d) {
    base_[static_cast<std::size_t>(d)] ^= directions_.at(d, flipped) ^ directions_.at(d, boundary);
  }
}

}  // namespace montecarlo
