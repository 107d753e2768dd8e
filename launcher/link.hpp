// Frames over a stream socket inside an EventLoop: what is sent queues, what arrives is handed out
// frame by frame.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "job/bootstrap/control_protocol.hpp"
#include "launcher/event_loop.hpp"

namespace skerry::launcher {

class Link {
 public:
  using OnFrame = std::function<void(const job::Frame&)>;
  // The connection ended; the argument says why ("closed by the other side", "Connection reset by
  // peer", a broken frame). Called once; frames that came before it were handed out. Neither
  // handler may destroy the link.
  using OnEnd = std::function<void(const std::string& why)>;

  Link(EventLoop& loop, UniqueFd socket, size_t max_payload, OnFrame on_frame, OnEnd on_end);
  ~Link();
  Link(const Link&) = delete;

  using Payload = std::shared_ptr<const std::vector<std::byte>>;

  // Never blocks; after the end it does nothing.
  void send(const std::vector<std::byte>& frame);
  // The same for a frame whose payload many links send: it is kept once for all of them.
  void send(job::FrameType type, uint32_t rank, Payload payload);
  bool ended() const { return !socket_; }
  // Gives the socket back; the link has ended without a word. Nothing may be in flight.
  UniqueFd release();
  // Ends the link without a word.
  void close() { (void)release(); }
  bool all_sent() const { return queue_.empty(); }
  // Of TCP: the connection ends if what was sent is not taken by the other side's kernel for so
  // long; 0: as the system has it. A process there that is stopped does not matter.
  void end_after_silence(std::chrono::milliseconds limit);
  // Reads what has already arrived (e.g. a last word before an end that was noticed elsewhere).
  void drain() { on_readable(); }

 private:
  void on_event(uint32_t events);
  void on_readable();
  void hand_out();
  void push(std::span<const std::byte> bytes);
  void flush();
  void sent(size_t bytes);
  void end(const std::string& why);

  EventLoop& loop_;
  UniqueFd socket_;  // none: ended
  job::FrameBuffer incoming_;
  struct Piece {
    std::vector<std::byte> own;
    Payload shared;  // null: `own` counts
    const std::vector<std::byte>& bytes() const { return shared ? *shared : own; }
  };
  std::deque<Piece> queue_;  // to send, oldest first; none is empty
  size_t sent_ = 0;          // bytes of the first that have gone
  bool watching_output_ = false;
  OnFrame on_frame_;
  OnEnd on_end_;
};

}  // namespace skerry::launcher
