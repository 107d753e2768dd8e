#include "handles.hpp"

#include <deque>
#include <vector>

namespace skerry::armci {
namespace {

// armci_hdl_t::request is 1 + the index of a record, with this bit set while the handle aggregates (then perhaps without a record: index 0).
constexpr int aggregate_bit = 1 << 30;

struct Record {
  int generation = 0;  // of the handle that owns it; a copy of a handle waited for earlier has another
  bool in_use = false;
  std::vector<skerry_handle> requests;
};

// Guarded by Guard. A deque: records stay where they are.
std::deque<Record> records;
std::vector<int> free_records;

Record* record_of(const armci_hdl_t& handle) {
  const int index = (handle.request & ~aggregate_bit) - 1;
  if (index < 0 || static_cast<size_t>(index) >= records.size()) return nullptr;
  Record& record = records[static_cast<size_t>(index)];
  return record.in_use && record.generation == handle.generation ? &record : nullptr;
}

// Takes what a handle stands for; the handle then stands for nothing but keeps aggregating if it did.
std::vector<skerry_handle> take(armci_hdl_t* handle) {
  const Guard guard;
  std::vector<skerry_handle> requests;
  if (Record* record = record_of(*handle)) {
    requests.swap(record->requests);
    record->in_use = false;
    ++record->generation;
    free_records.push_back((handle->request & ~aggregate_bit) - 1);
  }
  handle->request &= aggregate_bit;
  return requests;
}

void tie(armci_hdl_t* handle, skerry_handle request) {
  const Guard guard;
  Record* record = record_of(*handle);
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

int wait(const char* call, armci_hdl_t* handle) {
  if ((handle->request & ~aggregate_bit) == 0) return 0;
  for (skerry_handle request : take(handle)) settle(call, skerry_wait(runtime().job, &request));
  return 0;
}

}  // namespace

Request::Request(const char* call, armci_hdl_t* handle) : call_(call), handle_(handle) {
  if (handle != nullptr && (handle->request & aggregate_bit) == 0) wait(call, handle);
}

void Request::keep() {
  if (request_ != 0) tie(handle_, request_);
}

void wait_explicit() {
  std::vector<skerry_handle> all;
  {
    const Guard guard;
    for (size_t i = 0; i < records.size(); ++i) {  // their handles find nothing when they are waited for
      Record& record = records[i];
      if (!record.in_use) continue;
      all.insert(all.end(), record.requests.begin(), record.requests.end());
      record.requests.clear();
      record.in_use = false;
      ++record.generation;
      free_records.push_back(static_cast<int>(i));
    }
  }
  for (skerry_handle& request : all) settle("WaitAll", skerry_wait(runtime().job, &request));
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
  if (handle == nullptr) return complain("Wait", "the handle is null: ARMCI_WaitAll waits for operations without one");
  return wait("Wait", handle);
}

PROFILED(int, Test, (armci_hdl_t * handle)) {
  need_start("Test");
  if (handle == nullptr) return complain("Test", "the handle is null");
  std::vector<skerry_handle> requests = take(handle);
  bool pending = false;
  for (skerry_handle& request : requests) {
    int done = 0;
    settle("Test", skerry_test(runtime().job, &request, &done));
    if (done != 0) continue;
    pending = true;
    tie(handle, request);
  }
  return pending ? 1 : 0;
}

PROFILED(int, WaitAll, (void)) {
  need_start("WaitAll");
  wait_explicit();
  return settle("WaitAll", skerry_wait_all(runtime().job));
}

PROFILED(int, WaitProc, (int proc)) {
  need_start("WaitProc");
  if (!is_rank(proc)) return complain("WaitProc", text("there is no process ", proc));
  return PARMCI_WaitAll();
}

}  // namespace skerry::armci
