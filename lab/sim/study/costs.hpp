// What an event costs in the model: the network's share and each side's processor time. Measured
// ones come from `skerry-sim calibrate`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/pure/status.hpp"

namespace skerry::sim {

struct Costs {
  std::string source = "assumed";  // where the numbers come from; printed with every result
  int64_t latency_ns = 2'000;      // one way, without the ends
  double ns_per_byte = 0.5;        // of payload, one way
  int64_t request_ns = 300;        // origin: issuing one request
  int64_t reply_ns = 300;          // origin: taking its reply
  int64_t service_ns = 500;        // server: applying one request
  int64_t choose_ns = 200;         // origin: choosing a victim
  int64_t connect_ns = 60'000;     // origin: preparing its end of a connection
  int64_t accept_ns = 60'000;      // server: preparing its end
  int64_t ready_ns = 20'000;       // origin: last step before it may send
  bool overlapped_setup = true;    // the server prepares while the origin does (the request for it
                                   // travels first)
  int64_t bye_ns = 500;            // origin: sending the bye
  int64_t bye_service_ns = 500;    // server: taking it and answering
  int64_t close_ns = 80'000;       // origin: releasing its end
  int64_t origin_connection_bytes = 44 * 1024;  // an open connection, origin's side
  int64_t server_connection_bytes = 44 * 1024;  // and the server's
  int64_t origin_link_bytes = 384;    // what an origin keeps of a server it ever talked to
  int64_t server_session_bytes = 48;  // what a server keeps of an origin it ever served
  // Locks alone (lab/locks/study).
  int64_t cpu_atomic_ns = 10;    // a processor's atomic on a line in its cache
  int64_t cpu_transfer_ns = 60;  // on one that another processor changed last
  int64_t adapter_ns = 200;      // network adapter: one atomic of its own
  int64_t wake_ns = 2'000;       // until a sleeping thread runs

  // InfiniBand of the paper's time. Assumed, not measured: set-up and tear-down of some hundred
  // microseconds, 44 KB a connection.
  static Costs infiniband_2010();
  // tcp on a 2-core virtual machine, two network namespaces; a calibration replaces it.
  static Costs tcp();
  static Status by_name(const std::string& name, Costs* costs);
  // JSON as `skerry-sim calibrate` writes it: one object of the names above. Unknown names are
  // errors, absent ones keep the values of `base` (a built-in name in the file, "tcp" if absent).
  static Status read(const std::string& path, Costs* costs);
  std::string json() const;
};

}  // namespace skerry::sim
