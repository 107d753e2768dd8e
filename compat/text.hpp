// Messages from parts, for libraries that have only Skerry's public interface.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

namespace skerry::compat {

namespace detail {
inline void append(std::string& out, const char* part) { out += part; }
inline void append(std::string& out, std::string_view part) { out += part; }
inline void append(std::string& out, const void* part) {
  char text[24];
  std::snprintf(text, sizeof text, "%p", part);
  out += text;
}
template <class Number>
  requires std::is_arithmetic_v<Number>
void append(std::string& out, Number part) {
  out += std::to_string(part);
}
}  // namespace detail

template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

}  // namespace skerry::compat
