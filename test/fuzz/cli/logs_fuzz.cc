// Fuzzes what is typed after `dtrain logs`: it ends with options or with one line, and a time is never far off.
#include <cstdint>
#include <string>

#include "cli/base/text.h"
#include "cli/logs/logs_options.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::cli;

// The words, as in argv each up to a zero byte.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kNow = 1795246790;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto options = parse_logs(split(text, '\0'), kNow);
  if (options) {
    DT_CHECK(!options->folder.empty(), "logs are somewhere");
    DT_CHECK(!options->attempt || *options->attempt >= 0, "attempts are counted from 0");
  } else {
    DT_CHECK(options.error().kind == ErrorKind::usage, "whatever was typed wrongly is a usage error");
    check_one_line(options.error().message);
  }
  if (const auto since = parse_since(text, kNow); !since) check_one_line(since.error().message);
  return 0;
}
