#include "job/bootstrap/foreign.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace skerry::job {

unsigned next_join() {
  static std::atomic<unsigned> joins{0};
  return joins.fetch_add(1);
}

std::string short_key(unsigned join, int rank, std::string_view name) {
  uint64_t hash = 14695981039346656037ull;  // FNV-1a: names are ours, nobody looks for collisions
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  char text[64];
  std::snprintf(text, sizeof text, "sk%u.%d.%016llx", join, rank,
                static_cast<unsigned long long>(hash));
  return text;
}

Status ForeignBootstrap::fence() {
  if (is_over()) return meet();
  const bool first = !meeting_.ready() && size_ > 1;
  std::vector<std::byte> invitation;
  if (first) SKERRY_TRY(meeting_.open(rank_, size_, &invitation));
  if (!invitation.empty()) SKERRY_TRY(put(Meeting::invitation_key, invitation));
  SKERRY_TRY(exchange_values());
  if (!first || rank_ == 0) return {};
  SKERRY_TRY(get(Meeting::parent_of(rank_), Meeting::invitation_key, &invitation));
  return meeting_.accept_invitation(invitation);
}

// Says why, as our own launcher would.
void ForeignBootstrap::abort(int exit_status, std::string_view message) {
  std::fflush(nullptr);
  std::fprintf(stderr, "skerry: rank %d ended the job: %.*s\n", rank_,
               static_cast<int>(message.size()), message.data());
  // A launcher that is told to abort may drop what it has not read yet (hydra does): let it read
  // this first, for a moment.
  int unread = 0;
  for (int i = 0; i < 100 && ioctl(STDERR_FILENO, FIONREAD, &unread) == 0 && unread > 0; ++i)
    (void)poll(nullptr, 0, 5);
  end_job(exit_status);
  _exit(exit_status);
}

}  // namespace skerry::job
