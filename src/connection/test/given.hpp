// What several tests of this room take as given.
#pragma once

#include "connection/hello.hpp"

namespace skerry::connection {

constexpr int64_t ms = 1'000'000, s = 1'000'000'000;
constexpr Peer server{3, 0, 1, Role::server};

}  // namespace skerry::connection
