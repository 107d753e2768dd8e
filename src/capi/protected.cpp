#include <utility>

#include "capi/arguments.hpp"

using namespace skerry;
using namespace skerry::capi;

namespace {

// Its group may have been freed.
int check_kept(const skerry_protected* kept) {
  if (kept == nullptr) return null_argument("kept");
  if (of(kept) == nullptr) return fail(error(Code::freed, "the protected memory was freed"));
  return of(kept)->group().job().is_alive() ? SKERRY_OK : forked();
}

int check_protected(const skerry_protected* kept) {
  CHECK(check_kept(kept));
  if (of(kept)->group().is_freed()) return fail(error(Code::freed, "the group was freed"));
  return SKERRY_OK;
}

bool is_there(const skerry_protected* kept) { return kept != nullptr && of(kept) != nullptr; }

// What a function of the program has returned.
Status answered(int status) {
  if (status == SKERRY_OK) return {};
  if (status < 0) return Status(static_cast<Code>(status), skerry_last_error());
  return error(Code::invalid, "the function that divides the state returned ", status,
               ": return SKERRY_OK, or the status of a call that failed");
}

}  // namespace

extern "C" {

int skerry_protected_create(skerry_group* group, int distance, skerry_protected** made) try {
  CHECK(check_live(group));
  if (made == nullptr) return null_argument("kept");
  if (distance < 0)
    return fail(error(Code::invalid, "distance ", distance,
                      ": give how many nodes further partners are, or 0 for none"));
  auto kept = std::make_unique<job::Protected>(*of(group), distance);
  *made = to(of(group)->job().objects().keep(std::move(kept)));
  return SKERRY_OK;
}
CAUGHT

int skerry_protected_free(skerry_protected* kept) try {
  CHECK(check_kept(kept));
  job::Objects& objects = of(kept)->group().job().objects();
  const Status status = of(kept)->free();
  objects.discard(of(kept));
  return done(status);
}
CAUGHT

int skerry_protected_add(skerry_protected* kept, void* memory, uint64_t bytes) try {
  CHECK(check_protected(kept));
  if (memory == nullptr && bytes > 0) return null_argument("memory");
  of(kept)->add({bytes_at(memory), bytes});
  return SKERRY_OK;
}
CAUGHT

int skerry_protected_forget(skerry_protected* kept) try {
  CHECK(check_protected(kept));
  of(kept)->forget();
  return SKERRY_OK;
}
CAUGHT

int skerry_protected_next(skerry_protected* kept, uint64_t steps, uint64_t every, int status,
                          uint64_t* step, skerry_group** group) try {
  CHECK(check_protected(kept));
  if (step == nullptr || group == nullptr) return null_argument("step or group");
  if (every == 0)
    return fail(error(Code::invalid, "every is 0: give 1 to save before each step, or more"));
  if (status > 0)
    return fail(error(Code::invalid, "status ", status,
                      " of the last step: give SKERRY_OK, or the status of a call that failed"));
  if (status < 0 && status != SKERRY_ERR_PEER_DEAD) {
    of(kept)->end_loop();
    return status;  // its message is there
  }
  CHECK(done(of(kept)->next(steps, every, status != SKERRY_OK, step)));
  *group = to(&of(kept)->group());
  return SKERRY_OK;
}
CAUGHT

int skerry_protected_divide(skerry_protected* kept, skerry_divide divide, void* context) try {
  CHECK(check_protected(kept));
  if (divide == nullptr) of(kept)->set_divide(nullptr);
  else of(kept)->set_divide([=] { return answered(divide(context, kept)); });
  return SKERRY_OK;
}
CAUGHT

int skerry_protected_save(skerry_protected* kept, int64_t step) try {
  CHECK(check_protected(kept));
  if (step < 0) return fail(error(Code::invalid, "step ", step, ": give one from 0 on"));
  return done(of(kept)->save(step));
}
CAUGHT

int skerry_protected_recover(skerry_protected* kept, int64_t timeout_ns) try {
  CHECK(check_protected(kept));
  return done(of(kept)->recover(timeout_ns));
}
CAUGHT

int skerry_protected_read(skerry_protected* kept, int place, uint64_t offset, void* into,
                          uint64_t bytes) try {
  CHECK(check_protected(kept));
  if (into == nullptr && bytes > 0) return null_argument("to");
  return done(of(kept)->read(place, offset, {bytes_at(into), bytes}));
}
CAUGHT

skerry_group* skerry_protected_group(const skerry_protected* kept) {
  return is_there(kept) ? static_cast<skerry_group*>(of(kept)->group_handle()) : nullptr;
}
int64_t skerry_protected_step(const skerry_protected* kept) {
  return is_there(kept) ? of(kept)->step() : -1;
}
int skerry_protected_places(const skerry_protected* kept) {
  return is_there(kept) ? of(kept)->places() : 0;
}
uint64_t skerry_protected_bytes(const skerry_protected* kept) {
  return is_there(kept) ? of(kept)->bytes() : 0;
}
int skerry_protected_recoveries(const skerry_protected* kept) {
  return is_there(kept) ? of(kept)->recoveries() : 0;
}

}  // extern "C"
