// Status: the result of everything in Skerry that can fail. Cheap when it succeeds (one pointer), a
// code and a message when not. The first detector writes the message (what failed, with which
// values, what to do about it); callers pass it on.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace skerry {

// Values equal skerry_status of the public header; src/capi asserts it.
enum class Code : int32_t {
  ok = 0,
  invalid = -1,
  range = -2,
  freed = -3,
  no_memory = -4,
  peer_dead = -5,
  timeout = -6,
  network = -7,
  config = -8,
  unsupported = -9,
  forked = -10,
  thread = -11,
  internal = -12,
  conflict = -13,
  owner_died = -14,
  // Between data server and origin only: a lock is not free now, and nothing was done.
  contended = -64,
};

std::string_view to_string(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message)
      : failure_(code == Code::ok ? nullptr
                                  : std::make_unique<Failure>(Failure{code, std::move(message)})) {}
  Status(const Status& other)
      : failure_(other.failure_ ? std::make_unique<Failure>(*other.failure_) : nullptr) {}
  Status(Status&&) noexcept = default;
  Status& operator=(const Status& other) { return *this = Status(other); }
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return failure_ == nullptr; }
  explicit operator bool() const { return ok(); }
  Code code() const { return failure_ ? failure_->code : Code::ok; }
  const std::string& message() const;
  // Of several steps that are all taken: the first failure stays.
  Status& also(Status next) {
    if (ok()) *this = std::move(next);
    return *this;
  }

 private:
  struct Failure {
    Code code;
    std::string message;
  };
  std::unique_ptr<Failure> failure_;  // null: ok
};

// Builds a message from parts: Status s = error(Code::range, "offset ", offset, " is beyond ",
// bytes).
namespace detail {
inline void append(std::string& out, std::string_view part) { out += part; }
inline void append(std::string& out, char part) { out += part; }
template <class Number>
  requires std::is_arithmetic_v<Number>
void append(std::string& out, Number part) {
  out += std::to_string(part);
}
}  // namespace detail

template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

template <class... Parts>
Status error(Code code, const Parts&... parts) {
  return Status(code, concat(parts...));
}

// An offset as its caller wrote it, for messages: a negative one has wrapped around.
constexpr int64_t as_written(uint64_t offset) { return static_cast<int64_t>(offset); }

#define SKERRY_TRY(expression)                                                  \
  do {                                                                          \
    if (::skerry::Status status_ = (expression); !status_.ok()) return status_; \
  } while (0)

}  // namespace skerry
