#include "job/bootstrap/meeting.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/pure/shortage.hpp"
#include "job/bootstrap/control_protocol.hpp"

namespace skerry::job {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int connect_limit_ms = 3000;
constexpr size_t max_unauthenticated = 64;                  // then the oldest makes way
constexpr std::chrono::milliseconds descriptor_pause{100};  // until a descriptor may be free again
constexpr std::chrono::milliseconds first_retry_pause{10}, longest_retry_pause{1000};

// What a child says. Its parent answers with its token at once, and with one byte when all ranks
// have come.
struct Greeting {
  std::array<std::byte, 16> token;
  uint32_t number;
  uint32_t rank;
};
static_assert(sizeof(Greeting) == 24);

int left_ms(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now())
                        .count();
  return static_cast<int>(left > 0 ? left : 0);
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found, loopback;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET ||
        !(one->ifa_flags & IFF_UP))
      continue;
    char text[NI_MAXHOST];
    if (getnameinfo(one->ifa_addr, sizeof(sockaddr_in), text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0)
      continue;
    ((one->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : found).emplace_back(text);
  }
  freeifaddrs(list);
  found.insert(found.end(), loopback.begin(), loopback.end());
  return found;
}

bool receive_all(int socket, void* data, size_t bytes, Clock::time_point deadline) {
  for (size_t got = 0; got < bytes;) {
    pollfd ready{socket, POLLIN, 0};
    const int polled = poll(&ready, 1, left_ms(deadline));
    if (polled == 0 || (polled < 0 && errno != EINTR)) return false;
    const ssize_t more = recv(socket, static_cast<char*>(data) + got, bytes - got, MSG_DONTWAIT);
    if (more == 0 || (more < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (more > 0) got += static_cast<size_t>(more);
  }
  return true;
}

std::string shortage_text(int error_number) {
  rlimit limit{};
  (void)getrlimit(RLIMIT_NOFILE, &limit);
  return concat(std::strerror(error_number), "; this process may open ", limit.rlim_cur,
                " files: raise `ulimit -n` or close some before the job ends");
}

}  // namespace

Meeting::~Meeting() {
  if (listener_ >= 0) close(listener_);
  drop_children();
}

int Meeting::children() const {
  const int64_t first = int64_t{rank_} * fan_in + 1;
  return static_cast<int>(std::clamp<int64_t>(size_ - first, 0, fan_in));
}

Status Meeting::open(int rank, int size, std::vector<std::byte>* invitation) {
  rank_ = rank;
  size_ = size;
  invitation->clear();
  if (children() == 0) return {};
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  if (listener_ < 0 ||
      bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_, 4096) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getrandom(&secrets_, sizeof secrets_, 0) != static_cast<ssize_t>(sizeof secrets_)) {
    return error(Code::network, "rank ", rank_, " cannot listen for the job's end: ",
                 is_shortage(errno) ? shortage_text(errno) : std::strerror(errno));
  }
  FrameWriter writer(FrameType::invitation);
  writer.bytes(std::as_bytes(std::span(&secrets_, 1))).u32(ntohs(address.sin_port));
  const auto addresses = own_addresses();
  writer.u32(static_cast<uint32_t>(addresses.size()));
  for (const auto& one : addresses) writer.string(one);
  *invitation = writer.finish();
  return {};
}

Status Meeting::accept_invitation(std::span<const std::byte> invitation) {
  const int parent = parent_of(rank_);
  FrameBuffer buffer(max_control_payload);
  buffer.append(invitation);
  std::optional<Frame> frame;
  SKERRY_TRY(buffer.next(&frame));
  if (!frame) return error(Code::network, "rank ", parent, "'s invitation is cut");
  FrameReader reader(*frame);
  if (const auto secrets = reader.bytes(sizeof parents_secrets_); reader.ok())
    std::memcpy(&parents_secrets_, secrets.data(), secrets.size());
  port_ = static_cast<uint16_t>(reader.u32());
  const uint32_t count = reader.u32();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) addresses_.emplace_back(reader.string());
  if (!reader.done() || addresses_.empty())
    return error(Code::network, "rank ", parent, "'s invitation makes no sense");
  return {};
}

Status Meeting::meet(std::chrono::milliseconds limit) {
  deadline_ = Clock::now() + limit;
  Status status = gather(limit);
  if (status.ok() && rank_ > 0) status = go_to_parent();
  if (status.ok())
    for (const int socket : present_)
      if (socket >= 0) (void)send(socket, "!", 1, MSG_NOSIGNAL);
  drop_children();  // after an error they find that this rank has left
  ++met_;
  return status;
}

void Meeting::drop_children() {
  for (int& socket : present_)
    if (socket >= 0) close(std::exchange(socket, -1));
  for (const int socket : unauthenticated_) close(socket);
  unauthenticated_.clear();
}

// --- as a parent -----------------------------------------------------------------------------

Status Meeting::gather(std::chrono::milliseconds limit) {
  const auto missing = [this] {
    return children() -
           static_cast<int>(std::ranges::count_if(present_, [](int s) { return s >= 0; }));
  };
  bool short_of_descriptors = false;
  while (missing() > 0 && left_ms(deadline_) > 0) {
    std::vector<pollfd> ready;
    for (const int socket : unauthenticated_) ready.push_back({socket, POLLIN, 0});
    // A full listener stays readable: while there is no descriptor for what it holds, this sleeps
    // instead of asking again at once.
    if (!short_of_descriptors) ready.push_back({listener_, POLLIN, 0});
    const int pause_ms = static_cast<int>(descriptor_pause.count());
    const int wait_ms = short_of_descriptors ? std::min(pause_ms, left_ms(deadline_))
                                             : left_ms(deadline_);
    (void)poll(ready.data(), ready.size(), wait_ms);
    for (const pollfd& one : ready) {
      if (one.fd == listener_ || one.revents == 0) continue;
      std::erase(unauthenticated_, one.fd);
      if (!recognise(one.fd)) close(one.fd);
    }
    short_of_descriptors = !accept_all();
  }
  if (missing() == 0) return {};
  if (short_of_descriptors)
    return error(Code::network, "rank ", rank_, " cannot let the ranks below it come to the end ",
                 "of the job: ", shortage_text(EMFILE));
  return error(Code::network, missing(), " of the ", children(), " ranks from ", rank_ * fan_in + 1,
               " on that come to rank ", rank_, " did not, at the end of the job, within ",
               limit.count() / 1000, " s");
}

// Takes what waits at the listener. False: no descriptor is left for it.
bool Meeting::accept_all() {
  while (true) {
    // The kernel reports a shortage before it looks whether anybody waits.
    pollfd waiting{listener_, POLLIN, 0};
    if (poll(&waiting, 1, 0) == 0) return true;
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const int problem = socket < 0 ? errno : 0;
    if (problem == EAGAIN) return true;
    const bool full = unauthenticated_.size() >= max_unauthenticated;
    if (full || is_shortage(problem)) {
      if (unauthenticated_.empty()) return false;
      close(unauthenticated_.front());
      unauthenticated_.erase(unauthenticated_.begin());
    }
    if (socket < 0) continue;  // that one has gone, or there is room now
    std::byte first;
    const ssize_t seen = recv(socket, &first, 1, MSG_PEEK);
    if (seen < 0 && errno == EAGAIN) {
      unauthenticated_.push_back(socket);
    } else if (!recognise(socket)) {
      close(socket);
    }
  }
}

// False: not a child in this meeting. A greeting fits into one segment: what comes in pieces is not
// ours.
bool Meeting::recognise(int socket) {
  Greeting greeting{};
  if (recv(socket, &greeting, sizeof greeting, MSG_DONTWAIT) !=
          static_cast<ssize_t>(sizeof greeting) ||
      greeting.token != secrets_.child || greeting.number != met_)
    return false;
  const int64_t child = int64_t{greeting.rank} - int64_t{rank_} * fan_in - 1;
  if (child < 0 || child >= children()) return false;
  if (send(socket, secrets_.parent.data(), secrets_.parent.size(), MSG_NOSIGNAL) <= 0) return false;
  int& place = present_[static_cast<size_t>(child)];
  if (place >= 0) close(place);  // it has come again: its first connection broke
  place = socket;
  return true;
}

// --- as a child ------------------------------------------------------------------------------

Status Meeting::go_to_parent() {
  for (auto pause = first_retry_pause; true; pause = std::min(2 * pause, longest_retry_pause)) {
    std::string tried;
    bool busy = false;
    for (const auto& address : addresses_) {
      std::string why;
      switch (visit(address, &why)) {
        case Visit::met: return {};
        case Visit::left:
          return error(Code::network, "rank ", parent_of(rank_),
                       " left before all ranks had met at the end of the job");
        case Visit::busy: busy = true; [[fallthrough]];
        case Visit::not_there: tried += concat(tried.empty() ? "" : "; ", address, ": ", why);
      }
    }
    if (!busy || Clock::now() + pause >= deadline_)
      return error(Code::network, "rank ", rank_, " cannot meet rank ", parent_of(rank_),
                   " at the end of the job (", tried, ")");
    (void)poll(nullptr, 0, static_cast<int>(pause.count()));
  }
}

// `busy`: worth another try, as a descriptor was missing on this side or on the other.
Meeting::Visit Meeting::visit(const std::string& address, std::string* why) const {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    *why = is_shortage(errno) ? shortage_text(errno) : std::strerror(errno);
    return is_shortage(errno) ? Visit::busy : Visit::not_there;
  }
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port_);
  (void)inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  int problem = connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    pollfd ready{fd, POLLOUT, 0};
    problem = ETIMEDOUT;
    socklen_t length = sizeof problem;
    const auto limit = Clock::now() + std::chrono::milliseconds(connect_limit_ms);
    int polled = 0;
    do polled = poll(&ready, 1, left_ms(limit));
    while (polled < 0 && errno == EINTR);  // a profiler's signal is no answer
    if (polled == 1) (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
  }
  const Greeting greeting{parents_secrets_.child, met_, static_cast<uint32_t>(rank_)};
  if (problem != 0 ||
      send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof greeting)) {
    *why = std::strerror(problem != 0 ? problem : errno);
    close(fd);
    return Visit::not_there;
  }
  // The parent may not be here yet: the connection waits in its queue. So the answer may take as
  // long as the meeting.
  Token token{};
  std::byte done{};
  const bool answered = receive_all(fd, token.data(), token.size(), deadline_);
  const bool known = answered && token == parents_secrets_.parent;
  const bool met = known && receive_all(fd, &done, 1, deadline_);
  close(fd);
  if (known) return met ? Visit::met : Visit::left;
  *why = answered ? concat("is not rank ", parent_of(rank_)) : "closed the connection";
  return answered ? Visit::not_there : Visit::busy;
}

}  // namespace skerry::job
