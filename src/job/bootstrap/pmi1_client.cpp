// Ranks of MPICH's hydra and other launchers that speak PMI-1 over the descriptor PMI_FD: lines of
// "cmd=... key=value ...".
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "job/bootstrap/control_protocol.hpp"
#include "job/bootstrap/foreign.hpp"

namespace skerry::job {
namespace {

constexpr size_t max_line_bytes = 64 * 1024;

Status number_from(const char* name, int* value) {
  const char* text = std::getenv(name);
  if (text == nullptr)
    return error(Code::config, "PMI_FD is set but ", name,
                 " is not; is this process started by mpiexec.hydra?");
  const char* end = text + std::strlen(text);
  const auto [stop, problem] = std::from_chars(text, end, *value);
  if (problem != std::errc() || stop != end || *value < 0)
    return error(Code::config, name, "=\"", text, "\" is not a number");
  return {};
}

// The value of `name` in "cmd=... name=value ...", or empty.
std::string field(const std::string& line, std::string_view name) {
  size_t at = 0;
  while (at < line.size()) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word(line.data() + at, end - at);
    if (word.size() > name.size() && word.substr(0, name.size()) == name &&
        word[name.size()] == '=') {
      return std::string(word.substr(name.size() + 1));
    }
    at = end + 1;
  }
  return {};
}

// The conversation belongs to the process, as the descriptor does: an MPI initialised later goes on
// with it.
struct Conversation {
  int fd = -1;  // -1: not begun
  std::string name_space;
  size_t max_value = 0;
  bool finished = false;  // the job was left properly

  Status send(const std::string& line) const {
    const std::string text = line + "\n";
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t got = write(fd, text.data() + sent, text.size() - sent);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        return error(Code::network, "the PMI launcher has gone (", std::strerror(errno), ")");
      sent += static_cast<size_t>(got);
    }
    return {};
  }

  // Reads one line, byte by byte: what follows may be for an MPI in this process.
  Status receive(std::string* line) const {
    line->clear();
    while (line->size() < max_line_bytes) {
      char c = 0;
      const ssize_t got = read(fd, &c, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return error(Code::network, "the PMI launcher has gone");
      if (c == '\n') return {};
      line->push_back(c);
    }
    return error(Code::network, "the PMI launcher sends a line without end");
  }

  Status ask(const std::string& question, std::string_view answer, std::string* line) const {
    SKERRY_TRY(send(question));
    SKERRY_TRY(receive(line));
    const std::string result = field(*line, "rc");
    if (field(*line, "cmd") == answer && (result.empty() || result == "0")) return {};
    return error(Code::network, "the PMI launcher answered \"", line->substr(0, 200), "\" to \"",
                 question.substr(0, 200), "\"");
  }
};

Conversation& conversation() {
  static Conversation one;
  return one;
}

// Hydra ends the job when a process that said init goes without finalize, and also when one
// finalises before MPI_Init. So finalize is said as late as possible, only if no MPI did or will do
// it, and only if the job was left properly.
void leave_at_exit() {
  auto& mine = conversation();
  std::string ignored;
  if (mine.fd >= 0 && mine.finished && !mpi_was_initialized())
    (void)mine.ask("cmd=finalize", "finalize_ack", &ignored);
}

bool from_hex(std::string_view text, std::vector<std::byte>* out) {
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    unsigned value = 0;
    const auto [stop, problem] = std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    if (problem != std::errc() || stop != text.data() + i + 2) return false;
    out->push_back(static_cast<std::byte>(value));
  }
  return text.size() % 2 == 0;
}

class Pmi1Bootstrap final : public ForeignBootstrap {
 public:
  using ForeignBootstrap::ForeignBootstrap;
  std::string_view name() const override { return "pmi1"; }

  // Cut into pieces that fit the launcher's limit; the first begins with the number of pieces.
  Status put(std::string_view key, std::span<const std::byte> value) override {
    SKERRY_TRY(check_key(key));
    SKERRY_TRY(check_value(value));
    const std::string hex = to_hex(value);
    const size_t piece_bytes = pmi_.max_value - 8;
    const size_t pieces = std::max<size_t>((hex.size() + piece_bytes - 1) / piece_bytes, 1);
    for (size_t i = 0; i < pieces; ++i) {
      const std::string text = (i == 0 ? concat(pieces, "-") : "") +
                               hex.substr(i * piece_bytes, piece_bytes);
      std::string line;
      SKERRY_TRY(pmi_.ask(concat("cmd=put kvsname=", pmi_.name_space,
                                 " key=", piece_key(rank(), key, i), " value=", text),
                          "put_result", &line));
    }
    return {};
  }

  Status get(int rank, std::string_view key, std::vector<std::byte>* value) override {
    SKERRY_TRY(check_key(key));
    std::string hex;
    size_t pieces = 1;
    for (size_t i = 0; i < pieces; ++i) {
      std::string line;
      if (Status status = pmi_.ask(
              concat("cmd=get kvsname=", pmi_.name_space, " key=", piece_key(rank, key, i)),
              "get_result", &line);
          !status.ok()) {
        return error(Code::network, "rank ", rank, " has put no bootstrap value \"", key, "\" (",
                     status.message(), ")");
      }
      std::string text = field(line, "value");
      if (i == 0) {
        const size_t dash = text.find('-');
        pieces = static_cast<size_t>(std::strtoul(text.c_str(), nullptr, 10));
        if (dash == std::string::npos || pieces < 1 || pieces > max_value_bytes)
          return damaged(rank, key);
        text.erase(0, dash + 1);
      }
      hex += text;
    }
    std::vector<std::byte> bytes;
    if (!from_hex(hex, &bytes)) return damaged(rank, key);
    *value = std::move(bytes);
    return {};
  }

  Status finish() override {
    SKERRY_TRY(meet());
    pmi_.finished = true;
    return {};
  }

 private:
  Status exchange_values() override {
    std::string line;
    return pmi_.ask("cmd=barrier_in", "barrier_out", &line);
  }
  void end_job(int exit_status) override {
    (void)pmi_.send(concat("cmd=abort exitcode=", exit_status));
  }
  // Short, as launchers want them: the join, the rank, and a hash of the name.
  std::string piece_key(int rank, std::string_view key, size_t piece) const {
    uint64_t hash = 14695981039346656037ull;  // FNV-1a: names are ours, nobody looks for collisions
    for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    const auto bytes = std::bit_cast<std::array<std::byte, sizeof hash>>(hash);
    return concat("sk", join_, ".", rank, ".", to_hex(bytes), ".", piece);
  }
  static Status damaged(int rank, std::string_view key) {
    return error(Code::network, "rank ", rank, "'s bootstrap value \"", key,
                 "\" came back damaged from the PMI launcher");
  }

  Conversation& pmi_ = conversation();
  const unsigned join_ = next_join();
};

}  // namespace

Status join_pmi1(std::unique_ptr<Bootstrap>* bootstrap) {
  bootstrap->reset();
  if (std::getenv("PMI_FD") == nullptr) return {};
  int fd = -1, rank = -1, size = 0;
  SKERRY_TRY(number_from("PMI_FD", &fd));
  SKERRY_TRY(number_from("PMI_RANK", &rank));
  SKERRY_TRY(number_from("PMI_SIZE", &size));
  auto& mine = conversation();
  if (mine.fd < 0) {
    mine.fd = fd;
    std::string line;
    Status status = mine.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", &line);
    if (status.ok()) status = mine.ask("cmd=get_maxes", "maxes", &line);
    if (status.ok())
      mine.max_value = static_cast<size_t>(
          std::strtoul(field(line, "vallen_max").c_str(), nullptr, 10));
    if (status.ok()) status = mine.ask("cmd=get_my_kvsname", "my_kvsname", &line);
    if (status.ok()) mine.name_space = field(line, "kvsname");
    if (status.ok() && mine.max_value < 64)
      status = error(Code::network, "the PMI launcher takes values of only ", mine.max_value,
                     " bytes");
    if (!status.ok()) {
      mine.fd = -1;
      return status;
    }
    (void)std::atexit(leave_at_exit);
  }
  mine.finished = false;
  *bootstrap = std::make_unique<Pmi1Bootstrap>(rank, size);
  return {};
}

}  // namespace skerry::job
