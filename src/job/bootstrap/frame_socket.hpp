// Frames of the control protocol over a stream socket, for a caller that sleeps until they come.
#pragma once

#include <optional>
#include <string>

#include "job/bootstrap/control_protocol.hpp"

namespace skerry::job {

class FrameSocket {
 public:
  // `peer`: who is at the other end, for errors. The descriptor stays the caller's.
  FrameSocket(int fd, std::string peer, size_t max_payload)
      : fd_(fd), peer_(std::move(peer)), buffer_(max_payload) {}
  int fd() const { return fd_; }
  // Blocks until the kernel has taken all of it. Errors: network (the peer has gone).
  Status send(std::span<const std::byte> frame) const;
  // The next frame, which stands until the next call. With `wait` blocks until one has come;
  // otherwise *frame is nullopt if none has come whole. Errors: network (the peer has gone; those
  // of FrameBuffer).
  Status next(bool wait, std::optional<Frame>* frame);

 private:
  Status gone() const;  // by errno

  const int fd_;
  const std::string peer_;
  FrameBuffer buffer_;
};

}  // namespace skerry::job
