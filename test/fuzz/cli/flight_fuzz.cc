// Fuzzes `dtrain flight`: files of workers, which may be anything. Whatever is in them, there is one line that refuses
// them, or a story that harms no terminal and JSON that can be read.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/flight/flight_reading.h"
#include "cli/flight/flight_story.h"
#include "cli/flight/flight_text.h"
#include "launcher/evidence/report_lines.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

constexpr char kNext = '\x1e';  // between two files

void check_story(const FlightStory& story) {
  for (const std::string& line : launcher::lines_of(flight_text(story)))
    DT_CHECK(!has_control_bytes(line), "a story harms no terminal");
  DT_CHECK(nlohmann::json::accept(flight_json(story)), "programs can read it");
}

}  // namespace

// Files of several ranks.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<FlightReading> files;
  for (std::size_t from = 0; from <= text.size() && files.size() < 8;) {
    const std::size_t end = std::min(text.find(kNext, from), text.size());
    auto reading = read_flight(std::string_view(text).substr(from, end - from), "flight.json");
    if (reading)
      files.push_back(std::move(*reading));
    else
      check_one_line(reading.error().message);
    from = end + 1;
  }
  if (files.empty()) return 0;
  auto story = flight_story(std::move(files));
  if (story)
    check_story(*story);
  else
    check_one_line(story.error().message);
  return 0;
}
