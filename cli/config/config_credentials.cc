// Tested by test/unit/cli/config/config_credentials_test.cc.
#include "cli/config/config_credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/config/config_words.h"

namespace dtrain::cli {
namespace {

using CredentialsJson = nlohmann::ordered_json;

// A key of Ludwig's, and the variable by which tools of the store know the same.
struct CredentialKey {
  std::string_view map;  // where it stands
  std::string_view name;
  std::string_view variable;
};
constexpr CredentialKey kCredentialKeys[] = {
    {"s3.client_kwargs", "aws_access_key_id", "AWS_ACCESS_KEY_ID"},
    {"s3.client_kwargs", "aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"},
    {"s3.client_kwargs", "aws_session_token", "AWS_SESSION_TOKEN"},
    {"s3.client_kwargs", "endpoint_url", "AWS_ENDPOINT_URL"},
    {"s3.client_kwargs", "region_name", "AWS_REGION"},
    {"gs", "token", "GOOGLE_APPLICATION_CREDENTIALS"},
    {"gs", "endpoint_url", "STORAGE_EMULATOR_HOST"},
};
constexpr std::string_view kMaps[] = {"s3", "s3.client_kwargs", "gs"};
constexpr unsigned kOfOthers = 077;

std::string within_map(std::string_view map, std::string_view name) {
  return map.empty() ? std::string(name) : fmt::format("{}.{}", map, name);
}

bool is_map_of_keys(const std::string& name) {
  return std::find(std::begin(kMaps), std::end(kMaps), name) != std::end(kMaps);
}

const CredentialKey* find_credential(std::string_view map, std::string_view name) {
  const auto found = std::find_if(std::begin(kCredentialKeys), std::end(kCredentialKeys),
                                  [&](const CredentialKey& key) { return key.map == map && key.name == name; });
  return found == std::end(kCredentialKeys) ? nullptr : &*found;
}

bool is_endpoint(std::string_view url) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!url.starts_with(scheme)) continue;
    url.remove_prefix(scheme.size());
    while (url.ends_with('/')) url.remove_suffix(1);
    return !url.empty() && url.find_first_of("/@?#") == url.npos;
  }
  return false;
}

// What may stand in a map: "" is that of all stores.
std::vector<std::string> names_within(std::string_view map) {
  std::vector<std::string> names;
  for (const std::string_view each : kMaps)
    if (each.substr(0, each.rfind('.') == each.npos ? 0 : each.rfind('.')) == map)
      names.emplace_back(each.substr(map.empty() ? 0 : map.size() + 1));
  for (const CredentialKey& key : kCredentialKeys)
    if (key.map == map) names.emplace_back(key.name);
  return names;
}

class CredentialsReader {
 public:
  explicit CredentialsReader(std::string file) : file_(std::move(file)) {}

  // `path`: of the map in its file.
  Result<std::string> run(const ConfigValue& map, const std::string& path) {
    if (map.says_nothing()) return std::string();
    if (map.kind != ConfigValue::Kind::map) return wrong(map, path, "expected a map, such as s3: {...}");
    if (auto done = take_map(map, path, ""); !done) return done.error();
    if (auto done = judge_whole(map, path); !done) return done.error();
    return json_.empty() ? std::string() : json_.dump();
  }

 private:
  Error wrong(const ConfigValue& value, const std::string& path, const std::string& what) const {
    return usage_error(what).in(path.empty() ? printable(file_) : place_in(file_, value, path));
  }

  // `name`: what this map is called within the credentials.
  Result<void> take_map(const ConfigValue& map, const std::string& path, const std::string& name) {
    for (const ConfigValue& each : map.items) {
      const std::string at = within_map(path, each.key), inner = within_map(name, each.key);
      if (is_map_of_keys(inner)) {
        if (each.says_nothing()) continue;
        if (each.kind != ConfigValue::Kind::map) return wrong(each, at, "expected a map of keys");
        if (auto done = take_map(each, at, inner); !done) return done;
      } else if (const CredentialKey* key = find_credential(name, each.key)) {
        if (auto done = take_word(each, at, *key); !done) return done;
      } else {
        return unknown(each, at, name);
      }
    }
    return {};
  }

  Result<void> take_word(const ConfigValue& value, const std::string& at, const CredentialKey& key) {
    if (value.kind == ConfigValue::Kind::null) return {};
    if (!value.is_scalar() || value.text.empty()) return wrong(value, at, "expected one word");
    if (key.name == "endpoint_url" && !is_endpoint(value.text))
      return wrong(value, at, "expected https://HOST or http://HOST:PORT, and nothing more");
    if (auto fine = check_path(key.name == "token" ? value.text : ""); !fine)
      return wrong(value, at, fine.error().message);
    json_[std::string(key.variable)] = value.text;
    return {};
  }

  Error unknown(const ConfigValue& value, const std::string& at, const std::string& name) const {
    const std::vector<std::string> names = names_within(name);
    const std::string near = closest(value.key, names);
    if (!near.empty()) return wrong(value, at, fmt::format("unknown key; did you mean {}?", near));
    std::string known;
    for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
    return wrong(value, at, fmt::format("unknown key; the keys here are {}", known));
  }

  Result<void> judge_whole(const ConfigValue& map, const std::string& path) const {
    const bool has_key = json_.contains("AWS_ACCESS_KEY_ID");
    if (has_key != json_.contains("AWS_SECRET_ACCESS_KEY"))
      return wrong(map, path, "aws_access_key_id and aws_secret_access_key belong together; give both or none");
    if (json_.contains("AWS_SESSION_TOKEN") && !has_key)
      return wrong(map, path, "aws_session_token is for a key; give aws_access_key_id too");
    return {};
  }

  std::string file_;
  CredentialsJson json_ = CredentialsJson::object();
};

}  // namespace

Result<CacheCredentials> parse_credentials(const ConfigValue& value, const std::string& file, const std::string& path) {
  CacheCredentials out;
  out.where = place_in(file, value, path);
  if (value.is_scalar()) {
    if (value.text.empty()) return usage_error("expected a map, or the path of a file with it").in(out.where);
    if (auto fine = check_path(value.text); !fine) return fine.error().in(out.where);
    out.file = value.text;
    return out;
  }
  auto text = CredentialsReader(file).run(value, path);
  if (!text) return text.error();
  out.text = std::move(*text);
  return out;
}

Result<CredentialsRead> read_credentials(const CacheCredentials& credentials, const std::string& config,
                                         const ReadText& read_text, const Probe& probe) {
  CredentialsRead out{credentials.text, {}};
  if (!credentials.file.empty()) {
    const auto text = read_text(credentials.file);
    if (!text) return text.error().in(credentials.where);  // and no name: it may be a key, typed by mistake
    const auto tree = read_config_tree(*text, credentials.file);
    if (!tree) return tree.error();
    auto read = CredentialsReader(credentials.file).run(*tree, "");
    if (!read) return read.error();
    out.text = std::move(*read);
  }
  const std::string& holder = credentials.file.empty() ? config : credentials.file;
  if (const unsigned mode = out.text.empty() ? 0 : probe(holder).mode; (mode & kOfOthers) != 0)
    out.warnings.push_back(fmt::format("{} has credentials and the mode {:04o}, so others may read them: chmod 600 {}",
                                       printable(holder, 400), mode, shell_quoted(printable(holder, 400))));
  return out;
}

}  // namespace dtrain::cli
