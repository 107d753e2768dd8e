// Collective operations that need no more than own blocks and patches: fill, scale, copy.
#include <algorithm>
#include <cstring>

#include "impl.hpp"

namespace sk {
inline namespace v0 {

namespace {
using Impl = AnyArray::Impl;

std::string describe(const Impl& a) {
  std::string text = std::string(to_string(a.type)) + " (";
  for (auto n : a.layout.shape()) text += std::to_string(n) + ", ";
  text.resize(text.size() - 2);
  return text + ")";
}

template <class Word>
void fill_words(std::byte* data, std::int64_t count, const void* value) {
  Word word;
  std::memcpy(&word, value, sizeof(word));
  std::fill_n(reinterpret_cast<Word*>(data), count, word);
}

// Elements as words of their size: what they mean does not matter.
void fill_elements(std::byte* data, std::int64_t count, const void* value, std::uint64_t bytes) {
  struct alignas(16) Sixteen {
    std::byte bytes[16];
  };
  if (bytes == 1) fill_words<std::uint8_t>(data, count, value);
  else if (bytes == 2) fill_words<std::uint16_t>(data, count, value);
  else if (bytes == 4) fill_words<std::uint32_t>(data, count, value);
  else if (bytes == 8) fill_words<std::uint64_t>(data, count, value);
  else fill_words<Sixteen>(data, count, value);
}
}  // namespace

void AnyArray::sync() const { impl().group.sync(); }

void AnyArray::fill(const void* value) const {
  const Impl& a = impl();
  a.scope().sync();
  if (const auto* own = a.own())
    fill_elements(own->data, own->patch.elements(), value, a.element_bytes);
  a.scope().sync();
}

void AnyArray::zero() const {
  const Impl& a = impl();
  a.scope().sync();
  if (const auto* own = a.own())
    std::memset(own->data, 0, static_cast<std::size_t>(own->patch.elements()) * a.element_bytes);
  a.scope().sync();
}

void AnyArray::scale(const void* factor) const {
  const Impl& a = impl();
  detail::check_arithmetic(a, "scale");
  a.scope().sync();
  if (const auto* own = a.own())
    detail::with_type(a.type, [&](auto by) {
      std::memcpy(&by, factor, sizeof(by));
      auto* data = reinterpret_cast<decltype(by)*>(own->data);
      for (std::int64_t i = own->patch.elements(); i > 0; --i, ++data)
        *data = detail::product_of(*data, by);
    });
  a.scope().sync();
}

// Every member fetches its own block of the target. From a distributed source that reads each
// node's share straight from its owners. The result equals the paper's zero, local copy and merge,
// but every byte crosses once, and no copy of zeroes is summed. From a mirrored source it reads its
// own node's copy. That needs no communication, and is right only if the copies agree.
void AnyArray::copy_to(const AnyArray& target) const {
  const Impl& from = impl();
  const Impl& to = target.impl();
  if (&from == &to) return;
  if (from.type != to.type || !std::ranges::equal(from.layout.shape(), to.layout.shape()))
    throw Error(SKERRY_ERR_INVALID, "cannot copy " + describe(from) + " to " + describe(to) +
                                        ": type and shape must be the same");
  if (from.group.get() != to.group.get())
    throw Error(SKERRY_ERR_INVALID,
                "cannot copy between arrays of different groups: make both over the same group");
  const Group& scope = from.mirrored() && to.mirrored() ? from.node_group : from.group;
  scope.sync();
  if (const auto* own = to.own())
    get(own->patch, own->data,
        std::span(own->strides.data(), static_cast<std::size_t>(own->patch.dims)));
  scope.sync();
}

}  // namespace v0
}  // namespace sk
