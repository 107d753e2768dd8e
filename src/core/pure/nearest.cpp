#include "core/pure/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace skerry {
namespace {

// Words are short, so the plain algorithm suffices.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  std::string_view best;
  size_t limit = word.size() / 3 + 2;  // from there on it is another word
  for (const std::string_view candidate : known) {
    const size_t found = edits(word, candidate);
    if (found >= limit) continue;
    best = candidate;
    limit = found;
  }
  return best;
}

}  // namespace skerry
