#include "job/bootstrap/meeting.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "job/bootstrap/control_protocol.hpp"

namespace skerry::job {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto meeting_limit = std::chrono::seconds(60);
constexpr int connect_limit_ms = 3000;
constexpr size_t max_strangers = 256;  // connected, not recognised; the oldest makes way

// What a visitor says; the host answers with its token at once, and with one byte when all have
// come.
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

template <size_t count>
void copy(std::span<const std::byte> from, std::array<std::byte, count>* to) {
  if (from.size() == count) std::memcpy(to->data(), from.data(), count);
}

}  // namespace

Meeting::~Meeting() {
  if (listener_ >= 0) close(listener_);
  for (const auto& [number, sockets] : waiting_) {
    for (const int socket : sockets) close(socket);
  }
}

Status Meeting::open(int size, std::vector<std::byte>* invitation) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  if (listener_ < 0 ||
      bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_, 4096) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getrandom(visitor_token_.data(), visitor_token_.size(), 0) !=
          static_cast<ssize_t>(visitor_token_.size()) ||
      getrandom(host_token_.data(), host_token_.size(), 0) !=
          static_cast<ssize_t>(host_token_.size())) {
    return error(Code::network, "rank 0 cannot listen for the job's end: ", std::strerror(errno));
  }
  size_ = size;
  FrameWriter writer(FrameType::invitation);
  writer.bytes(visitor_token_).bytes(host_token_).u32(ntohs(address.sin_port));
  const auto addresses = own_addresses();
  writer.u32(static_cast<uint32_t>(addresses.size()));
  for (const auto& one : addresses) writer.string(one);
  *invitation = writer.finish();
  return {};
}

Status Meeting::accept_invitation(int rank, std::span<const std::byte> invitation) {
  FrameBuffer buffer(max_control_payload);
  buffer.append(invitation);
  std::optional<Frame> frame;
  SKERRY_TRY(buffer.next(&frame));
  if (!frame) return error(Code::network, "rank 0's invitation is cut");
  FrameReader reader(*frame);
  copy(reader.bytes(visitor_token_.size()), &visitor_token_);
  copy(reader.bytes(host_token_.size()), &host_token_);
  port_ = static_cast<uint16_t>(reader.u32());
  const uint32_t count = reader.u32();
  for (uint32_t i = 0; i < count && reader.ok(); ++i) addresses_.emplace_back(reader.string());
  if (!reader.done() || addresses_.empty())
    return error(Code::network, "rank 0's invitation makes no sense");
  rank_ = rank;
  return {};
}

Status Meeting::meet() {
  const uint32_t number = number_++;
  if (listener_ >= 0) {
    const Status status = host_meeting();
    for (const int socket : waiting_[number]) close(socket);
    waiting_.erase(number);
    return status;
  }
  std::string tried;
  for (const auto& address : addresses_) {
    const Status status = visit(address);
    if (status.ok() || status.code() != Code::unsupported) return status;
    tried += concat(tried.empty() ? "" : "; ", status.message());
  }
  return error(Code::network, "cannot meet rank 0 at the end of the job (", tried, ")");
}

// `unsupported`: not there, try the next address.
Status Meeting::visit(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port_);
  (void)inet_pton(AF_INET, address.c_str(), &where.sin_addr);
  int problem = connect(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    pollfd ready{fd, POLLOUT, 0};
    problem = ETIMEDOUT;
    socklen_t length = sizeof problem;
    if (poll(&ready, 1, connect_limit_ms) == 1)
      (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &length);
  }
  const Greeting greeting{visitor_token_, number_ - 1, static_cast<uint32_t>(rank_)};
  if (problem != 0 ||
      send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof greeting)) {
    close(fd);
    return error(Code::unsupported, address, ": ", std::strerror(problem != 0 ? problem : errno));
  }
  // Rank 0 may not be here yet: the connection waits in its queue. So the answer may take as long
  // as the meeting.
  const auto deadline = Clock::now() + meeting_limit;
  Token token{};
  std::byte done{};
  const bool known = receive_all(fd, token.data(), token.size(), deadline) && token == host_token_;
  const bool met = known && receive_all(fd, &done, 1, deadline);
  close(fd);
  if (!known) return error(Code::unsupported, address, ": is not rank 0");
  return met ? Status()
             : error(Code::network, "rank 0 left before all had met at the end of the job");
}

Status Meeting::host_meeting() {
  const uint32_t number = number_ - 1;
  const auto deadline = Clock::now() + meeting_limit;
  std::vector<int> strangers;
  auto& present = waiting_[number];
  while (present.size() + 1 < static_cast<size_t>(size_)) {
    std::vector<pollfd> ready{{listener_, POLLIN, 0}};
    for (const int stranger : strangers) ready.push_back({stranger, POLLIN, 0});
    if (poll(ready.data(), ready.size(), left_ms(deadline)) == 0) break;
    std::vector<int> still;
    for (size_t i = 1; i < ready.size(); ++i) {
      const int socket = ready[i].fd;
      if (ready[i].revents == 0) {
        still.push_back(socket);
        continue;
      }
      Greeting greeting{};
      // It fits into one segment: who sends it in pieces is not ours.
      const bool ours = recv(socket, &greeting, sizeof greeting, MSG_DONTWAIT) ==
                            static_cast<ssize_t>(sizeof greeting) &&
                        greeting.token == visitor_token_ && greeting.number >= number;
      if (ours && send(socket, host_token_.data(), host_token_.size(), MSG_NOSIGNAL) > 0) {
        waiting_[greeting.number].push_back(socket);  // a fast rank may be one meeting ahead
      } else {
        close(socket);
      }
    }
    strangers = std::move(still);
    for (int socket; (socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
      strangers.push_back(socket);
    while (strangers.size() > max_strangers) {
      close(strangers.front());
      strangers.erase(strangers.begin());
    }
  }
  for (const int stranger : strangers) close(stranger);
  if (present.size() + 1 < static_cast<size_t>(size_)) {
    return error(Code::network, "only ", present.size() + 1, " of ", size_,
                 " ranks came to the end of the job within a minute");
  }
  for (const int socket : present) (void)send(socket, "!", 1, MSG_NOSIGNAL);
  return {};
}

}  // namespace skerry::job
