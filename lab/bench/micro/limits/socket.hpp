// Blocking TCP in a dozen lines. Errors end the program: a limit measured after an error is no
// limit.
#pragma once
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace bench {

[[noreturn]] inline void fail(const char* what) {
  std::perror(what);
  std::exit(2);
}

inline void set_option(int fd, int level, int name, int value) {
  if (setsockopt(fd, level, name, &value, sizeof value) != 0) fail("setsockopt");
}

// buffer_bytes 0 leaves the kernel's own tuning on.
inline void tune(int fd, int buffer_bytes) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (buffer_bytes > 0) {
    set_option(fd, SOL_SOCKET, SO_SNDBUF, buffer_bytes);
    set_option(fd, SOL_SOCKET, SO_RCVBUF, buffer_bytes);
  }
}

inline int listen_on_any(uint16_t* port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t length = sizeof address;
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) fail("bind");
  if (listen(fd, 128) != 0) fail("listen");
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) fail("getsockname");
  *port = ntohs(address.sin_port);
  return fd;
}

inline int connect_to(const std::string& host, uint16_t port, int buffer_bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  tune(fd, buffer_bytes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    std::fprintf(stderr, "not an IPv4 address: %s\n", host.c_str());
    std::exit(2);
  }
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  return fd;
}

// False at an orderly end before the first byte.
inline bool receive_all(int fd, void* buffer, size_t bytes, size_t chunk = SIZE_MAX,
                        int flags = 0) {
  auto* at = static_cast<char*>(buffer);
  size_t left = bytes;
  while (left) {
    const ssize_t got = recv(fd, at, left < chunk ? left : chunk, flags);
    if (got <= 0) {
      if (got == 0 && left == bytes) return false;
      fail("recv");
    }
    at += got;
    left -= static_cast<size_t>(got);
  }
  return true;
}

inline void send_all(int fd, const void* buffer, size_t bytes) {
  const auto* at = static_cast<const char*>(buffer);
  while (bytes) {
    const ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
    if (sent <= 0) fail("send");
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

}  // namespace bench
