// update and fetch_update: a random stream against a model, atomicity between ranks, errors.
//
// Every rank owns an area of every rank's slice. Its operations there take effect in issue order,
// so its own model says what each fetching update returns and what the area holds in the end.
#include <algorithm>
#include <complex>
#include <limits>

#include "ops/check.hpp"

namespace skerry::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int type_count = SKERRY_LONG_DOUBLE + 1;
constexpr int operation_count = SKERRY_NO_OP + 1;
constexpr uint64_t area_bytes = 80'000;  // several stripes, and more than a message of them

bool is_complex(int type) { return type == SKERRY_COMPLEX_FLOAT || type == SKERRY_COMPLEX_DOUBLE; }
bool is_floating(int type) {
  return type == SKERRY_FLOAT || type == SKERRY_DOUBLE || type == SKERRY_LONG_DOUBLE ||
         is_complex(type);
}
bool has(int type, int operation) {
  if (operation <= SKERRY_PROD || operation >= SKERRY_REPLACE) return true;
  return operation <= SKERRY_MAX ? !is_complex(type) : !is_floating(type);
}
uint64_t alignment(int type) { return skerry_type_bytes(type) / (is_complex(type) ? 2 : 1); }

// The operations as their names say, for one C++ type.
template <class T>
T naive(int operation, T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    switch (operation) {
      case SKERRY_SUM: return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      case SKERRY_PROD: return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      case SKERRY_LAND: return a != 0 && b != 0 ? 1 : 0;
      case SKERRY_LOR: return a != 0 || b != 0 ? 1 : 0;
      case SKERRY_LXOR: return (a != 0) != (b != 0) ? 1 : 0;
      case SKERRY_BAND: return static_cast<T>(a & b);
      case SKERRY_BOR: return static_cast<T>(a | b);
      case SKERRY_BXOR: return static_cast<T>(a ^ b);
      default: break;
    }
  }
  if constexpr (std::is_arithmetic_v<T>) {
    if (operation == SKERRY_MIN) return b < a ? b : a;
    if (operation == SKERRY_MAX) return a < b ? b : a;
    if (operation == SKERRY_SUM) return static_cast<T>(a + b);
    if (operation == SKERRY_PROD) return static_cast<T>(a * b);
  } else {
    if (operation == SKERRY_SUM) return a + b;
    if (operation == SKERRY_PROD) return a * b;
  }
  return operation == SKERRY_REPLACE ? b : a;
}

template <class T>
void naive_update(int operation, std::byte* target, const std::byte* origin, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, target + i * sizeof(T), sizeof(T));
    std::memcpy(&b, origin + i * sizeof(T), sizeof(T));
    a = naive(operation, a, b);
    std::memcpy(target + i * sizeof(T), &a, sizeof(T));
  }
}

template <class T>
void draw_numbers(Random& random, std::byte* at, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    T value;
    if constexpr (std::is_integral_v<T>)
      value = static_cast<T>(chance(random, 30) ? below(random, 2) : random());
    else value = T(static_cast<float>(below(random, 9)) / 2 - 2);  // sums and products are exact
    std::memset(at + i * sizeof(T), 0, sizeof(T));                 // padding, too
    std::memcpy(at + i * sizeof(T), &value, sizeof(T));
  }
}

struct Type {
  void (*update)(int operation, std::byte* target, const std::byte* origin, uint64_t count);
  void (*draw)(Random& random, std::byte* at, uint64_t count);
};
template <class T>
constexpr Type type_of = {naive_update<T>, draw_numbers<T>};
constexpr Type types[type_count] = {type_of<int32_t>,
                                    type_of<int64_t>,
                                    type_of<float>,
                                    type_of<double>,
                                    type_of<std::complex<float>>,
                                    type_of<std::complex<double>>,
                                    type_of<int8_t>,
                                    type_of<uint8_t>,
                                    type_of<int16_t>,
                                    type_of<uint16_t>,
                                    type_of<uint32_t>,
                                    type_of<uint64_t>,
                                    type_of<long double>};

// The bytes of an element that are its value.
uint64_t value_bytes(int type) {
  return type == SKERRY_LONG_DOUBLE && std::numeric_limits<long double>::digits == 64
             ? 10
             : skerry_type_bytes(type);
}

void compare(int type, const std::byte* seen, const std::byte* wanted, uint64_t count,
             const std::string& what) {
  const uint64_t unit = skerry_type_bytes(type);
  for (uint64_t i = 0; i < count; ++i)
    if (std::memcmp(seen + i * unit, wanted + i * unit, value_bytes(type)) != 0)
      fail(__FILE__, __LINE__,
           what + ": element " + std::to_string(i) + " of " + std::to_string(count) + ", type " +
               std::to_string(type) + ", differs");
}

// One rank's stream. Each type has a part of each of its areas.
class Stream {
 public:
  Stream(Context& c, skerry_segment* segment)
      : c_(c), segment_(segment), random_(c.seed * 77 + static_cast<uint64_t>(c.rank)) {
    models_.assign(static_cast<size_t>(c.size) * type_count, Bytes(area_bytes));
  }

  static uint64_t slice_bytes(const Context& c) {
    return static_cast<uint64_t>(c.size) * type_count * area_bytes;
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      if (pending_.size() > 12 || chance(random_, 10)) finish();
    }
    finish();
  }

  // What the own areas of all slices hold.
  void read_back() {
    for (int rank = 0; rank < c_.size; ++rank)
      for (int type = 0; type < type_count; ++type) {
        Bytes seen(area_bytes);
        OK(skerry_get(segment_, rank, area(type), seen.data(), seen.size()));
        compare(type, seen.data(), model(rank, type).data(), area_bytes / skerry_type_bytes(type),
                "area of rank " + std::to_string(rank));
      }
  }

 private:
  struct Pending {
    skerry_handle handle = 0;
    bool implicit = false;
    int type = 0;
    Bytes origin, result, expected;
    std::byte* result_at = nullptr;  // in `result`; null: not fetched
    std::string what;
  };

  uint64_t area(int type) const {
    return (static_cast<uint64_t>(c_.rank) * type_count + static_cast<uint64_t>(type)) * area_bytes;
  }
  Bytes& model(int rank, int type) {
    return models_[static_cast<size_t>(rank) * type_count + static_cast<size_t>(type)];
  }

  void step() {
    const int rank = static_cast<int>(below(random_, static_cast<uint64_t>(c_.size)));
    const int type = static_cast<int>(below(random_, type_count));
    int operation = 0;
    do operation = static_cast<int>(below(random_, operation_count));
    while (!has(type, operation));
    const uint64_t unit = skerry_type_bytes(type);
    const uint64_t most = area_bytes / unit;
    const uint64_t count = chance(random_, 45)   ? 1
                           : chance(random_, 60) ? below(random_, 40)
                           : chance(random_, 70) ? below(random_, most / 8)
                                                 : below(random_, most + 1);
    const uint64_t room = area_bytes - count * unit;
    const uint64_t offset = below(random_, room / alignment(type) + 1) * alignment(type);
    Pending p;
    p.type = type;
    p.origin.resize(count * unit);
    types[type].draw(random_, p.origin.data(), count);
    Bytes& memory = model(rank, type);
    p.expected.assign(memory.begin() + static_cast<std::ptrdiff_t>(offset),
                      memory.begin() + static_cast<std::ptrdiff_t>(offset + count * unit));
    p.what = "seed " + std::to_string(c_.seed) + ", rank " + std::to_string(c_.rank) +
             ", operation " + std::to_string(operation) + " at " + std::to_string(offset) +
             " of rank " + std::to_string(rank);
    types[type].update(operation, memory.data() + offset, p.origin.data(), count);
    issue(std::move(p), rank, area(type) + offset, operation, count);
  }

  void issue(Pending p, int rank, uint64_t offset, int operation, uint64_t count) {
    const bool fetch = chance(random_, 60), blocking = chance(random_, 50);
    const void* const origin = operation == SKERRY_NO_OP && chance(random_, 50) ? nullptr
                                                                                : p.origin.data();
    p.implicit = chance(random_, 50);
    skerry_handle* const handle = p.implicit ? SKERRY_IMPLICIT : &p.handle;
    if (fetch) {
      p.result.resize(p.origin.size() + 8, std::byte{0xdd});
      std::byte* const result = p.result.data() + below(random_, 2) * 4;  // any alignment
      if (blocking)
        OK(skerry_fetch_update(segment_, rank, offset, p.type, operation, origin, result, count));
      else
        OK(skerry_fetch_update_nb(segment_, rank, offset, p.type, operation, origin, result, count,
                                  handle));
      p.result_at = result;
    } else if (blocking) {
      OK(skerry_update(segment_, rank, offset, p.type, operation, origin, count));
    } else {
      OK(skerry_update_nb(segment_, rank, offset, p.type, operation, origin, count, handle));
    }
    if (blocking) check(p);
    else pending_.push_back(std::move(p));
  }

  void check(Pending& p) const {
    if (p.result_at != nullptr)
      compare(p.type, p.result_at, p.expected.data(), p.expected.size() / skerry_type_bytes(p.type),
              p.what);
    std::fill(p.origin.begin(), p.origin.end(), std::byte{0xee});  // it may be reused
  }

  void finish() {
    std::shuffle(pending_.begin(), pending_.end(), random_);
    for (Pending& p : pending_)
      if (!p.implicit) OK(skerry_wait(c_.job, &p.handle));
    OK(skerry_wait_implicit(c_.job));
    for (Pending& p : pending_) check(p);
    pending_.clear();
  }

  Context& c_;
  skerry_segment* const segment_;
  Random random_;
  std::vector<Bytes> models_;
  std::vector<Pending> pending_;
};

// Every rank replaces one element by numbers of its own, again and again, and gets the one before:
// no number is lost or comes twice. Both parts of the element say the same; it lies in two stripes.
void chain_of_replacements(Context& c, skerry_segment* s) {
  constexpr uint64_t offset = 4096 - 8;
  const int rounds = c.as_threads ? 30 : 150;
  std::vector<double> seen;
  for (int i = 1; i <= rounds; ++i) {
    const double number = c.rank * 1000 + i;
    const std::complex<double> mine(number, -number);
    std::complex<double> old;
    OK(skerry_fetch_update(s, 0, offset, SKERRY_COMPLEX_DOUBLE, SKERRY_REPLACE, &mine, &old, 1));
    EXPECT_IS(old.imag(), -old.real());
    seen.push_back(old.real());
    OK(skerry_fetch_update(s, 0, offset, SKERRY_COMPLEX_DOUBLE, SKERRY_NO_OP, nullptr, &old, 1));
    EXPECT_IS(old.imag(), -old.real());
  }
  OK(skerry_sync(c.world()));
  std::complex<double> last;
  OK(skerry_get(s, 0, offset, &last, sizeof last));
  std::vector<double> all(seen.size() * static_cast<size_t>(c.size));
  OK(skerry_allgather(c.world(), seen.data(), seen.size() * sizeof(double), all.data()));
  all.push_back(last.real());
  std::sort(all.begin(), all.end());
  EXPECT_IS(all[0], 0.0);  // what was there first
  size_t at = 1;
  for (int rank = 0; rank < c.size; ++rank)
    for (int i = 1; i <= rounds; ++i) EXPECT_IS(all[at++], double(rank * 1000 + i));
}

// Updates, accumulates and read-modify-writes of one word, from all ranks: none is lost. Words of
// one byte beside each other do not disturb each other.
void shared_words(Context& c, skerry_segment* s) {
  const int rounds = c.as_threads ? 24 : 120;
  const int64_t one = 1;
  const uint8_t small = 1;
  for (int i = 0; i < rounds; ++i) {
    int64_t old = 0;
    switch (i % 4) {
      case 0: OK(skerry_update(s, 0, 8192, SKERRY_INT64, SKERRY_SUM, &one, 1)); break;
      case 1: OK(skerry_fetch_update(s, 0, 8192, SKERRY_INT64, SKERRY_SUM, &one, &old, 1)); break;
      case 2: OK(skerry_acc(s, 0, 8192, SKERRY_INT64, nullptr, &one, 1)); break;
      case 3: OK(skerry_fetch_add_i64(s, 0, 8192, 1, &old)); break;
    }
    OK(skerry_update(s, 0, 8200 + static_cast<uint64_t>(c.rank) % 8, SKERRY_UINT8, SKERRY_SUM,
                     &small, 1));
    const uint64_t bit = uint64_t{1} << (c.rank % 64);
    OK(skerry_update(s, 0, 8208, SKERRY_UINT64, i % 2 == 0 ? SKERRY_BOR : SKERRY_BXOR, &bit, 1));
    const int16_t high = static_cast<int16_t>(c.rank * 10 + i % 10);
    OK(skerry_update(s, 0, 8216, SKERRY_INT16, SKERRY_MAX, &high, 1));
  }
  OK(skerry_sync(c.world()));
  if (c.rank == 0) {
    const auto* const mine = static_cast<const std::byte*>(skerry_segment_local(s)) + 8192;
    int64_t sum = 0;
    uint64_t bits = 1;
    int16_t high = 0;
    std::memcpy(&sum, mine, 8);
    std::memcpy(&bits, mine + 16, 8);
    std::memcpy(&high, mine + 24, 2);
    EXPECT_IS(sum, int64_t{rounds} * c.size);
    EXPECT_IS(bits, uint64_t{0});
    EXPECT_IS(high, int16_t((c.size - 1) * 10 + 9));
    for (int k = 0; k < 8; ++k)
      EXPECT_IS(static_cast<int>(mine[8 + k]),
                static_cast<uint8_t>(rounds * ((c.size + 7 - k) / 8)));
  }
}

void update_errors(Context& c, skerry_segment* s) {
  std::complex<double> z[2] = {}, old[2] = {};
  const int far = c.size - 1;
  const auto update = [&](int type, int operation, uint64_t offset, uint64_t count) {
    return skerry_update(s, far, offset, type, operation, z, count);
  };
  EXPECT_ERROR(update(SKERRY_COMPLEX_DOUBLE, SKERRY_MIN, 0, 1), SKERRY_ERR_INVALID,
               "complex double elements have no minimum");
  EXPECT_ERROR(update(SKERRY_DOUBLE, SKERRY_BAND, 0, 1), SKERRY_ERR_INVALID,
               "double elements have no bitwise and");
  EXPECT_ERROR(update(SKERRY_LONG_DOUBLE, SKERRY_LXOR, 0, 1), SKERRY_ERR_INVALID,
               "long double elements have no logical xor");
  EXPECT_ERROR(update(13, SKERRY_SUM, 0, 1), SKERRY_ERR_INVALID, "type 13: give a skerry_type");
  EXPECT_ERROR(update(SKERRY_INT8, 12, 0, 1), SKERRY_ERR_INVALID,
               "operation 12: give a skerry_operation, 0 to 11");
  EXPECT_ERROR(update(SKERRY_INT8, 256, 0, 1), SKERRY_ERR_INVALID, "operation 256");
  EXPECT_ERROR(update(SKERRY_UINT16, SKERRY_SUM, 1, 1), SKERRY_ERR_INVALID,
               "offset 1 is not a multiple of 2");
  EXPECT_ERROR(update(SKERRY_LONG_DOUBLE, SKERRY_SUM, 8, 1), SKERRY_ERR_INVALID,
               "offset 8 is not a multiple of 16");
  EXPECT_ERROR(update(SKERRY_UINT8, SKERRY_NO_OP, Stream::slice_bytes(c), 1), SKERRY_ERR_RANGE,
               "lie outside");
  EXPECT_ERROR(update(SKERRY_INT64, SKERRY_SUM, 0, uint64_t{1} << 61), SKERRY_ERR_INVALID,
               "at most 2^58");
  EXPECT_ERROR(skerry_update(s, far, 0, SKERRY_INT32, SKERRY_SUM, nullptr, 1), SKERRY_ERR_INVALID,
               "origin is null");
  EXPECT_ERROR(skerry_fetch_update(s, far, 0, SKERRY_INT32, SKERRY_NO_OP, nullptr, nullptr, 1),
               SKERRY_ERR_INVALID, "result is null");
  EXPECT_ERROR(skerry_fetch_update(s, far, 0, SKERRY_DOUBLE, SKERRY_SUM, z, z, 1),
               SKERRY_ERR_INVALID, "origin and result overlap");
  EXPECT_ERROR(skerry_fetch_update(s, far, 0, SKERRY_COMPLEX_FLOAT, SKERRY_MAX, z, old, 1),
               SKERRY_ERR_INVALID, "complex float elements have no maximum");
  EXPECT_ERROR(skerry_update(s, c.size, 0, SKERRY_INT32, SKERRY_SUM, z, 1), SKERRY_ERR_INVALID,
               "does not exist");
  int value = 1;
  EXPECT_ERROR(skerry_allreduce(c.world(), SKERRY_INT32, SKERRY_REPLACE, &value, 1),
               SKERRY_ERR_INVALID, "reduction 10");
  OK(skerry_update(s, far, 0, SKERRY_INT32, SKERRY_SUM, nullptr, 0));
  OK(skerry_fetch_update(s, far, 0, SKERRY_INT32, SKERRY_SUM, nullptr, nullptr, 0));
}

}  // namespace

void run_update(Context& c) {
  if (c.rank == 0) std::printf("update: seed %llu\n", static_cast<unsigned long long>(c.seed));
  skerry_segment* s = nullptr;
  OK(skerry_segment_alloc(c.world(), Stream::slice_bytes(c), &s));
  chain_of_replacements(c, s);
  shared_words(c, s);
  update_errors(c, s);
  OK(skerry_segment_free(s));
  OK(skerry_segment_alloc(c.world(), Stream::slice_bytes(c), &s));
  Stream stream(c, s);
  const int rounds = c.rounds > 0 ? c.rounds : 3;
  for (int round = 0; round < rounds; ++round) {
    stream.run(c.as_threads ? 80 : 400);
    OK(skerry_sync(c.world()));
    stream.read_back();
    OK(skerry_barrier(c.world()));
  }
  OK(skerry_segment_free(s));
}

}  // namespace skerry::test
