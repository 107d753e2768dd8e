// Random streams of operations against a naive model of memory.
//
// Every origin (a user thread of a rank) owns a *stripe* of every rank's slice. Operations of one
// origin on one target take effect in issue order, so the origin's own model says exactly what a
// get returns and what the target holds at a sync. That holds for blocking and non-blocking,
// contiguous, strided and vector operations. A shared area takes commutative operations of all
// ranks; its sums are known after a reduction. Typed zones hold small whole numbers, so that every
// sum is exact.
//
// Buffers are overwritten as soon as the operation claims source done; get buffers are compared
// whole, gaps included.
#include <algorithm>
#include <memory>
#include <thread>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int type_count = 6;
constexpr uint64_t element_bytes(int type) {
  return type == SKERRY_INT32 || type == SKERRY_FLOAT ? 4 : type == SKERRY_COMPLEX_DOUBLE ? 16 : 8;
}
constexpr uint64_t part_bytes(int type) {
  return type == SKERRY_COMPLEX_FLOAT ? 4 : type == SKERRY_COMPLEX_DOUBLE ? 8 : element_bytes(type);
}
constexpr bool is_complex(int type) { return type >= SKERRY_COMPLEX_FLOAT; }

struct Layout {
  uint64_t raw_bytes;            // of the raw zone of a stripe: unaligned bytes, only put and get
  uint64_t zone_bytes = 24576;   // of each typed zone
  uint64_t shared_bytes = 4096;  // per type, at the slice's end; then 64 bytes of words
  int origins = 1;

  uint64_t stripe_bytes() const { return raw_bytes + type_count * zone_bytes; }
  uint64_t stripe(int origin) const { return static_cast<uint64_t>(origin) * stripe_bytes(); }
  uint64_t zone(int type) const { return raw_bytes + static_cast<uint64_t>(type) * zone_bytes; }
  uint64_t shared(int type) const {
    return stripe(origins) + static_cast<uint64_t>(type) * shared_bytes;
  }
  uint64_t words() const { return shared(type_count); }
  uint64_t slice_bytes() const { return words() + 64; }
};

template <class T>
void put_part(std::byte* at, int64_t value) {
  const T number = static_cast<T>(value);
  std::memcpy(at, &number, sizeof number);
}
// One part (real or imaginary, or the whole number) of an element.
void set_part(int type, std::byte* at, int64_t value) {
  switch (type) {
    case SKERRY_INT32: return put_part<int32_t>(at, value);
    case SKERRY_INT64: return put_part<int64_t>(at, value);
    case SKERRY_FLOAT:
    case SKERRY_COMPLEX_FLOAT: return put_part<float>(at, value);
    default: return put_part<double>(at, value);
  }
}
int64_t get_part(int type, const std::byte* at) {
  const auto read = [&](auto number) {
    std::memcpy(&number, at, sizeof number);
    return static_cast<int64_t>(number);
  };
  switch (type) {
    case SKERRY_INT32: return read(int32_t{});
    case SKERRY_INT64: return read(int64_t{});
    case SKERRY_FLOAT:
    case SKERRY_COMPLEX_FLOAT: return read(float{});
    default: return read(double{});
  }
}

struct Scale {
  bool given = false;
  int64_t real = 1, imaginary = 0;
  std::byte value[16]{};
};
Scale random_scale(Random& random, int type) {
  Scale scale;
  scale.given = chance(random, 60);
  if (!scale.given) return scale;
  scale.real = static_cast<int64_t>(below(random, 7)) - 3;
  set_part(type, scale.value, scale.real);
  if (is_complex(type)) {
    scale.imaginary = static_cast<int64_t>(below(random, 5)) - 2;
    set_part(type, scale.value + part_bytes(type), scale.imaginary);
  }
  return scale;
}

// target += scale * origin, one element, the simple way.
void naive_acc(int type, const Scale& scale, std::byte* target, const std::byte* origin) {
  const uint64_t part = part_bytes(type);
  const int64_t a = get_part(type, origin);
  if (!is_complex(type)) return set_part(type, target, get_part(type, target) + scale.real * a);
  const int64_t b = get_part(type, origin + part);
  set_part(type, target, get_part(type, target) + scale.real * a - scale.imaginary * b);
  set_part(type, target + part,
           get_part(type, target + part) + scale.real * b + scale.imaginary * a);
}

enum class Verb { put, get, acc };

// One transfer, drawn at random: a list of blocks, and the same said to Skerry in one of three
// forms.
struct Block {
  uint64_t origin;  // in the buffer
  uint64_t target;  // in the zone
  uint64_t bytes;
};
struct Transfer {
  enum class Form { contiguous, strided, vector } form = Form::contiguous;
  std::vector<Block> blocks;  // in the order of the indices
  skerry_strided shape{};
  uint64_t origin_at = 0;  // of the first block
  uint64_t target_at = 0;
  uint64_t buffer_bytes = 0;
};

// Strides that keep blocks apart: each level steps over everything below it, and a little more;
// some go backwards.
struct Strides {
  int64_t stride[SKERRY_MAX_LEVELS];
  uint64_t first = 0;   // where the first block lies when the lowest byte is 0
  uint64_t extent = 0;  // bytes from the lowest to the highest
};
Strides draw_strides(Random& random, const std::vector<int>& order, const skerry_strided& shape,
                     uint64_t unit, bool may_repeat) {
  Strides made;
  made.extent = shape.block_bytes;
  for (const int level : order) {
    const uint64_t count = shape.count[level];
    if (may_repeat && chance(random, 15)) {
      made.stride[level] = 0;
      continue;
    }
    const uint64_t step = made.extent + unit * below(random, 4);
    const bool backwards = chance(random, 30);
    made.stride[level] = backwards ? -static_cast<int64_t>(step) : static_cast<int64_t>(step);
    if (count > 0) {
      if (backwards) made.first += step * (count - 1);
      made.extent += step * (count - 1);
    }
  }
  return made;
}

void list_blocks(const skerry_strided& shape, uint64_t origin, uint64_t target,
                 std::vector<Block>* blocks) {
  uint64_t index[SKERRY_MAX_LEVELS] = {};
  for (int k = 0; k < shape.levels; ++k)
    if (shape.count[k] == 0) return;
  if (shape.block_bytes == 0) return;
  for (;;) {
    uint64_t o = origin, t = target;
    for (int k = 0; k < shape.levels; ++k) {
      o += index[k] * static_cast<uint64_t>(shape.origin_stride[k]);
      t += index[k] * static_cast<uint64_t>(shape.target_stride[k]);
    }
    blocks->push_back({o, t, shape.block_bytes});
    int k = 0;
    while (k < shape.levels && ++index[k] == shape.count[k]) index[k++] = 0;
    if (k == shape.levels) return;
  }
}

// unit: bytes per element (1: raw bytes). Everything stays within zone_bytes of the zone.
Transfer draw_transfer(Random& random, Verb verb, uint64_t unit, uint64_t zone_bytes) {
  Transfer t;
  const unsigned kind = static_cast<unsigned>(below(random, 100));
  if (kind < 45) {
    // Contiguous; sizes around what separates the paths come up often.
    uint64_t bytes = 0;
    switch (below(random, 6)) {
      case 0: bytes = unit * below(random, 9); break;
      case 1: bytes = unit * (1 + below(random, 64)); break;
      case 2: bytes = 65536 - 2 * unit + unit * below(random, 5); break;
      case 3: bytes = unit == 1 ? below(random, zone_bytes) : unit * below(random, 512); break;
      case 4: bytes = below(random, zone_bytes / unit + 1) * unit; break;
      case 5: bytes = 8; break;
    }
    bytes = std::min(bytes, zone_bytes) / unit * unit;
    t.origin_at = below(random, 5) * (unit == 1 ? 1 : 8);
    t.target_at = below(random, (zone_bytes - bytes) / unit + 1) * unit;
    t.buffer_bytes = t.origin_at + bytes + 8;
    if (bytes > 0) t.blocks.push_back({t.origin_at, t.target_at, bytes});
    t.shape.block_bytes = bytes;
    if (chance(random, 15)) t.form = Transfer::Form::strided;  // strided with no levels
    return t;
  }
  if (kind < 80) {
    t.form = Transfer::Form::strided;
    skerry_strided& s = t.shape;
    Strides origin, target;
    for (;;) {
      s = {};
      s.levels = chance(random, 20) ? SKERRY_MAX_LEVELS : static_cast<int32_t>(below(random, 4));
      s.block_bytes = unit *
                      (chance(random, 3) ? 0 : 1 + below(random, chance(random, 30) ? 256 : 8));
      for (int k = 0; k < s.levels; ++k)
        s.count[k] = chance(random, 2) ? 0
                                       : 1 + below(random, s.levels == SKERRY_MAX_LEVELS ? 2 : 12);
      std::vector<int> order;
      for (int k = 0; k < s.levels; ++k) order.push_back(k);
      std::shuffle(order.begin(), order.end(), random);
      origin = draw_strides(random, order, s, unit, verb != Verb::get);
      target = draw_strides(random, order, s, unit, verb != Verb::put);
      if (target.extent <= zone_bytes) break;
    }
    for (int k = 0; k < s.levels; ++k) {
      s.origin_stride[k] = origin.stride[k];
      s.target_stride[k] = target.stride[k];
    }
    const uint64_t lowest = below(random, (zone_bytes - target.extent) / unit + 1) * unit;
    t.target_at = lowest + target.first;
    t.origin_at = origin.first;
    t.buffer_bytes = origin.extent + 16;
    list_blocks(s, t.origin_at, t.target_at, &t.blocks);
    return t;
  }
  t.form = Transfer::Form::vector;
  const uint64_t pieces = chance(random, 5) ? 1500 : below(random, 20);
  uint64_t origin = 0, target = 0;
  const uint64_t largest = std::max<uint64_t>(1, zone_bytes / unit / (pieces + 1) / 2);
  for (uint64_t i = 0; i < pieces; ++i) {
    const uint64_t bytes = unit * below(random, chance(random, 50)
                                                    ? std::min<uint64_t>(largest, 8) + 1
                                                    : largest + 1);
    origin += below(random, 3) * unit;
    target += below(random, 3) * unit;
    if (target + bytes > zone_bytes) break;
    t.blocks.push_back({origin, target, bytes});
    origin += bytes;
    target += bytes;
  }
  std::shuffle(t.blocks.begin(), t.blocks.end(), random);
  t.buffer_bytes = origin + 16;
  return t;
}

struct Outstanding {
  skerry_handle handle = 0;
  bool implicit = false;
  bool is_get = false;
  Bytes buffer;
  Bytes expected;  // get only
  std::string what;
};

class Origin {
 public:
  Origin(Context& context, skerry_segment* segment, const Layout& layout, int id, uint64_t seed)
      : context_(context), segment_(segment), layout_(layout), id_(id), random_(seed) {
    models_.assign(static_cast<size_t>(context.size), Bytes(layout.stripe_bytes()));
    contributions_.assign(static_cast<size_t>(context.size) * type_count * layout.shared_bytes,
                          std::byte{});
    words_.assign(static_cast<size_t>(context.size) * 2, 0);
  }

  void run(int operations) {
    for (int i = 0; i < operations; ++i) {
      step();
      if (outstanding_.size() > 24 || (!outstanding_.empty() && chance(random_, 12)))
        wait_for_one();
      if (chance(random_, 2)) wait_implicit();
      if (chance(random_, 2)) {
        const int rank = any_rank();
        if (chance(random_, 50)) OK(skerry_fence(context_.job, rank));
        else OK(skerry_fence_node(context_.job, context_.node_of(rank)));
      }
    }
    while (!outstanding_.empty() && has_explicit()) wait_for_one();
    wait_implicit();
    EXPECT(outstanding_.empty());
  }

  // Reads every stripe of its own back.
  void read_back() {
    for (int rank = 0; rank < context_.size; ++rank) {
      const Bytes& model = models_[static_cast<size_t>(rank)];
      Bytes seen(model.size());
      OK(skerry_get(segment_, rank, layout_.stripe(id_), seen.data(), seen.size()));
      compare(seen, model, "stripe read back from rank " + std::to_string(rank));
    }
  }

  const Bytes& model(int rank) const { return models_[static_cast<size_t>(rank)]; }
  const std::byte* contribution(int rank, int type) const {
    return contributions_.data() +
           (static_cast<size_t>(rank) * type_count + static_cast<size_t>(type)) *
               layout_.shared_bytes;
  }
  int64_t words(int rank, int which) const {
    return words_[static_cast<size_t>(rank) * 2 + static_cast<size_t>(which)];
  }

 private:
  int any_rank() { return static_cast<int>(below(random_, static_cast<uint64_t>(context_.size))); }
  bool has_explicit() const {
    return std::any_of(outstanding_.begin(), outstanding_.end(),
                       [](const Outstanding& o) { return !o.implicit; });
  }

  void compare(const Bytes& seen, const Bytes& wanted, const std::string& what) const {
    if (seen.size() == wanted.size() &&
        (seen.empty() || std::memcmp(seen.data(), wanted.data(), seen.size()) == 0))
      return;
    size_t at = 0, wrong = 0;
    for (size_t i = seen.size(); i > 0; --i)
      if (seen[i - 1] != wanted[i - 1]) {
        at = i - 1;
        ++wrong;
      }
    fail(__FILE__, __LINE__,
         "seed " + std::to_string(context_.seed) + ", rank " + std::to_string(context_.rank) +
             ", origin " + std::to_string(id_) + ", " + what + ": " + std::to_string(wrong) +
             " of " + std::to_string(seen.size()) + " bytes differ, first at " +
             std::to_string(at) + ": " + std::to_string(static_cast<int>(seen[at])) +
             " instead of " + std::to_string(static_cast<int>(wanted[at])));
  }

  void finish(Outstanding& done) {
    if (done.is_get) compare(done.buffer, done.expected, done.what);
    else
      std::fill(done.buffer.begin(), done.buffer.end(),
                std::byte{0xee});  // source done: it may be reused
  }

  void wait_for_one() {
    std::vector<size_t> explicit_ones;
    for (size_t i = 0; i < outstanding_.size(); ++i)
      if (!outstanding_[i].implicit) explicit_ones.push_back(i);
    if (explicit_ones.empty()) return wait_implicit();
    const size_t at = explicit_ones[below(random_, explicit_ones.size())];
    Outstanding& chosen = outstanding_[at];
    if (chance(random_, 40)) {
      int done = 0;
      for (int i = 0; i < 3 && done == 0; ++i) OK(skerry_test(context_.job, &chosen.handle, &done));
      if (done == 0) OK(skerry_wait(context_.job, &chosen.handle));
    } else {
      OK(skerry_wait(context_.job, &chosen.handle));
    }
    EXPECT(chosen.handle == 0);
    finish(chosen);
    std::swap(chosen, outstanding_.back());
    outstanding_.pop_back();
  }

  void wait_implicit() {
    OK(skerry_wait_implicit(context_.job));
    for (size_t i = 0; i < outstanding_.size();) {
      if (!outstanding_[i].implicit) {
        ++i;
        continue;
      }
      finish(outstanding_[i]);
      std::swap(outstanding_[i], outstanding_.back());
      outstanding_.pop_back();
    }
  }

  void step() {
    const uint64_t dice = below(random_, 100);
    if (dice < 70) transfer();
    else if (dice < 80) word();
    else if (dice < 85) notify();
    else if (dice < 93) shared_accumulate();
    else shared_word();
  }

  void transfer() {
    const int rank = any_rank();
    const bool raw = chance(random_, 40);
    const int type = static_cast<int>(below(random_, type_count));
    const Verb verb = raw ? (chance(random_, 50) ? Verb::put : Verb::get)
                          : static_cast<Verb>(below(random_, 3));
    const uint64_t unit = raw ? 1 : element_bytes(type);
    const uint64_t zone = raw ? 0 : layout_.zone(type);
    const Transfer t = draw_transfer(random_, verb, unit,
                                     raw ? layout_.raw_bytes : layout_.zone_bytes);
    Bytes& model = models_[static_cast<size_t>(rank)];
    Outstanding o;
    o.is_get = verb == Verb::get;
    o.buffer.resize(t.buffer_bytes);
    fill(raw ? -1 : type, o.buffer);
    const Scale scale = random_scale(random_, type);
    o.what = std::string(verb == Verb::put   ? "put"
                         : verb == Verb::get ? "get"
                                             : "acc") +
             " form " + std::to_string(static_cast<int>(t.form)) + " zone " +
             (raw ? std::string("raw") : std::to_string(type)) + " on rank " +
             std::to_string(rank) + " of " + std::to_string(t.blocks.size()) + " blocks";
    // The model first: an operation takes effect in issue order.
    if (verb == Verb::get) o.expected = o.buffer;
    for (const Block& b : t.blocks) {
      std::byte* const target = model.data() + zone + b.target;
      if (verb == Verb::put) std::memcpy(target, o.buffer.data() + b.origin, b.bytes);
      else if (verb == Verb::get) std::memcpy(o.expected.data() + b.origin, target, b.bytes);
      else
        for (uint64_t at = 0; at < b.bytes; at += unit)
          naive_acc(type, scale, target + at, o.buffer.data() + b.origin + at);
    }
    const uint64_t base = layout_.stripe(id_) + zone;
    const int mode = static_cast<int>(below(random_, 3));
    o.implicit = mode == 2;
    skerry_handle* const handle = mode == 1 ? &o.handle : SKERRY_IMPLICIT;
    const void* const scale_value = scale.given ? scale.value : nullptr;
    std::byte* const buffer = o.buffer.data() + t.origin_at;
    const uint64_t offset = base + t.target_at;
    const uint64_t count = t.shape.block_bytes / unit;
    switch (t.form) {
      case Transfer::Form::contiguous:
        if (verb == Verb::put)
          OK(mode == 0
                 ? skerry_put(segment_, rank, offset, buffer, t.shape.block_bytes)
                 : skerry_put_nb(segment_, rank, offset, buffer, t.shape.block_bytes, handle));
        else if (verb == Verb::get)
          OK(mode == 0
                 ? skerry_get(segment_, rank, offset, buffer, t.shape.block_bytes)
                 : skerry_get_nb(segment_, rank, offset, buffer, t.shape.block_bytes, handle));
        else
          OK(mode == 0
                 ? skerry_acc(segment_, rank, offset, type, scale_value, buffer, count)
                 : skerry_acc_nb(segment_, rank, offset, type, scale_value, buffer, count, handle));
        break;
      case Transfer::Form::strided: {
        skerry_strided shape = t.shape;
        if (verb == Verb::put)
          OK(mode == 0 ? skerry_put_strided(segment_, rank, offset, buffer, &shape)
                       : skerry_put_strided_nb(segment_, rank, offset, buffer, &shape, handle));
        else if (verb == Verb::get)
          OK(mode == 0 ? skerry_get_strided(segment_, rank, offset, buffer, &shape)
                       : skerry_get_strided_nb(segment_, rank, offset, buffer, &shape, handle));
        else
          OK(mode == 0
                 ? skerry_acc_strided(segment_, rank, offset, type, scale_value, buffer, &shape)
                 : skerry_acc_strided_nb(segment_, rank, offset, type, scale_value, buffer, &shape,
                                         handle));
        std::memset(&shape, 0xff, sizeof shape);  // descriptors are copied
        break;
      }
      case Transfer::Form::vector: {
        std::vector<skerry_piece> pieces;
        for (const Block& b : t.blocks)
          pieces.push_back({o.buffer.data() + b.origin, base + b.target, b.bytes});
        const uint64_t n = pieces.size();
        if (verb == Verb::put)
          OK(mode == 0 ? skerry_put_vector(segment_, rank, pieces.data(), n)
                       : skerry_put_vector_nb(segment_, rank, pieces.data(), n, handle));
        else if (verb == Verb::get)
          OK(mode == 0 ? skerry_get_vector(segment_, rank, pieces.data(), n)
                       : skerry_get_vector_nb(segment_, rank, pieces.data(), n, handle));
        else
          OK(mode == 0 ? skerry_acc_vector(segment_, rank, type, scale_value, pieces.data(), n)
                       : skerry_acc_vector_nb(segment_, rank, type, scale_value, pieces.data(), n,
                                              handle));
        if (n > 0) std::memset(static_cast<void*>(pieces.data()), 0xff, n * sizeof(skerry_piece));
        break;
      }
    }
    if (mode == 0) finish(o);
    else outstanding_.push_back(std::move(o));  // moving a vector keeps its buffer where it is
  }

  void fill(int type, Bytes& buffer) {
    if (type < 0) {
      for (auto& b : buffer) b = static_cast<std::byte>(random_());
      return;
    }
    for (uint64_t at = 0; at + part_bytes(type) <= buffer.size(); at += part_bytes(type))
      set_part(type, buffer.data() + at, static_cast<int64_t>(below(random_, 17)) - 8);
  }

  // Read-modify-writes on words of the own stripe: the old value is known.
  void word() {
    const int rank = any_rank();
    Bytes& model = models_[static_cast<size_t>(rank)];
    const int64_t operand = static_cast<int64_t>(below(random_, 9)) - 4;
    const auto on_word = [&](auto zero, int type, auto add, auto swap, auto compare_swap) {
      using T = decltype(zero);
      const uint64_t at = layout_.zone(type) +
                          below(random_, layout_.zone_bytes / sizeof(T)) * sizeof(T);
      const uint64_t offset = layout_.stripe(id_) + at;
      T was, old = 0;
      std::memcpy(&was, model.data() + at, sizeof was);
      T now = was;
      switch (below(random_, 3)) {
        case 0:
          OK(add(segment_, rank, offset, static_cast<T>(operand), &old));
          now = static_cast<T>(was + static_cast<T>(operand));
          break;
        case 1:
          OK(swap(segment_, rank, offset, static_cast<T>(operand), &old));
          now = static_cast<T>(operand);
          break;
        case 2: {
          const T expected = chance(random_, 60) ? was : static_cast<T>(was + 1);
          OK(compare_swap(segment_, rank, offset, expected, static_cast<T>(operand), &old));
          if (expected == was) now = static_cast<T>(operand);
          break;
        }
      }
      if (old != was)
        fail(__FILE__, __LINE__,
             "seed " + std::to_string(context_.seed) + ": a read-modify-write on rank " +
                 std::to_string(rank) + " saw " + std::to_string(old) + ", not " +
                 std::to_string(was));
      std::memcpy(model.data() + at, &now, sizeof now);
    };
    if (chance(random_, 50))
      on_word(int64_t{}, SKERRY_INT64, skerry_fetch_add_i64, skerry_swap_i64,
              skerry_compare_swap_i64);
    else
      on_word(int32_t{}, SKERRY_INT32, skerry_fetch_add_i32, skerry_swap_i32,
              skerry_compare_swap_i32);
  }

  void notify() {
    const int rank = any_rank();
    Bytes& model = models_[static_cast<size_t>(rank)];
    const uint64_t bytes = chance(random_, 15) ? below(random_, layout_.raw_bytes)
                                               : below(random_, 200);
    const uint64_t at = below(random_, layout_.raw_bytes - bytes + 1);
    const uint64_t counter = layout_.zone(SKERRY_INT64) +
                             below(random_, layout_.zone_bytes / 8) * 8;
    Bytes data(bytes);
    fill(-1, data);
    if (bytes > 0) std::memcpy(model.data() + at, data.data(), bytes);
    set_part(SKERRY_INT64, model.data() + counter,
             get_part(SKERRY_INT64, model.data() + counter) + 3);
    OK(skerry_put_notify(segment_, rank, layout_.stripe(id_) + at, data.data(), bytes,
                         layout_.stripe(id_) + counter, 3));
    std::fill(data.begin(), data.end(), std::byte{0xee});
  }

  void shared_accumulate() {
    const int rank = any_rank();
    const int type = static_cast<int>(below(random_, type_count));
    const uint64_t unit = element_bytes(type);
    const uint64_t first = below(random_, layout_.shared_bytes / unit);
    const uint64_t count = 1 + below(random_, layout_.shared_bytes / unit - first);
    Bytes data(count * unit);
    fill(type, data);
    const Scale scale = random_scale(random_, type);
    std::byte* const sums = contributions_.data() +
                            (static_cast<size_t>(rank) * type_count + static_cast<size_t>(type)) *
                                layout_.shared_bytes;
    for (uint64_t i = 0; i < count; ++i)
      naive_acc(type, scale, sums + (first + i) * unit, data.data() + i * unit);
    OK(skerry_acc(segment_, rank, layout_.shared(type) + first * unit, type,
                  scale.given ? scale.value : nullptr, data.data(), count));
  }

  void shared_word() {
    const int rank = any_rank();
    const int64_t add = static_cast<int64_t>(below(random_, 100));
    if (chance(random_, 50)) {
      int64_t old = 0;
      OK(skerry_fetch_add_i64(segment_, rank, layout_.words(), add, &old));
      words_[static_cast<size_t>(rank) * 2] += add;
    } else {
      int32_t old = 0;
      OK(skerry_fetch_add_i32(segment_, rank, layout_.words() + 12, static_cast<int32_t>(add),
                              &old));
      words_[static_cast<size_t>(rank) * 2 + 1] += add;
    }
  }

  Context& context_;
  skerry_segment* segment_;
  const Layout& layout_;
  const int id_;
  Random random_;
  std::vector<Bytes> models_;   // by rank: the own stripe there
  Bytes contributions_;         // by rank and type: what was added to the shared area
  std::vector<int64_t> words_;  // by rank: what was added to the two shared words
  std::vector<Outstanding> outstanding_;
};

// The check of each owner at a sync: its own slice, read by plain loads.
void check_slices(Context& context, skerry_segment* segment, const Layout& layout,
                  const std::vector<std::unique_ptr<Origin>>& origins) {
  const auto* const mine = static_cast<const std::byte*>(skerry_segment_local(segment));
  const auto hash = [](const std::byte* data, uint64_t bytes) {
    uint64_t h = 14695981039346656037ull;
    for (uint64_t i = 0; i < bytes; ++i)
      h = (h ^ static_cast<uint64_t>(data[i])) * 1099511628211ull;
    return h;
  };
  const size_t size = static_cast<size_t>(context.size), threads = origins.size();
  std::vector<uint64_t> sent(size * threads), all(size * size * threads);
  for (size_t rank = 0; rank < size; ++rank)
    for (size_t k = 0; k < threads; ++k) {
      const auto& model = origins[k]->model(static_cast<int>(rank));
      sent[rank * threads + k] = hash(model.data(), model.size());
    }
  OK(skerry_allgather(context.world(), sent.data(), sent.size() * 8, all.data()));
  for (size_t from = 0; from < size; ++from)
    for (size_t k = 0; k < threads; ++k) {
      const int id = static_cast<int>(from * threads + k);
      if (hash(mine + layout.stripe(id), layout.stripe_bytes()) !=
          all[from * size * threads + static_cast<size_t>(context.rank) * threads + k])
        fail(__FILE__, __LINE__,
             "seed " + std::to_string(context.seed) + ": rank " + std::to_string(context.rank) +
                 " holds something else than origin " + std::to_string(id) + " wrote");
    }
  for (int rank = 0; rank < context.size; ++rank) {
    for (int type = 0; type < type_count; ++type) {
      Bytes sum(layout.shared_bytes);
      const Scale one;
      for (const auto& origin : origins)
        for (uint64_t at = 0; at < sum.size(); at += element_bytes(type))
          naive_acc(type, one, sum.data() + at, origin->contribution(rank, type) + at);
      OK(skerry_reduce(context.world(), type, SKERRY_SUM, sum.data(),
                       sum.size() / element_bytes(type), rank));
      if (rank == context.rank &&
          std::memcmp(sum.data(), mine + layout.shared(type), sum.size()) != 0)
        fail(__FILE__, __LINE__,
             "seed " + std::to_string(context.seed) + ": rank " + std::to_string(rank) +
                 "'s shared area of type " + std::to_string(type) +
                 " is not the sum of what was added");
    }
    int64_t words[2] = {0, 0};
    for (const auto& origin : origins)
      for (int w = 0; w < 2; ++w) words[w] += origin->words(rank, w);
    OK(skerry_reduce(context.world(), SKERRY_INT64, SKERRY_SUM, words, 2, rank));
    if (rank == context.rank) {
      EXPECT_IS(get_part(SKERRY_INT64, mine + layout.words()), words[0]);
      EXPECT_IS(get_part(SKERRY_INT32, mine + layout.words() + 12), words[1]);
    }
  }
}

}  // namespace

void run_stream(Context& context) {
  Layout layout;
  layout.origins = context.size * context.threads;
  layout.raw_bytes = layout.origins <= 2 ? 1'500'001 : layout.origins <= 4 ? 500'001 : 200'001;
  layout.raw_bytes = (layout.raw_bytes + 63) / 64 * 64;
  if (context.rank == 0)
    std::printf("stream: seed %llu\n", static_cast<unsigned long long>(context.seed));
  skerry_segment* segment = nullptr;
  OK(skerry_segment_alloc(context.world(), layout.slice_bytes(), &segment));
  std::vector<std::unique_ptr<Origin>> origins;
  for (int k = 0; k < context.threads; ++k) {
    const int id = context.rank * context.threads + k;
    origins.push_back(std::make_unique<Origin>(context, segment, layout, id,
                                               context.seed * 1000 + static_cast<uint64_t>(id)));
  }
  const int rounds = context.rounds > 0 ? context.rounds : 3;
  for (int round = 0; round < rounds; ++round) {
    const int operations = 600 / layout.origins + 60;
    std::vector<std::thread> threads;
    for (size_t k = 1; k < origins.size(); ++k)
      threads.emplace_back([&, k] { origins[k]->run(operations); });
    origins[0]->run(operations);
    for (auto& thread : threads) thread.join();
    OK(skerry_sync(context.world()));
    check_slices(context, segment, layout, origins);
    for (auto& origin : origins) origin->read_back();
    OK(skerry_barrier(context.world()));
  }
  OK(skerry_segment_free(segment));
}

}  // namespace skerry::test
