#include "launcher/base/wall_time.h"

#include <fmt/core.h>

#include <cstdlib>
#include <ctime>

namespace dtrain::launcher {

std::string iso_time(std::chrono::system_clock::time_point at) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()).count();
  const auto fraction = (ms % 1000 + 1000) % 1000;
  const std::time_t seconds = static_cast<std::time_t>((ms - fraction) / 1000);
  std::tm parts{};
  char text[40] = {};
  if (::localtime_r(&seconds, &parts) == nullptr) return "?";
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  const long minutes = std::labs(parts.tm_gmtoff) / 60;
  return fmt::format("{}.{:03}{}{:02}:{:02}", text, fraction, parts.tm_gmtoff < 0 ? '-' : '+', minutes / 60,
                     minutes % 60);
}

}  // namespace dtrain::launcher
