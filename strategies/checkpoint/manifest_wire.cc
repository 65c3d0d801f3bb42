// See manifest_wire.h.
#include "strategies/checkpoint/manifest_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "strategies/checkpoint/crc32c.h"
#include "strategies/checkpoint/header_wire.h"

namespace dtrain::checkpoint {
namespace {

using ManifestJson = nlohmann::json;

constexpr int kManifestVersion = 1;
constexpr int kManifestDepth = 64;
constexpr int kIndexDepth = 4;
constexpr const char* kOwnSum = "crc32c";
constexpr std::string_view kManifestKeys[] = {kOwnSum, "extra", "files", "format", "step", "version", "world_size"};

const ManifestJson& entry_of(const ManifestJson& json, const char* name) {
  const auto at = json.is_object() ? json.find(name) : json.end();
  if (!json.is_object() || at == json.end()) throw Refused(fmt::format("'{}' is missing", name));
  return *at;
}

std::int64_t whole_number(const ManifestJson& json, const char* name, std::int64_t most) {
  const ManifestJson& value = entry_of(json, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > static_cast<std::uint64_t>(most))
    throw Refused(fmt::format("'{}' is no number from 0 to {}", name, most));
  return static_cast<std::int64_t>(value.get<std::uint64_t>());
}

// A file beside this one, and nothing that a path could lead to.
std::string plain_file_name(const ManifestJson& json) {
  const std::string name = json.is_string() ? json.get<std::string>() : "";
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos ||
      std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20; }))
    throw Refused(fmt::format("'{}' is no name of a file in this folder", shown(name)));
  return name;
}

std::uint32_t sum_of(const ManifestJson& json, const std::string& tensor) {
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  if (text.size() != 8 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw Refused(fmt::format("the crc32c of {} is not eight hexadecimal digits", shown(tensor)));
  return static_cast<std::uint32_t>(std::stoul(text, nullptr, 16));
}

ManifestFile file_of(const ManifestJson& json) {
  ManifestFile file;
  file.name = plain_file_name(entry_of(json, "name"));
  file.bytes = static_cast<std::uint64_t>(whole_number(json, "bytes", std::numeric_limits<std::int64_t>::max()));
  const ManifestJson& sums = entry_of(json, "crc32c");
  if (!sums.is_object()) throw Refused("'crc32c' is no object");
  for (const auto& [tensor, sum] : sums.items()) file.sums[tensor] = sum_of(sum, tensor);
  return file;
}

ManifestJson extra_of(const std::string& extra) {
  try {
    return parse_json(extra, kManifestDepth - 1);
  } catch (const Refused&) {
    throw Refused(fmt::format("'extra' is no JSON, or deeper than {} levels", kManifestDepth - 1));
  }
}

// Of all that is in the manifest but the sum itself, as compact JSON with its keys in order.
std::string own_sum(const ManifestJson& json) {
  ManifestJson rest = json;
  rest.erase(kOwnSum);
  const std::string text = rest.dump();
  return fmt::format("{:08x}", crc32c(0, text.data(), text.size()));
}

// A damaged `extra` would make training go on otherwise.
void require_undamaged(const ManifestJson& json) {
  for (const auto& item : json.items()) {
    if (std::find(std::begin(kManifestKeys), std::end(kManifestKeys), item.key()) == std::end(kManifestKeys))
      throw Refused(fmt::format("{} is no key of it", shown(item.key())));
  }
  const auto told = json.find(kOwnSum);
  if (told == json.end()) return;  // nothing is known
  if (const std::string sum = own_sum(json); *told != sum)
    throw Refused(fmt::format("it is damaged: its crc32c is {}, and should be {}", sum, told->dump()));
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  ManifestJson files = ManifestJson::array();
  for (const ManifestFile& file : manifest.files) {
    ManifestJson sums = ManifestJson::object();
    for (const auto& [tensor, sum] : file.sums) sums[tensor] = fmt::format("{:08x}", sum);
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"crc32c", sums}});
  }
  ManifestJson json = {{"format", "dtrain checkpoint"},
                       {"version", kManifestVersion},
                       {"step", manifest.step},
                       {"world_size", manifest.world_size},
                       {"files", files}};
  if (!manifest.extra.empty()) json["extra"] = extra_of(manifest.extra);
  json[kOwnSum] = own_sum(json);
  return json.dump(1) + "\n";
}

Manifest parse_manifest(std::string_view text) {
  const ManifestJson json = parse_json(text, kManifestDepth);
  if (entry_of(json, "format") != "dtrain checkpoint") throw Refused("'format' is not \"dtrain checkpoint\"");
  const std::int64_t version = whole_number(json, "version", std::numeric_limits<int>::max());
  if (version != kManifestVersion)
    throw Refused(
        fmt::format("it has version {} of the format, and this dtrain reads version {}", version, kManifestVersion));
  Manifest manifest;
  manifest.step = whole_number(json, "step", std::numeric_limits<std::int64_t>::max());
  manifest.world_size = static_cast<int>(whole_number(json, "world_size", std::numeric_limits<int>::max()));
  const ManifestJson& files = entry_of(json, "files");
  if (!files.is_array()) throw Refused("'files' is no list");
  std::set<std::string> names;
  for (const ManifestJson& file : files) {
    manifest.files.push_back(file_of(file));
    if (!names.insert(manifest.files.back().name).second)
      throw Refused(fmt::format("'files' has {} twice", shown(manifest.files.back().name)));
  }
  require_undamaged(json);
  if (json.contains("extra")) manifest.extra = json["extra"].dump();
  return manifest;
}

std::vector<std::string> files_of_index(std::string_view text) {
  const ManifestJson json = parse_json(text, kIndexDepth);
  const ManifestJson& map = entry_of(json, "weight_map");
  if (!map.is_object()) throw Refused("'weight_map' is no object");
  std::set<std::string> names;
  for (const auto& entry : map.items()) names.insert(plain_file_name(entry.value()));
  return {names.begin(), names.end()};
}

}  // namespace dtrain::checkpoint
