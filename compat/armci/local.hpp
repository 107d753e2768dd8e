// Transfers of a process to memory of its own that is in no allocation: ARMCI programs may name any
// address of theirs.
#pragma once

#include <skerry/skerry.h>

namespace skerry::armci {

enum class Kind { put, get, accumulate };

// `near` is the caller's buffer, `far` the address named as remote; strides of the origin are
// near's. type and scale: accumulate only.
void transfer_locally(Kind kind, void* near, void* far, const skerry_strided& shape, int type,
                      const void* scale);

}  // namespace skerry::armci
