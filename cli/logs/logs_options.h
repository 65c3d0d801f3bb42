#pragma once
// What was typed after `dtrain logs`. Pure but for the time zone.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/job/job_spec.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct LogsOptions {
  std::string folder;
  std::optional<launcher::RankSet> ranks;  // local ranks; none: all
  std::string text;                        // lines that contain it; empty: all
  std::optional<int64_t> since_unix;       // files that were written to at or after that
  std::optional<int> attempt;              // rounds of that restart count; none: the last round
  launcher::Streams streams = launcher::Streams::all;
  bool follow = false;
};

// A time: 30s, 10m, 2h or 1d before `now`; or local 2026-11-21, 2026-11-21T13:00 or 13:00, with seconds if you like.
Result<int64_t> parse_since(std::string_view text, int64_t now);

Result<LogsOptions> parse_logs(const std::vector<std::string>& words, int64_t now);

}  // namespace dtrain::cli
