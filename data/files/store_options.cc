// Tested by test/unit/data/files/store_options_test.cc.
#include "data/files/store_options.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

constexpr const char* kFile = "DTRAIN_STORE_CREDENTIALS";
constexpr const char* kTimeout = "DTRAIN_STORE_TIMEOUT_S";
constexpr std::size_t kMostFile = 65536;

struct Known {
  const char* name;
  const char* other;   // a variable that means the same, and counts before it or, if it is more general, after it
  const char* secret;  // which credentials it is one of
};

constexpr std::array<Known, 12> kKnown = {{{"AWS_ACCESS_KEY_ID", nullptr, "s3"},
                                           {"AWS_SECRET_ACCESS_KEY", nullptr, "s3"},
                                           {"AWS_SESSION_TOKEN", nullptr, "s3"},
                                           {"AWS_REGION", "AWS_DEFAULT_REGION", nullptr},
                                           {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", nullptr},
                                           {"AWS_CA_BUNDLE", nullptr, nullptr},
                                           {"GOOGLE_APPLICATION_CREDENTIALS", nullptr, "gs"},
                                           {"STORAGE_EMULATOR_HOST", nullptr, nullptr},
                                           {"AZURE_STORAGE_KEY", nullptr, "abfs"},
                                           {"AZURE_STORAGE_SAS_TOKEN", nullptr, "abfs"},
                                           {"AZURE_STORAGE_SERVICE_ENDPOINT", nullptr, nullptr},
                                           {kTimeout, nullptr, nullptr}}};

[[noreturn]] void refuse(const std::string& where, const std::string& why) {
  throw DataError(fmt::format("dtrain: {}: {}", where, why));
}

std::string secrets_of(const std::string& name) {
  for (const Known& known : kKnown)
    if (name == known.name && known.secret != nullptr) return known.secret;
  return "";
}

bool is_known(const std::string& name) {
  for (const Known& known : kKnown)
    if (name == known.name) return true;
  return false;
}

std::map<std::string, std::string> values_of(const std::string& where, const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse(where, "it is no JSON object of names and values, as AWS_ACCESS_KEY_ID");
  std::map<std::string, std::string> values;
  for (const auto& [name, value] : json.items()) {
    if (!is_known(name)) refuse(where, fmt::format("there is no option '{}' of a store", name.substr(0, 100)));
    if (!value.is_string() || value.get_ref<const std::string&>().empty())
      refuse(where, fmt::format("{} must be a text that is not empty", name));
    values[name] = value.get<std::string>();
  }
  return values;
}

// Its messages have the file's name and not its content.
std::string text_of(const std::string& path) {
  const auto failed = [&] {
    const int error = errno;
    if (path.find_first_of("{\n") != std::string::npos)  // a secret, which dtrain would have put into a file
      refuse(kFile, "it must be the path of a file; only a job that dtrain starts may have the credentials themselves");
    refuse(fmt::format("{}: {}", kFile, path), std::generic_category().message(error));
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) failed();
  struct stat facts = {};
  std::string text(kMostFile, '\0');
  const bool is_there = ::fstat(file, &facts) == 0;
  const ssize_t got = is_there ? ::read(file, text.data(), text.size()) : -1;
  const int error = errno;
  ::close(file);
  errno = error;
  if (got < 0) failed();
  if (facts.st_uid != ::geteuid() && facts.st_uid != 0) refuse(path, "it belongs to another user, who could change it");
  if ((facts.st_mode & 077U) != 0) refuse(path, "others can read these credentials; do `chmod 600` on the file");
  text.resize(static_cast<std::size_t>(got));
  return text;
}

}  // namespace

const std::string& StoreOptions::of(const std::string& name) const {
  static const std::string none;
  const auto found = values.find(name);
  return found == values.end() ? none : found->second;
}

int StoreOptions::timeout_s() const {
  const std::string& text = of(kTimeout);
  if (text.empty()) return 10;
  int seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 1 || seconds > 3600)
    refuse(kTimeout, "it must be a whole number of seconds from 1 to 3600");
  return seconds;
}

StoreOptions merged_options(const std::string& where, const std::string& file,
                            const std::function<const char*(const char* name)>& environment) {
  StoreOptions options;
  if (!file.empty()) options.values = values_of(where, file);
  const auto own = options.values;
  const auto has_own = [&](const char* secret) {
    for (const auto& [name, value] : own)
      if (secrets_of(name) == secret) return true;
    return false;
  };
  for (const Known& known : kKnown) {
    if (own.contains(known.name) || (known.secret != nullptr && has_own(known.secret))) continue;
    const std::string_view name = known.name;
    // The endpoint for S3 alone is the more special one, and the default region is the more general one.
    const char* first = name == "AWS_ENDPOINT_URL" ? known.other : known.name;
    const char* second = first == known.name ? known.other : known.name;
    for (const char* each : {first, second}) {
      const char* value = each == nullptr ? nullptr : environment(each);
      if (value == nullptr || *value == '\0') continue;
      options.values[known.name] = value;
      break;
    }
  }
  if (options.of("AWS_ACCESS_KEY_ID").empty() != options.of("AWS_SECRET_ACCESS_KEY").empty())
    refuse("AWS_ACCESS_KEY_ID", "it needs AWS_SECRET_ACCESS_KEY, and the other way round; set both or neither");
  return options;
}

StoreOptions store_options() {
  const char* path = std::getenv(kFile);
  const bool has_file = path != nullptr && *path != '\0';
  return merged_options(has_file ? path : "", has_file ? text_of(path) : "",
                        [](const char* name) { return std::getenv(name); });
}

}  // namespace dtrain::data
