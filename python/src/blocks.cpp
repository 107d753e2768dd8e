// Memory of NumPy's arrays in a program that uses skerry.numpy: aligned to a line of the cache, and
// kept when an array goes.
//
// NumPy aligns arrays to 16 bytes. A vector of 32 or 64 bytes that is stored across two lines of
// the cache takes twice as long. And the kernel would map and clear fresh pages for each large
// result, which takes longer than an addition.
//
// NumPy asks a *handler* for the memory of an array (NEP 49). It calls it with the interpreter
// lock, which guards the list of blocks. A handler is a context variable: it is that of the thread
// that imports skerry.xp, and other threads have NumPy's own. Each array keeps the one it has its
// memory from.
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "binding.hpp"

namespace skpy {
namespace blocks {
namespace {

// As in NumPy's binary interface since 1.22.
struct Allocator {
  void* context;
  void* (*malloc)(void*, std::size_t);
  void* (*calloc)(void*, std::size_t, std::size_t);
  void* (*realloc)(void*, void*, std::size_t);
  void (*free)(void*, void*, std::size_t);
};
struct Handler {
  char name[127];
  std::uint8_t version;
  Allocator allocator;
};
constexpr int kSetHandler = 304, kGetHandler = 305;  // places in NumPy's table of functions

constexpr std::size_t kLine = 64;
constexpr std::size_t kLeast = 8 << 10;  // bytes: less comes from the C library's own pools
constexpr std::size_t kMost = 32 << 20;  // bytes of one block
// Bytes of all that are kept: 192 MiB, and with a rank on each core a 16th of the machine's memory.
const std::size_t kMostKept = [] {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE),
             cores = sysconf(_SC_NPROCESSORS_ONLN);
  const long share = pages / (16 * std::max(1L, cores)) * page;
  return std::min<std::size_t>(192 << 20, static_cast<std::size_t>(std::max(0L, share)));
}();
constexpr std::size_t kMostCleared = 1 << 20;  // bytes: larger zeros are pages the kernel clears
constexpr std::size_t kHuge = 4 << 20;         // bytes from which NumPy asks for huge pages

struct Block {
  void* memory;
  std::size_t bytes;
};
std::array<Block, 16> kept;  // the one that went last is the last, and likeliest in a cache
std::size_t kept_count = 0, kept_bytes = 0;

void* take_at(std::size_t place) {
  void* const memory = kept[place].memory;
  kept_bytes -= kept[place].bytes;
  std::copy(kept.begin() + place + 1, kept.begin() + kept_count, kept.begin() + place);
  --kept_count;
  return memory;
}

// A kept block of these bytes, and at most an eighth more. Null: there is none.
void* take(std::size_t bytes) {
  for (std::size_t place = kept_count; place-- > 0;)
    if (kept[place].bytes >= bytes && kept[place].bytes - bytes <= bytes / 8)
      return take_at(place);
  return nullptr;
}

// What `allocate` gives. If there is no memory, the kept blocks go, and it tries again.
template <class Allocate>
void* tried(std::size_t bytes, Allocate&& allocate) {
  void* memory = allocate();
  if (!memory && kept_count > 0) {
    while (kept_count > 0) std::free(take_at(0));
    memory = allocate();
  }
  if (memory && bytes >= kHuge) {
    constexpr std::uintptr_t page = 4096;
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(memory),
                         first = (begin + page - 1) / page * page;
    // Advice: without huge pages it stays as it is.
    (void)madvise(reinterpret_cast<void*>(first), bytes - (first - begin), MADV_HUGEPAGE);
  }
  return memory;
}

// All blocks are the C library's. (NumPy's own handler may have them from Python, since 2.5.)

void* get(void*, std::size_t bytes) {
  if (bytes < kLeast)
    return tried(bytes, [=] { return std::malloc(std::max<std::size_t>(bytes, 1)); });
  void* const memory = take(bytes);
  const std::size_t lines = (bytes + kLine - 1) / kLine * kLine;
  return memory ? memory : tried(bytes, [=] { return std::aligned_alloc(kLine, lines); });
}

void* get_zeros(void* context, std::size_t count, std::size_t size) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  void* memory = bytes < kLeast ? nullptr : take(bytes);
  if (!memory && (bytes < kLeast || bytes > kMostCleared))
    return tried(bytes, [=] { return std::calloc(std::max<std::size_t>(bytes, 1), 1); });
  if (!memory) memory = get(context, bytes);
  return memory ? std::memset(memory, 0, bytes) : nullptr;
}

void* change(void*, void* memory, std::size_t bytes) {
  return tried(bytes, [=] { return std::realloc(memory, std::max<std::size_t>(bytes, 1)); });
}

void put_back(void*, void* memory, std::size_t bytes) {
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(memory) % kLine == 0;
  // What the array has may be less than the block: its own size tells.
  const std::size_t usable =
      memory && is_aligned && bytes >= kLeast ? malloc_usable_size(memory) : 0;
  if (usable < kLeast || usable > std::min(kMost + kMost / 8, kMostKept)) return std::free(memory);
  while (kept_count == kept.size() || kept_bytes + usable > kMostKept) std::free(take_at(0));
  kept[kept_count++] = {memory, usable};
  kept_bytes += usable;
}

Handler handler = {"skerry", 1, {nullptr, get, get_zeros, change, put_back}};

// xp_blocks(): gives arrays that are made from here on such memory, in the context of the caller.
void give() {
  constexpr const char* capsule_name = "mem_handler";
  nb::object table = nb::module_::import_("numpy._core._multiarray_umath").attr("_ARRAY_API");
  auto** const functions = static_cast<void**>(PyCapsule_GetPointer(table.ptr(), nullptr));
  if (!functions) nb::raise_python_error();
  const auto get_handler = reinterpret_cast<PyObject* (*)()>(functions[kGetHandler]);
  const auto set_handler = reinterpret_cast<PyObject* (*)(PyObject*)>(functions[kSetHandler]);
  nb::object before = nb::steal(get_handler());
  if (!before.is_valid()) nb::raise_python_error();
  auto* const found = static_cast<Handler*>(PyCapsule_GetPointer(before.ptr(), capsule_name));
  if (!found) nb::raise_python_error();
  if (std::strcmp(found->name, "default_allocator") != 0) return;  // ours, or the program's own
  nb::object ours = nb::steal(PyCapsule_New(&handler, capsule_name, nullptr));
  if (!ours.is_valid() || !nb::steal(set_handler(ours.ptr())).is_valid()) nb::raise_python_error();
}

}  // namespace
}  // namespace blocks

void bind_blocks(nb::module_& m) { m.def("xp_blocks", blocks::give); }

}  // namespace skpy
