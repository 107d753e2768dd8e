#include "handles.hpp"

#include <condition_variable>
#include <deque>
#include <vector>

namespace skerry::armci {
namespace {

struct Record {
  int generation = 0;  // of the handle that owns it; a copy of a handle waited for earlier has
                       // another
  bool in_use = false;
  bool busy = false;  // a thread waits for the requests or tests them; they are its alone until it
                      // is done
  std::vector<skerry_handle> requests;
};

// Guarded by Guard. A deque: records stay where they are.
std::deque<Record> records;
std::vector<int> free_records;
std::condition_variable_any
    idle;  // some record is not busy any more; only where several threads are

int index_of(const armci_hdl_t& handle) { return (handle.request & ~aggregate_bit) - 1; }

Record* record_of(const armci_hdl_t& handle) {
  const int index = index_of(handle);
  if (index < 0 || static_cast<size_t>(index) >= records.size()) return nullptr;
  Record& record = records[static_cast<size_t>(index)];
  return record.in_use && record.generation == handle.generation ? &record : nullptr;
}

// With a Guard. Null: the handle stands for nothing, perhaps since another thread has waited for
// it.
Record* idle_record_of(const armci_hdl_t& handle) {
  Record* record = nullptr;
  while ((record = record_of(handle)) != nullptr && record->busy) idle.wait(runtime().mutex);
  return record;
}

// With a Guard.
void retire(int index) {
  Record& record = records[static_cast<size_t>(index)];
  record.requests.clear();
  record.in_use = record.busy = false;
  ++record.generation;
  free_records.push_back(index);
}

void tie(armci_hdl_t* handle, skerry_handle request) {
  const Guard guard;
  Record* record = idle_record_of(*handle);
  if (record == nullptr) {
    if (free_records.empty()) {
      free_records.push_back(static_cast<int>(records.size()));
      records.emplace_back();
    }
    const int index = free_records.back();
    free_records.pop_back();
    record = &records[static_cast<size_t>(index)];
    record->in_use = true;
    handle->request = (handle->request & aggregate_bit) | (index + 1);
    handle->generation = record->generation;
  }
  record->requests.push_back(request);
}

// The handle then stands for nothing but keeps aggregating if it did. Its record is retired only
// when the requests are done: another thread that waits for the same ones must not go on before.
int wait(const char* call, armci_hdl_t* handle) {
  if (index_of(*handle) < 0) return 0;
  Record* record = nullptr;
  {
    const Guard guard;
    record = idle_record_of(*handle);
    if (record != nullptr) record->busy = true;
  }
  if (record != nullptr) {
    for (skerry_handle& request : record->requests)
      settle(call, skerry_wait(runtime().job, &request));
    const Guard guard;
    retire(index_of(*handle));
    idle.notify_all();
  }
  handle->request &= aggregate_bit;
  return 0;
}

}  // namespace

Request::Request(const char* call, armci_hdl_t* handle) : call_(call), handle_(handle) {
  if (handle != nullptr && (handle->request & aggregate_bit) == 0) wait(call, handle);
}

void Request::keep() {
  if (request_ != 0) tie(handle_, request_);
}

// One record at a time: two threads that kept several would wait for each other.
void wait_explicit() {
  for (size_t i = 0;; ++i) {
    armci_hdl_t handle{};
    {
      const Guard guard;
      if (i >= records.size()) return;
      if (!records[i].in_use) continue;
      handle = {static_cast<int>(i) + 1, records[i].generation};
    }
    wait("WaitAll", &handle);
  }
}

// skerry_finalize completes the requests.
void end_handles() {
  const Guard guard;
  for (size_t i = 0; i < records.size(); ++i)
    if (records[i].in_use) retire(static_cast<int>(i));
}

PROFILED(void, INIT_HANDLE, (armci_hdl_t * handle)) {
  if (handle != nullptr) *handle = armci_hdl_t{};
}
PROFILED(void, SET_AGGREGATE_HANDLE, (armci_hdl_t * handle)) {
  if (handle != nullptr) handle->request |= aggregate_bit;
}
PROFILED(void, UNSET_AGGREGATE_HANDLE, (armci_hdl_t * handle)) {
  if (handle != nullptr) handle->request &= ~aggregate_bit;
}

PROFILED(int, Wait, (armci_hdl_t * handle)) {
  need_start("Wait");
  if (handle == nullptr)
    return complain("Wait", "the handle is null: ARMCI_WaitAll waits for operations without one");
  return wait("Wait", handle);
}

PROFILED(int, Test, (armci_hdl_t * handle)) {
  need_start("Test");
  if (handle == nullptr) return complain("Test", "the handle is null");
  Record* record = nullptr;
  {
    const Guard guard;
    record = record_of(*handle);
    if (record != nullptr && record->busy) return 1;  // another thread is at it
    if (record != nullptr) record->busy = true;
  }
  if (record != nullptr) {
    std::erase_if(record->requests, [](skerry_handle request) {
      int done = 0;
      settle("Test", skerry_test(runtime().job, &request, &done));
      return done != 0;
    });
    const Guard guard;
    idle.notify_all();
    record->busy = false;
    if (!record->requests.empty()) return 1;
    retire(index_of(*handle));
  }
  handle->request &= aggregate_bit;
  return 0;
}

PROFILED(int, WaitAll, (void)) {
  need_start("WaitAll");
  wait_explicit();
  return settle("WaitAll", skerry_wait_implicit(runtime().job));
}

PROFILED(int, WaitProc, (int proc)) {
  need_start("WaitProc");
  if (!is_rank(proc)) return complain("WaitProc", text("there is no process ", proc));
  return PARMCI_WaitAll();
}

}  // namespace skerry::armci
