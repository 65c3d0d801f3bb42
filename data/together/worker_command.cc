// Tested by test/process/data/nodes_test.py.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "data/os/disk_full.h"
#include "data/shared/shared_files.h"
#include "data/together/together.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

constexpr int kCannotWork = 125;
constexpr std::chrono::seconds kSightPatience{3};  // the folder was made a moment ago, perhaps on another host

std::size_t number_of(const char* variable, std::size_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strtoul(text, nullptr, 10);
}

}  // namespace

int run_worker(const std::filesystem::path& folder) {
  const bool again = number_of("TORCHELASTIC_RESTART_COUNT", 0) > 0;
  std::string why;
  try {
    work_together(folder, {number_of("RANK", 0), number_of("WORLD_SIZE", 1)}, number_of("LOCAL_WORLD_SIZE", 1),
                  again ? std::chrono::seconds(0) : kSightPatience);
    return 0;
  } catch (const NotThere& gone) {
    why = fmt::format("dtrain: {}: it has been removed while the work was going on", gone.path);
  } catch (const std::exception& error) {
    why = error.what();
  }
  // The process that began takes the last turn. It finds the disk full too, and says it once for all; a restart would
  // be for nothing.
  if (says_disk_full(why)) return 0;
  std::fputs((why + "\n").c_str(), stderr);
  return kCannotWork;
}

}  // namespace dtrain::data
