// Fuzzes the options of a ParquetLoader and of a MixtureLoader as JSON, as the C interface and DTRAIN_LOADER have them:
// they are refused with one line, or they are options, and what DTRAIN_LOADER may say, all options may say.
#include <cstdint>
#include <string>

#include "data/options/loader_json.h"
#include "data/options/mixture_json.h"
#include "dtrain/errors.h"
#include "rendezvous/base/check.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using Options = ParquetLoaderOptions;

namespace {

template <typename Of>
bool taken(void (*set)(const std::string&, const std::string&, Of&), const std::string& text, Of& options) {
  try {
    set("DTRAIN_LOADER", text, options);
    return true;
  } catch (const ConfigError& error) {
    DT_CHECK(std::string(error.what()).starts_with("dtrain: DTRAIN_LOADER: "), "a refusal says whose it is");
    check_one_line(error.what());
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  MixtureLoaderOptions mixture;
  if (taken(data::set_options, text, mixture))
    for (const MixtureSource& source : mixture.sources) DT_CHECK(source.paths.size() <= size, "paths are of the text");
  Options all, section;
  const bool by_options = taken(data::set_options, text, all);
  if (!taken(data::set_loader_section, text, section)) return 0;
  DT_CHECK(by_options, "a section of the loader is made of options");
  DT_CHECK(all.window_size_bytes == section.window_size_bytes && all.fully_executed == section.fully_executed,
           "they mean the same");
  DT_CHECK(section.window_size_bytes >= 0 || section.window_size_bytes == Options::auto_window, "a window");
  return 0;
}
