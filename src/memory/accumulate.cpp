// Accumulate, update and read-modify-write: everything that happens under a stripe.
#include <algorithm>
#include <cstring>

#include "core/pure/assert.hpp"
#include "core/pure/combine.hpp"
#include "memory/apply.hpp"
#include "memory/copy.hpp"
#include "memory/given.hpp"
#include "memory/kernels.hpp"

namespace skerry::memory {
namespace {

// Holds one stripe over neighbouring pieces of work, so that a strided accumulate of small blocks
// does not lock for every block. Releases it when the work moves to another stripe, or after 4 KiB.
class Holder {
 public:
  Holder(const Stripes& stripes, Patience patience) : stripes_(stripes), patience_(patience) {}
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  ~Holder() { release(); }

  LockResult acquire(uint32_t index, uint64_t bytes) {
    if (held_ && index == index_ && work_bytes_ + bytes <= stripe_bytes) {
      work_bytes_ += bytes;
      return LockResult::locked;
    }
    release();
    const LockResult result = stripes_.lock(index, patience_);
    held_ = result == LockResult::locked;
    index_ = index;
    work_bytes_ = bytes;
    return result;
  }
  void release() {
    if (held_) stripes_.unlock(index_);
    held_ = false;
  }

 private:
  const Stripes& stripes_;
  const Patience patience_;
  bool held_ = false;
  uint32_t index_ = 0;       // meaningful while held_
  uint64_t work_bytes_ = 0;  // done since index_ was locked
};

struct Job {
  const Region& region;
  const Update& what;
  const Stripes& stripes;
  Patience patience;
  std::byte* const old;  // where the elements before the change go; null: nowhere
  Kernel kernel = kernel_for(what);
  Holder holder{stripes, patience};

  // Under the stripe. `done`: bytes of the stream before these.
  Status change(uint64_t offset, const std::byte* origin, uint64_t bytes, uint64_t done) const {
    if (region.kind == Kind::given) [[unlikely]]
      return change_given(offset, origin, bytes, done);
    if (old != nullptr) copy<Shared::from>(old + done, region.base + offset, bytes);
    kernel(region.base + offset, origin, bytes, what.scale);
    return {};
  }
  // On a copy: the stripe keeps all other changes out.
  Status change_given(uint64_t offset, const std::byte* origin, uint64_t bytes,
                      uint64_t done) const {
    alignas(64) std::byte copied[stripe_bytes];
    SKERRY_TRY(region.given->read(copied, offset, bytes));
    if (old != nullptr) std::memcpy(old + done, copied, bytes);
    if (what.operation == Operation::no_op) return {};
    kernel(copied, origin, bytes, what.scale);
    return region.given->write(offset, copied, bytes);
  }

  // A complex element, or a short block, that begins in one stripe and ends in the next: the only
  // work under two. The one exception to "one at a time". Both are locked in ascending order, so it
  // cannot deadlock.
  LockResult straddling(uint64_t offset, const std::byte* origin, uint64_t bytes, uint64_t done,
                        uint32_t* stripe, Status* failure) {
    holder.release();
    const uint32_t a = stripe_index(region.seed, offset);
    const uint32_t b = stripe_index(region.seed, offset + stripe_bytes);
    const uint32_t low = std::min(a, b);
    const uint32_t high = std::max(a, b);
    *stripe = low;
    LockResult result = stripes.lock(low, patience);
    if (result != LockResult::locked) return result;
    *stripe = high;
    result = stripes.lock(high, patience);
    if (result == LockResult::locked) {
      *failure = change(offset, origin, bytes, done);
      stripes.unlock(high);
    }
    stripes.unlock(low);
    return result;
  }

  // One contiguous block. False: applied->result says why, applied->bytes counts what was done.
  bool block(uint64_t offset, const std::byte* origin, uint64_t bytes, Applied* applied) {
    const uint64_t element = element_bytes(what.type);
    while (bytes > 0) {
      const uint64_t in_stripe = std::min(bytes, stripe_bytes - offset % stripe_bytes);
      uint64_t now = in_stripe & ~(element - 1);  // element sizes are powers of two
      if (bytes <= whole_bytes && in_stripe < bytes) [[unlikely]]
        now = 0;
      LockResult result;
      if (now == 0) [[unlikely]] {
        now = bytes <= whole_bytes ? bytes : element;
        result = straddling(offset, origin, now, applied->bytes, &applied->stripe,
                            &applied->failure);
      } else {
        applied->stripe = stripe_index(region.seed, offset);
        result = holder.acquire(applied->stripe, now);
        if (result == LockResult::locked)
          applied->failure = change(offset, origin, now, applied->bytes);
        if (region.kind == Kind::given) [[unlikely]]
          holder.release();  // each piece costs system calls: others get the stripe in between
      }
      applied->result = result;
      if (!applied->ok()) return false;
      offset += now;
      origin += now;
      bytes -= now;
      applied->bytes += now;
    }
    return true;
  }
};

template <class Word>
uint64_t modify(std::byte* address, const Rmw& what) {
  auto* word = reinterpret_cast<Word*>(address);
  // The stripe excludes all other writers but puts. The accesses are atomic all the same: a get
  // that polls the word must not see half of it.
  const Word before = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  switch (what.op) {
    case RmwOp::fetch_add:
      __atomic_store_n(word, static_cast<Word>(before + static_cast<Word>(what.operand)),
                       __ATOMIC_RELEASE);
      break;
    case RmwOp::swap:
      __atomic_store_n(word, static_cast<Word>(what.operand), __ATOMIC_RELEASE);
      break;
    case RmwOp::compare_swap:
      if (before == static_cast<Word>(what.expected))
        __atomic_store_n(word, static_cast<Word>(what.operand), __ATOMIC_RELEASE);
      break;
  }
  return before;
}

// Of a word of Kind::lock_words.
uint64_t modify_lock_word(std::byte* address, const Rmw& what) {
  auto* word = reinterpret_cast<uint64_t*>(address);
  uint64_t before = what.expected;
  switch (what.op) {
    case RmwOp::fetch_add: return __atomic_fetch_add(word, what.operand, __ATOMIC_SEQ_CST);
    case RmwOp::swap: return __atomic_exchange_n(word, what.operand, __ATOMIC_SEQ_CST);
    case RmwOp::compare_swap:
      (void)__atomic_compare_exchange_n(word, &before, what.operand, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST);
      break;
  }
  return before;
}

uint64_t modify_word(std::byte* word, const Rmw& what) {
  switch (what.word_bytes) {
    case 8: return modify<uint64_t>(word, what);
    case 4: return modify<uint32_t>(word, what);
    case 2: return modify<uint16_t>(word, what);
    default: return modify<uint8_t>(word, what);
  }
}

Status modify_given(const Region& region, uint64_t offset, const Rmw& what, uint64_t* old) {
  alignas(8) std::byte copied[8];
  SKERRY_TRY(region.given->read(copied, offset, what.word_bytes));
  *old = modify_word(copied, what);
  return region.given->write(offset, copied, what.word_bytes);
}

}  // namespace

Scale Scale::one() {
  Scale scale{};
  scale.is_one = true;
  return scale;
}

Scale Scale::of(ElementType type, const void* value) {
  if (value == nullptr) return one();
  Scale scale{};
  std::memcpy(scale.value, value, element_bytes(type));
  scale.is_one = with_type(type, [&scale]<class T>() {
    T number;
    std::memcpy(&number, scale.value, sizeof number);
    const T one{1};
    if constexpr (std::is_same_v<T, long double>) return number == one;  // its padding: anything
    else return std::memcmp(&number, &one, sizeof number) == 0;
  });
  return scale;
}

Applied accumulate(const Region& region, uint64_t offset, const std::byte* origin, uint64_t bytes,
                   const Update& what, const Stripes& stripes, Patience patience, std::byte* old) {
  Applied applied;
  order_before_put();
  Job{region, what, stripes, patience, old}.block(offset, origin, bytes, &applied);
  order_after_get();
  return applied;
}

namespace {

template <class T>
void add_one(std::byte* target, const void* origin, const void* scale) {
  T x, a = T{1}, sum;
  std::memcpy(&x, origin, sizeof x);
  if (scale != nullptr) std::memcpy(&a, scale, sizeof a);
  // Atomic accesses, so that a get that polls the element does not see half of it.
  auto* const at = reinterpret_cast<T*>(target);
  __atomic_load(at, &sum, __ATOMIC_RELAXED);
  sum = wrapped_add(sum, wrapped_multiply(a, x));
  __atomic_store(at, &sum, __ATOMIC_RELEASE);
}

}  // namespace

LockResult accumulate_one(const Region& region, uint64_t offset, const void* origin,
                          ElementType type, const void* scale, const Stripes& stripes) {
  const uint32_t stripe = stripe_index(region.seed, offset);
  const LockResult result = stripes.lock(stripe, Patience::wait);
  if (result != LockResult::locked) [[unlikely]]
    return result;
  std::byte* const target = region.base + offset;
  switch (type) {
    case ElementType::int8:
    case ElementType::uint8: add_one<uint8_t>(target, origin, scale); break;
    case ElementType::int16:
    case ElementType::uint16: add_one<uint16_t>(target, origin, scale); break;
    case ElementType::int32:
    case ElementType::uint32: add_one<uint32_t>(target, origin, scale); break;
    case ElementType::int64:
    case ElementType::uint64: add_one<uint64_t>(target, origin, scale); break;
    case ElementType::float32: add_one<float>(target, origin, scale); break;
    case ElementType::float64: add_one<double>(target, origin, scale); break;
    case ElementType::complex_float:
    case ElementType::complex_double:
    case ElementType::long_double:
      SKERRY_ASSERT(false, "elements longer than a word go the general way");
      break;
  }
  stripes.unlock(stripe);
  return result;
}

LockResult update_one(const Region& region, uint64_t offset, const void* origin, ElementType type,
                      Operation operation, void* old, const Stripes& stripes) {
  const OneKernel change = one_kernel_for(type, operation);
  const uint32_t stripe = stripe_index(region.seed, offset);
  const LockResult result = stripes.lock(stripe, Patience::wait);
  if (result != LockResult::locked) [[unlikely]]
    return result;
  change(region.base + offset, origin, old);
  stripes.unlock(stripe);
  return result;
}

Applied accumulate_strided(const Region& region, uint64_t offset, const Shape& target_shape,
                           const std::byte* origin, const Shape& origin_shape, const Update& what,
                           const Stripes& stripes) {
  Applied applied;
  uint64_t total = 0;
  if (!stream_bytes(target_shape, &total) || total == 0) return applied;
  Shape target = target_shape;
  Shape source = origin_shape;
  coalesce(&target, &source);
  order_before_put();
  Job job{region, what, stripes, Patience::wait, nullptr};
  Odometer odometer;
  int64_t to = static_cast<int64_t>(offset), from = 0;
  while (job.block(static_cast<uint64_t>(to), origin + from, target.block_bytes, &applied) &&
         odometer.step(target, &to, source, &from)) {
  }
  return applied;
}

Applied Cursor::accumulate(const Region& region, uint64_t first, std::span<const std::byte> stream,
                           const Update& what, const Stripes& stripes, Patience patience,
                           std::byte* old) {
  Applied applied;
  const uint64_t start = position_;
  order_before_put();
  {
    Job job{region, what, stripes, patience, old};
    while (applied.bytes < stream.size() && applied.ok()) {
      const Run run = next_run(stream.size() - applied.bytes);
      for (uint64_t i = 0; i < run.blocks; ++i) {
        const int64_t offset = static_cast<int64_t>(first) + run.offset +
                               static_cast<int64_t>(i) * run.stride;
        if (!job.block(static_cast<uint64_t>(offset), stream.data() + applied.bytes,
                       run.block_bytes, &applied))
          break;
      }
    }
  }
  order_after_get();
  if (!applied.ok()) seek(start + applied.bytes);  // next_run was ahead of what could be done
  return applied;
}

LockResult rmw(const Region& region, uint64_t offset, const Rmw& what, const Stripes& stripes,
               Patience patience, uint64_t* old, Status* failure) {
  if (region.kind == Kind::lock_words && what.word_bytes == 8) [[unlikely]] {
    *old = modify_lock_word(region.base + offset, what);
    return LockResult::locked;
  }
  const uint32_t stripe = stripe_index(region.seed, offset);
  const LockResult result = stripes.lock(stripe, patience);
  if (result != LockResult::locked) [[unlikely]]
    return result;
  if (region.kind == Kind::given) [[unlikely]]
    *failure = modify_given(region, offset, what, old);
  else *old = modify_word(region.base + offset, what);
  stripes.unlock(stripe);
  return result;
}

}  // namespace skerry::memory
