#pragma once
// --rdzv-conf KEY=VALUE,... as torchrun's two ways to meet read it. Pure.
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

enum class Meeting { fixed, c10d, etcd };  // etcd has the keys of c10d and its own

struct RdzvConf {
  std::optional<std::chrono::milliseconds> join_timeout;       // c10d
  std::optional<std::chrono::milliseconds> last_call_timeout;  // c10d
  std::optional<std::chrono::milliseconds> timeout;            // fixed
  std::optional<std::string> keep_alive_interval;              // as typed: they have work to do only across hosts
  std::optional<std::string> keep_alive_max_attempt;
  std::optional<bool> rejoin;
  std::optional<bool> succession;
  std::map<std::string, std::string> etcd;  // its own keys as typed, by torchrun's shorter names
  std::vector<std::string> notes;           // what has no effect
};

// As in torchrun, each way checks the values of the keys that it has, also of those without effect here, and no others.
// `several`: nodes may meet, so that a key of the other way is worth a note. Errors do not name the flag.
Result<RdzvConf> read_rdzv_conf(std::string_view text, Meeting meeting, bool several);

}  // namespace dtrain::cli
