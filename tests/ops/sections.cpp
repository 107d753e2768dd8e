// The list of all operation tests.
#include "ops/check.hpp"

namespace skerry::test {

const Section sections[] = {
    {"segments", run_segments, true},
    {"makers", run_makers, true},
    {"transfer", run_transfer, true},
    {"words", run_words, true},
    {"update", run_update, true},
    {"notify", run_notify, true},
    {"collectives", run_collectives, true},
    {"random_collectives", run_random_collectives, true},
    {"many_ranks", run_many_ranks, false},
    {"groups", run_groups, true},
    {"mutexes", run_mutexes, true},
    {"windows", run_windows, true},
    {"window_threads", run_window_threads, false},
    {"window_checks", run_window_checks, false},
    {"window_litmus", run_window_litmus, true},
    {"errors", run_errors, true},
    {"litmus", run_litmus, true},
    {"counters", run_counters, true},
    {"stream", run_stream, true},
    {"huge", run_huge, false},
    {"queued", run_queued, false},
    {"crowd", run_crowd, false},
    {"long_gets", run_long_gets, false},
    {nullptr, nullptr, false},
};

}  // namespace skerry::test
