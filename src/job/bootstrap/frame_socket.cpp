#include "job/bootstrap/frame_socket.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace skerry::job {
namespace {

// For a socket that someone made non-blocking.
void sleep_until(short event, int fd) {
  pollfd ready{fd, event, 0};
  (void)poll(&ready, 1, -1);
}

}  // namespace

Status FrameSocket::gone() const {
  return error(Code::network, peer_, " has gone (", std::strerror(errno), ")");
}

Status FrameSocket::send(std::span<const std::byte> frame) const {
  while (!frame.empty()) {
    const ssize_t sent = ::send(fd_, frame.data(), frame.size(), MSG_NOSIGNAL);
    if (sent >= 0) frame = frame.subspan(static_cast<size_t>(sent));
    else if (errno == EAGAIN) sleep_until(POLLOUT, fd_);
    else if (errno != EINTR) return gone();
  }
  return {};
}

Status FrameSocket::next(bool wait, std::optional<Frame>* frame) {
  while (true) {
    SKERRY_TRY(buffer_.next(frame));
    if (*frame) return {};
    std::byte chunk[16 * 1024];
    const ssize_t got = recv(fd_, chunk, sizeof chunk, wait ? 0 : MSG_DONTWAIT);
    if (got > 0) buffer_.append(std::span(chunk, static_cast<size_t>(got)));
    else if (got == 0) return error(Code::network, peer_, " has gone");
    else if (errno == EAGAIN && !wait) return {};
    else if (errno == EAGAIN) sleep_until(POLLIN, fd_);
    else if (errno != EINTR) return gone();
  }
}

}  // namespace skerry::job
