#include "data/times/wait_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace dtrain::data {

std::optional<LoaderTimes> WaitWatch::add(const LoaderTimes& times) {
  all_ += times;
  window_ += times;
  if (window_.batches < window_batches || window_.seconds < window_seconds) return std::nullopt;
  const LoaderTimes ended = std::exchange(window_, {});
  if (ended.waited <= share_max * ended.seconds || all_.seconds < next_line_) return std::nullopt;
  next_line_ = all_.seconds + silent_seconds;
  return ended;
}

std::string wait_line(const std::string& who, const LoaderTimes& window, int prefetch) {
  const double busy = std::max({window.disk, window.decode, window.copy});
  std::string advice;
  if (window.ahead > busy) {
    advice = fmt::format("The reader is often ahead, so batches come unevenly: raise prefetch (now {})", prefetch);
  } else if (window.disk == busy) {
    advice =
        "Reading the files takes longest: name fewer columns, set fully_executed for later epochs from memory, or use "
        "a faster disk";
  } else if (window.decode == busy) {
    advice = "Decoding takes longest: name fewer columns, or write the files with lz4 or without compression";
  } else {
    advice = "Copying rows takes longest: set a smaller window_size_bytes, which stays in the processor's caches";
  }
  const double reading = std::max(window.disk + window.decode + window.copy + window.ahead, 1e-9);
  return fmt::format(
      "dtrain: {}: training waited for data {:.0f} % of the last {:.0f} s. The reader: disk {:.0f} %, decode {:.0f} %, "
      "copy {:.0f} %, ahead {:.0f} %. {}",
      who, 100 * window.waited / window.seconds, window.seconds, 100 * window.disk / reading,
      100 * window.decode / reading, 100 * window.copy / reading, 100 * window.ahead / reading, advice);
}

}  // namespace dtrain::data
