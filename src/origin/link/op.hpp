// An operation of the program that outlives the call that issued it, or is waited for in it.
#pragma once

#include <cstdint>

#include "core/pure/status.hpp"

namespace skerry::origin {

struct Link;

struct Op {
  enum class State : uint8_t {
    free,     // nobody's
    issuing,  // a call of the program is at it
    named,    // the program has its handle
  };
  uint32_t index = 0;       // in Operations
  uint32_t generation = 1;  // of the handle: a handle that was waited for already is recognised
  uint32_t waiting_replies = 0;
  State state = State::free;
  Link* link = nullptr;  // null: none yet. An operation has one link
  uint64_t number = 0;   // 0, or: done when the session acknowledged this request (payloads sent by
                         // reference)
  Status status;         // first failure
};

}  // namespace skerry::origin
