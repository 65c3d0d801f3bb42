#include "data/process/progress.h"

#include <fmt/format.h>

namespace dtrain::data {

std::string progress_text(const Progress& now) {
  if (now.done >= now.all) return {};
  const std::string pass = now.pass < now.passes ? fmt::format(" (pass {} of {})", now.pass + 1, now.passes) : "";
  return fmt::format("{}{}: {} % ", now.doing, pass, now.done * 100 / now.all);
}

}  // namespace dtrain::data
