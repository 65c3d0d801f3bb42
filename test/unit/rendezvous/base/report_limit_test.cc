#include "rendezvous/base/report_limit.h"

#include <vector>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

using Lines = std::vector<std::string>;

const std::string kMore = " (further lines of these ten seconds are left out)";

struct Log {
  ReportLimit limit{3};
  MonoTime now{};
  Lines said;

  void report(const std::string& line) {
    if (auto text = limit.admit(line, now)) said.push_back(*text);
  }
};

}  // namespace

TEST_CASE("report limit: so many lines in ten seconds, and the last says that there are more") {
  Log log;
  for (int i = 0; i < 100; ++i) log.report("line " + std::to_string(i));
  CHECK(log.said == Lines{"line 0", "line 1", "line 2" + kMore});
  log.now += ReportLimit::kWindow;
  log.report("still within");
  CHECK(log.said.size() == 3);
  log.now += std::chrono::milliseconds(1);
  for (int i = 0; i < 100; ++i) log.report("line " + std::to_string(i));
  CHECK(log.said.size() == 6);
  CHECK(log.said.back() == "line 2" + kMore);
}

TEST_CASE("report limit: none twice in a row, and what is left out does not count") {
  Log log;
  for (int i = 0; i < 50; ++i) log.report("a");
  log.report("b");
  log.report("a");
  CHECK(log.said == Lines{"a", "b", "a" + kMore});
  log.now += ReportLimit::kWindow + std::chrono::milliseconds(1);
  log.report("a");
  CHECK(log.said.back() == "a");
}
