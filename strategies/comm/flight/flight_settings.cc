// See flight_settings.h.
#include "strategies/comm/flight/flight_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <csignal>
#include <optional>

namespace dtrain {
namespace {

constexpr std::size_t kMostRecords = 1U << 20;

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int signal_in(const std::string& text) {
  const std::string name = text.starts_with("SIG") ? text.substr(3) : text;
  if (name.empty() || name == "USR2") return SIGUSR2;
  if (name == "USR1") return SIGUSR1;
  if (name == "none") return 0;
  throw ConfigError(fmt::format("dtrain: DTRAIN_FLIGHT_SIGNAL='{}' is not USR1, USR2 or none", text));
}

}  // namespace

FlightSettings read_flight_settings(const EnvLookup& lookup) {
  const auto text = [&](const char* name) { return lookup(name).value_or(""); };
  const auto number = [&](const char* name, int otherwise) { return number_in<int>(text(name)).value_or(otherwise); };
  FlightSettings settings;
  if (const std::string records = text("DTRAIN_FLIGHT_RECORDS"); !records.empty()) {
    const auto value = number_in<std::size_t>(records);
    if (!value || *value > kMostRecords)
      throw ConfigError(
          fmt::format("dtrain: DTRAIN_FLIGHT_RECORDS='{}' is not a whole number from 0 to {}", records, kMostRecords));
    settings.records = *value;
  }
  settings.folder = text("DTRAIN_FLIGHT_DIR");
  settings.make_folder = !settings.folder.empty();
  if (settings.folder.empty()) settings.folder = text("DTRAIN_ROUND_DIR");
  settings.signal = signal_in(text("DTRAIN_FLIGHT_SIGNAL"));
  settings.rank = number("RANK", -1);
  settings.world_size = number("WORLD_SIZE", -1);
  settings.round = number("DTRAIN_ROUND", 0);
  settings.restarts = number("TORCHELASTIC_RESTART_COUNT", 0);
  settings.job = text("TORCHELASTIC_RUN_ID");
  return settings;
}

}  // namespace dtrain
