#include "lock/asking.hpp"

namespace skerry::lock::machine {

Asking::Next Asking::heard(const Rest& rest) {
  if (rest.state == Rest::State::failed) return Next::failed;
  is_heard_ = is_heard_ || (rest.taken && message_.note == asked_.note);
  if (rest.state == Rest::State::network) return Next::perform;
  if (rest.state == Rest::State::not_yet) {
    if (rest.taken) message_.note = Note::none;
    return Next::send;
  }
  if (!rest.taken) return Next::pause;
  if (is_heard_) return Next::done;
  message_ = asked_;
  return Next::send;
}

void Asking::performed(uint64_t before) {
  message_.note = Note::performed;
  message_.value = before;
}

}  // namespace skerry::lock::machine
