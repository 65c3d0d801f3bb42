// The keys of --rdzv-conf.
#include "cli/nodes/rdzv_conf.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"

namespace dtrain::cli {
namespace {

using Milliseconds = std::optional<std::chrono::milliseconds>;

struct Key {
  enum class Kind { time, idle_time, idle_int, idle_float, idle_bool };
  const char* name;
  Meeting meeting;
  Kind kind;
  Milliseconds RdzvConf::*field = nullptr;
  std::optional<std::string> RdzvConf::*typed = nullptr;  // with neither: no work to do here
};

constexpr Key kKeys[] = {
    {"join_timeout", Meeting::c10d, Key::Kind::time, &RdzvConf::join_timeout},
    {"last_call_timeout", Meeting::c10d, Key::Kind::time, &RdzvConf::last_call_timeout},
    {"timeout", Meeting::fixed, Key::Kind::time, &RdzvConf::timeout},
    {"close_timeout", Meeting::c10d, Key::Kind::idle_time},
    {"heartbeat_timeout", Meeting::c10d, Key::Kind::idle_time},
    {"read_timeout", Meeting::c10d, Key::Kind::idle_time},
    {"keep_alive_interval", Meeting::c10d, Key::Kind::idle_int, nullptr, &RdzvConf::keep_alive_interval},
    {"keep_alive_max_attempt", Meeting::c10d, Key::Kind::idle_int, nullptr, &RdzvConf::keep_alive_max_attempt},
    {"rejoin", Meeting::c10d, Key::Kind::idle_bool},
    {"succession", Meeting::c10d, Key::Kind::idle_bool},
    {"cas_backoff_max_seconds", Meeting::c10d, Key::Kind::idle_float},
    {"is_host", Meeting::c10d, Key::Kind::idle_bool},
};

std::optional<bool> to_bool(const std::string& value) {
  const std::string text = lower(value);
  for (const char* word : {"1", "true", "t", "yes", "y"})
    if (text == word) return true;
  for (const char* word : {"0", "false", "f", "no", "n"})
    if (text == word) return false;
  return std::nullopt;
}

// What a value lacks; empty: nothing.
const char* flaw(Key::Kind kind, const std::string& value) {
  switch (kind) {
    case Key::Kind::time: {
      const auto time = parse_seconds(value);
      return time && time->count() > 0 ? "" : "must be seconds above 0";
    }
    case Key::Kind::idle_time:
      return parse_python_int(value, 1, std::numeric_limits<int>::max()) ? "" : "must be whole seconds above 0";
    case Key::Kind::idle_int:
      return is_python_int(value) ? "" : "must be a whole number";
    case Key::Kind::idle_float: {
      const auto number = parse_python_float(value);
      return number && *number >= 0 ? "" : "must be seconds from 0";
    }
    case Key::Kind::idle_bool:
      return to_bool(value) ? "" : "must be true or false";
  }
  return "";
}

// torchrun has two sets of names, one for each of its backends for etcd.
constexpr std::pair<const char*, const char*> kEtcdKeys[] = {
    {"protocol", "protocol"},   {"cacert", "cacert"},
    {"ca_cert", "cacert"},      {"cert", "cert"},
    {"ssl_cert", "cert"},       {"key", "key"},
    {"ssl_cert_key", "key"},    {"etcd_prefix", "etcd_prefix"},
    {"user", "user"},           {"password_file", "password_file"},
    {"lease_ttl", "lease_ttl"}, {"peer_port", "peer_port"}};

class Reader {
 public:
  Reader(Meeting meeting, bool several)
      : c10d_(meeting != Meeting::fixed), etcd_(meeting == Meeting::etcd), several_(several) {}

  Result<void> take(const std::string& name, const std::string& value) {
    if (name == "store_type") return store_type(lower(value));
    if (etcd_) {
      for (const auto& [typed, meant] : kEtcdKeys)
        if (name == typed) return conf.etcd[meant] = value, Result<void>();
    }
    const auto key = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& k) { return name == k.name; });
    if (key == std::end(kKeys)) {
      if (name == "rank")
        note("--rdzv-conf rank has no effect: use --node-rank");
      else
        note(fmt::format("--rdzv-conf '{}' is not known and has no effect", printable(name)));
      return {};
    }
    if (key->field != nullptr && (key->meeting == Meeting::c10d) != c10d_) {
      if (several_)
        note(fmt::format("--rdzv-conf {} has no effect with {}: use {}", name, c10d_ ? "c10d" : "static",
                         c10d_ ? "join_timeout" : "timeout"));
      return {};
    }
    if (c10d_ || key->meeting == Meeting::fixed) {
      const std::string wrong = flaw(key->kind, value);
      if (!wrong.empty()) return usage_error(fmt::format("{} {}", name, wrong));
    }
    if (key->field != nullptr) {
      conf.*(key->field) = *parse_seconds(value);
      return {};
    }
    if (name == "rejoin" || name == "succession") {
      (name == "rejoin" ? conf.rejoin : conf.succession) = to_bool(value);
      if (!c10d_) note(fmt::format("--rdzv-conf {} has no effect with static", name));
      if (etcd_ && name == "succession") note("--rdzv-conf succession has no effect: etcd decides who hosts the job");
      return {};
    }
    if (key->typed != nullptr) {
      conf.*(key->typed) = value;
      return {};
    }
    note(fmt::format("--rdzv-conf {} has no effect: {}", name,
                     key->kind == Key::Kind::idle_bool ? "whoever finds the port free is the host"
                                                       : "agents are connected, and nothing is polled"));
    return {};
  }

  RdzvConf conf;

 private:
  void note(std::string text) { conf.notes.push_back(std::move(text)); }

  Result<void> store_type(const std::string& value) const {
    if (!c10d_ || value == "tcp") return {};
    return usage_error("store_type must be tcp");
  }

  bool c10d_;
  bool etcd_;
  bool several_;
};

}  // namespace

Result<RdzvConf> read_rdzv_conf(std::string_view text, Meeting meeting, bool several) {
  Reader reader(meeting, several);
  const std::string pairs = trimmed(text);
  if (pairs.empty()) return reader.conf;
  for (const std::string& part : split(pairs, ',')) {
    const auto equals = part.find('=');
    const std::string key = trimmed(part.substr(0, equals));
    const std::string value = equals == std::string::npos ? "" : trimmed(part.substr(equals + 1));
    if (key.empty()) return usage_error("expected KEY=VALUE,...");
    if (value.empty()) return usage_error(printable(key) + " has no value");
    if (auto taken = reader.take(key, value); !taken) return taken.error();
  }
  return std::move(reader.conf);
}

}  // namespace dtrain::cli
