#include "job/background.hpp"

#include <algorithm>
#include <system_error>

#include "core/futex.hpp"
#include "job/group.hpp"
#include "job/job.hpp"

namespace skerry::job {
namespace {

Status not_under_way(origin::Handle handle) {
  return error(Code::invalid, "handle ", handle,
               " is not outstanding: it was waited for already, or is not a handle");
}

}  // namespace

Status Background::begin(Group& group, What what, origin::Handle* handle) {
  if (job_.options().goes_on)
    return error(Code::unsupported,
                 "collectives in the background (the _nb forms) are not there yet in a job that "
                 "goes on without its dead: use the blocking ones");
  Lock lock(mutex_);
  std::unique_ptr<Line>& line = lines_[&group];
  if (line == nullptr) {
    lock.unlock();
    Group* twin = nullptr;
    SKERRY_TRY(Group::split(group, 0, group.index(), &twin));
    job_.engine().serve_many_threads();
    lock.lock();
    line = std::make_unique<Line>();
    line->twin = twin;
  }
  if (!line->thread.joinable()) try {
      line->thread = Thread("skerry-collect", [this, &its = *line] { run(its); });
    } catch (const std::system_error& why) {
      return error(Code::no_memory, "no thread for collectives in the background: ", why.what(),
                   "; raise the limit of processes (ulimit -u)");
    }
  *handle = (uint64_t{1} << 63) | ++last_;
  results_[*handle];
  line->begun.emplace_back(*handle, std::move(what));
  line->changed.notify_one();
  return {};
}

void Background::run(Line& line) {
  Job::is_own_thread = true;
  Lock lock(mutex_);
  for (;;) {
    line.changed.wait(lock, [&] { return line.ends || !line.begun.empty(); });
    if (line.begun.empty()) break;
    const auto& [handle, what] = line.begun.front();
    lock.unlock();
    Status status = what(*line.twin);
    lock.lock();
    results_[handle] = {true, std::move(status)};
    line.begun.pop_front();
    done_.notify_all();
  }
  if (!leaves_) return;
  lock.unlock();
  line.twin->part_with(job_.rank());
}

// ---- waiting ----------------------------------------------------------------------------------

Status Background::take(std::map<origin::Handle, Result>::iterator one, origin::Handle* handle) {
  Status status = std::move(one->second.status);
  results_.erase(one);
  *handle = 0;
  return status;
}

Status Background::wait(origin::Handle* handle) {
  const memory::CallSpan call(&job_.spans(), memory::SpanKind::wait, no_rank, 0);
  Lock lock(mutex_);
  const auto one = results_.find(*handle);
  if (one == results_.end()) return not_under_way(*handle);
  lock.unlock();
  // A job that ends ends its collectives: then this is done, too.
  (void)job_.wait_working(no_deadline, [&](int64_t deadline_ns) {
    Lock held(mutex_);
    while (!one->second.is_done) {
      const int64_t left_ns = deadline_ns == no_deadline ? wait_slice_ns
                                                         : deadline_ns - monotonic_ns();
      if (left_ns <= 0) return WaitResult::timeout;
      done_.wait_for(held, std::min(left_ns, wait_slice_ns));
    }
    return WaitResult::reached;
  });
  lock.lock();
  return take(one, handle);
}

Status Background::test(origin::Handle* handle, bool* done) {
  const Lock lock(mutex_);
  const auto one = results_.find(*handle);
  if (one == results_.end()) return not_under_way(*handle);
  *done = one->second.is_done;
  return *done ? take(one, handle) : Status();
}

// ---- the end ----------------------------------------------------------------------------------

void Background::end(Lock& lock, Line& line) {
  line.ends = true;
  line.changed.notify_one();
  lock.unlock();
  if (line.thread.joinable()) line.thread.join();
  lock.lock();
}

Status Background::free_twin(Group& group) {
  std::unique_ptr<Line> line;
  {
    Lock lock(mutex_);
    const auto found = lines_.find(&group);
    if (found == lines_.end()) return {};
    line = std::move(found->second);
    lines_.erase(found);
    if (line == nullptr) return {};
    end(lock, *line);
  }
  const Status status = line->twin->free();
  job_.objects().discard_if_unused(line->twin);
  return status;
}

void Background::leave() {
  const Lock lock(mutex_);
  leaves_ = true;
  for (auto& [group, line] : lines_) {
    if (line == nullptr) continue;
    line->ends = true;
    line->changed.notify_one();
    if (!line->thread.joinable()) line->twin->part_with(job_.rank());  // there was none to be had
  }
}

bool Background::is_twin(const Group& group) {
  const Lock lock(mutex_);
  return std::ranges::any_of(lines_, [&](const auto& of) {
    return of.second != nullptr && of.second->twin == &group;
  });
}

Status Background::finish() {
  Lock lock(mutex_);
  for (auto& [group, line] : lines_)
    if (line != nullptr) end(lock, *line);
  Status first;
  for (const auto& [handle, result] : results_) first.also(result.status);
  return first;
}

}  // namespace skerry::job
