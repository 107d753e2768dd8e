#include "window/check.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <utility>

namespace skerry::window {

thread_local const void* Check::site_ = nullptr;
thread_local uint64_t Check::before_ = 0;
thread_local const void* Check::caller_ = nullptr;
thread_local bool Check::unchecked_ = false;

void Check::stand_for(const void* caller, bool unchecked) {
  caller_ = caller;
  unchecked_ = unchecked;
}

void Check::enter(const void* address) {
  site_ = caller_ != nullptr ? caller_ : address;
  const std::lock_guard guard(mutex_);
  before_ = issued_;
}

namespace {

std::string_view name_of(Check::Kind kind) {
  switch (kind) {
    case Check::Kind::put: return "put";
    case Check::Kind::get: return "get";
    case Check::Kind::update: return "update";
    case Check::Kind::compare_swap: return "compare_swap";
  }
  return "access";
}

size_t hash_of(const std::byte* data, uint64_t bytes) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(data), bytes});
}

// A buffer of the program, which may be gone by now.
enum class Seen : uint8_t { read, gone, unknown };
Seen look_at(const std::byte* address, uint64_t bytes, std::vector<std::byte>* copy) {
  copy->resize(bytes);
  for (uint64_t done = 0; done < bytes;) {
    const iovec to{copy->data() + done, bytes - done};
    const iovec from{const_cast<std::byte*>(address) + done, bytes - done};
    const ssize_t now = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    if (now <= 0) return now < 0 && errno == EFAULT ? Seen::gone : Seen::unknown;
    done += static_cast<uint64_t>(now);
  }
  return Seen::read;
}

}  // namespace

std::string describe_site(const void* address) {
  Dl_info info{};
  char text[160];
  // One byte before: the address is that of the instruction behind the call.
  const auto* const call = static_cast<const char*>(address) - 1;
  if (address == nullptr || dladdr(call, &info) == 0 || info.dli_fname == nullptr) {
    std::snprintf(text, sizeof text, "address %p", address);
    return text;
  }
  const char* const slash = std::strrchr(info.dli_fname, '/');
  const char* const file = slash != nullptr ? slash + 1 : info.dli_fname;
  // As addr2line wants it: from the start of the file, unless the program lies at fixed addresses.
  const auto* const base = static_cast<const char*>(info.dli_fbase);
  const bool is_fixed = reinterpret_cast<const ElfW(Ehdr)*>(base)->e_type == ET_EXEC;
  const auto offset = is_fixed ? reinterpret_cast<unsigned long>(call)
                               : static_cast<unsigned long>(call - base);
  if (info.dli_sname != nullptr)
    std::snprintf(text, sizeof text, "%s (%s+0x%lx)", info.dli_sname, file, offset);
  else std::snprintf(text, sizeof text, "%s+0x%lx", file, offset);
  return text;
}

Status Check::located(const Status& status) const {
  if (status.message().starts_with(window_)) return status;
  return error(status.code(), status.message(), " (", window_, ", called at ", describe_site(site_),
               ")");
}

// ---- conflicts --------------------------------------------------------------------------------

bool Check::conflict(const Access& a, const Access& b) const {
  if (a.begin >= b.begin + b.bytes || b.begin >= a.begin + a.bytes) return false;
  const auto updates = [](Kind kind) { return kind == Kind::update || kind == Kind::compare_swap; };
  if (a.kind == Kind::get && b.kind == Kind::get) return false;
  if (!updates(a.kind) || !updates(b.kind)) return true;
  if (level_ != Level::mpi) return false;
  // accumulate_ops: same_op_no_op, and one type. A compare-and-swap is an operation of its own.
  if (a.kind != b.kind) return true;
  if (a.kind == Kind::compare_swap) return a.bytes != b.bytes;
  const bool no_op = a.what.operation == Operation::no_op || b.what.operation == Operation::no_op;
  return a.what.type != b.what.type || (a.what.operation != b.what.operation && !no_op);
}

// The program has waited for its handle: for MPI a put is then done here, not there.
bool Check::is_over(const Record& record) const {
  if (!record.handle || (record.access.kind == Kind::put && level_ == Level::mpi)) return false;
  return *record.handle == 0 || !engine_.is_outstanding(*record.handle);
}

Check::Told Check::told(Rank target, const Record& record) const {
  static_assert(std::is_trivially_copyable_v<Told>);
  Told told{record.access, rank_, target};
  const std::string site = describe_site(record.site);
  std::memcpy(told.site, site.data(), std::min(site.size(), sizeof told.site - 1));
  return told;
}

Status Check::explain(const Told& a, const Told& b) const {
  const uint64_t begin = std::max(a.access.begin, b.access.begin);
  const uint64_t end = std::min(a.access.begin + a.access.bytes, b.access.begin + b.access.bytes);
  const auto name = [](const Access& one) {
    if (one.kind != Kind::update) return std::string(name_of(one.kind));
    return concat(to_string(one.what.operation), " of ", to_string(one.what.type));
  };
  return error(Code::conflict, window_, ": rank ", b.origin, "'s ", name(b.access), " at ", b.site,
               " conflicts with rank ", a.origin, "'s ", name(a.access), " at ", a.site,
               " in the same epoch: bytes [", begin, ", ", end, ") of rank ", b.target,
               "'s memory. ",
               a.origin == b.origin ? "Flush between them" : "Put a fence between them");
}

Status Check::begin_access(Rank target, const Access& access) {
  const std::lock_guard guard(mutex_);
  Target& known = targets_[target];
  known.last.reset();
  known.has_last_buffer = false;
  const Record mine{access, site_};
  const uint64_t from = access.begin < known.longest ? 0 : access.begin - known.longest;
  bool kept = false;
  for (auto i = known.records.lower_bound(from);
       i != known.records.end() && i->first < access.begin + access.bytes; ++i) {
    const Record& other = i->second;
    if (conflict(other.access, access) && !is_over(other))
      return explain(told(target, other), told(target, mine));
    kept = kept || (!other.handle && other.access == access);
  }
  if (kept) return {};
  known.longest = std::max(known.longest, access.bytes);
  known.last = known.records.emplace(access.begin, mine);
  return {};
}

void Check::issued(Rank target, const origin::Handle* handle) {
  const std::lock_guard guard(mutex_);
  Target& known = targets_[target];
  ++issued_;
  if (const auto last = std::exchange(known.last, std::nullopt)) {
    Record& record = (*last)->second;
    record.number = issued_;
    if (handle != nullptr) record.handle = *handle;
  }
  if (!std::exchange(known.has_last_buffer, false)) return;
  Buffer& buffer = known.buffers.back();
  buffer.number = issued_;
  if (!buffer.data.empty()) std::memset(buffer.address, static_cast<int>(missing), buffer.bytes);
}

void Check::refused(Rank target) {
  const std::lock_guard guard(mutex_);
  Target& known = targets_[target];
  if (const auto last = std::exchange(known.last, std::nullopt)) known.records.erase(*last);
  if (known.has_last_buffer) known.buffers.pop_back();
  known.has_last_buffer = false;
}

// ---- buffers ----------------------------------------------------------------------------------

void Check::reads(Rank target, const void* origin, uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  auto* const address = static_cast<std::byte*>(const_cast<void*>(origin));
  Target& known = targets_[target];
  known.buffers.push_back({address, bytes, hash_of(address, bytes), {}, site_, not_issued});
  known.has_last_buffer = true;
}

void* Check::fills(Rank target, void* buffer, uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  auto* const address = static_cast<std::byte*>(buffer);
  std::vector<std::byte> data(address, address + bytes);
  void* const place = data.data();
  Target& known = targets_[target];
  known.buffers.push_back({address, bytes, 0, std::move(data), site_, not_issued});
  known.has_last_buffer = true;
  return place;
}

Status Check::finish(Target& target, Rank rank) const {
  Status first;
  std::vector<std::byte> now;
  const auto report = [&](const Buffer& buffer, std::string_view what) {
    if (!first.ok()) return;
    first = error(Code::invalid, window_, ": the buffer of rank ", rank_, "'s ",
                  buffer.data.empty() ? "put to" : "get from", " rank ", rank, " at ",
                  describe_site(buffer.site), " (", buffer.bytes, " bytes) ", what,
                  " before the call that completes it, at ", describe_site(site_), ": flush first");
  };
  for (Buffer& buffer : target.buffers) {
    if (buffer.number > before_) continue;
    const Seen seen = look_at(buffer.address, buffer.bytes, &now);
    if (seen == Seen::gone) {
      report(buffer, "was freed");
      continue;
    }
    if (buffer.data.empty()) {
      if (seen == Seen::read && hash_of(now.data(), buffer.bytes) != buffer.hash)
        report(buffer, "was changed");
      continue;
    }
    if (seen == Seen::read &&
        !std::all_of(now.begin(), now.end(), [](std::byte b) { return b == missing; }))
      report(buffer, "was written");
    std::memcpy(buffer.address, buffer.data.data(), buffer.bytes);
  }
  std::erase_if(target.buffers, [](const Buffer& buffer) { return buffer.number <= before_; });
  return first;
}

Status Check::done_here(Rank rank) {
  const std::lock_guard guard(mutex_);
  Status first;
  for (auto& [of, target] : targets_) {
    if (rank != no_rank && of != rank) continue;
    first.also(finish(target, of));
    std::erase_if(target.records, [](const auto& entry) {
      return entry.second.access.kind == Kind::get && entry.second.number <= before_;
    });
  }
  return first;
}

Status Check::done_there(Rank rank) {
  const Status status = done_here(rank);
  const std::lock_guard guard(mutex_);
  for (auto& [of, target] : targets_)
    if (rank == no_rank || of == rank)
      std::erase_if(target.records,
                    [](const auto& entry) { return entry.second.number <= before_; });
  return status;
}

// ---- other ranks ------------------------------------------------------------------------------

Status Check::compare(job::Group& group) {
  std::vector<Told> mine;
  for (const auto& [of, target] : targets_)
    for (const auto& [begin, record] : target.records) mine.push_back(told(of, record));
  std::vector<uint64_t> counts(static_cast<size_t>(group.size()));
  const uint64_t count = mine.size();
  SKERRY_TRY(group.allgather(&count, sizeof count, counts.data()));
  mine.resize(*std::ranges::max_element(counts));
  if (mine.empty()) return {};
  std::vector<Told> all(mine.size() * counts.size());
  SKERRY_TRY(group.allgather(mine.data(), mine.size() * sizeof(Told), all.data()));
  std::erase_if(all, [](const Told& one) { return one.origin == no_rank; });
  std::ranges::stable_sort(all, {},
                           [](const Told& one) { return std::pair(one.target, one.access.begin); });
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = i + 1; k < all.size() && all[k].target == all[i].target &&
                           all[k].access.begin < all[i].access.begin + all[i].access.bytes;
         ++k)
      if (all[i].origin != all[k].origin && conflict(all[i].access, all[k].access))
        return explain(all[i], all[k]);
  return {};
}

}  // namespace skerry::window
