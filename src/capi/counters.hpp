// The list of counters: what C, C++, Python, the report at the end of a job and docs/counters.md
// show. Nothing else names them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace skerry::job {
class Job;
}

namespace skerry::capi {

// How values of several processes, or of two moments, belong together.
enum class CounterKind : uint8_t {
  total,  // only grows: differences and sums make sense
  now,    // the present value: sums make sense
  peak,   // the highest value so far: only the maximum makes sense
};

enum class CounterSection : uint8_t { operations, connections, server, trunks, refused };
std::string_view to_string(CounterSection section);  // its heading

struct CounterSources;  // one consistent reading of all parts of the process

struct CounterEntry {
  CounterSection section;
  const char* name;
  CounterKind kind;
  const char* unit;
  const char* description;  // one line
  uint64_t (*read)(const CounterSources& sources);
};
// In the order in which they are shown. An index is good for this version of the library only.
std::span<const CounterEntry> counters();

// All values at one moment; `values` has room for counters().size().
void read_counters(job::Job& job, uint64_t* values);

}  // namespace skerry::capi
