// "Did you mean ...?": the word of a list that a mistyped one most resembles.
#pragma once

#include <span>
#include <string_view>

namespace skerry {

// The known word with the fewest edits (a character more, less or changed) to `word`; the first of
// several. Empty if all are farther than a third of the word's length and one.
std::string_view nearest(std::string_view word, std::span<const std::string_view> known);

}  // namespace skerry
