#pragma once
// The plan of `dtrain run FLAGS true`, or why there is none.
#include <string>
#include <utility>
#include <vector>

#include "cli/resolve/resolve.h"
#include "test/support/catch.h"

namespace dtrain::cli {

inline Result<Plan> plan_or_error(std::vector<std::string> flags, const Host& host) {
  flags.emplace_back("true");
  auto raw = parse(flags);
  REQUIRE(raw.ok());
  return resolve(*raw, host);
}

inline Plan plan_of_flags(std::vector<std::string> flags, const Host& host) {
  auto answer = plan_or_error(std::move(flags), host);
  INFO((answer ? "" : answer.error().message));
  REQUIRE(answer.ok());
  return *answer;
}

}  // namespace dtrain::cli
