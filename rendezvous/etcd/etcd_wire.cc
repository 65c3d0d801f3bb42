#include "rendezvous/etcd/etcd_wire.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "rendezvous/base/base64.h"
#include "rendezvous/base/printable.h"

namespace dtrain {

namespace {

using Json = nlohmann::json;

EtcdRequest request(const char* path, const Json& body) {
  return {path, body.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

// ---- what comes: anything may be missing, and numbers of 64 bits are texts
// ---------------------------------------------

const Json& at(const Json& json, const char* name) {
  static const Json nothing;
  if (!json.is_object()) return nothing;
  const auto found = json.find(name);
  return found == json.end() ? nothing : *found;
}

template <class Number = std::int64_t>
Number number(const Json& json) {
  if (json.is_number_integer()) return json.get<Number>();
  if (!json.is_string()) return 0;
  const auto& text = json.get_ref<const std::string&>();
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : 0;
}

bool truth(const Json& json) { return json.is_boolean() && json.get<bool>(); }

std::string text(const Json& json) { return json.is_string() ? json.get<std::string>() : std::string(); }

void add_keys(const Json& range, EtcdReply& reply) {
  const Json& keys = at(range, "kvs");
  if (!keys.is_array()) return;
  for (const Json& kv : keys) {
    EtcdKey key;
    key.key = from_base64(text(at(kv, "key"))).value_or("");
    key.value = from_base64(text(at(kv, "value"))).value_or("");
    key.create_revision = number(at(kv, "create_revision"));
    key.mod_revision = number(at(kv, "mod_revision"));
    key.lease = number(at(kv, "lease"));
    reply.keys.push_back(std::move(key));
  }
}

void add_members(const Json& members, EtcdReply& reply) {
  if (!members.is_array()) return;
  for (const Json& member : members) {
    const Json& urls = at(member, "peerURLs");
    reply.members.push_back({number<std::uint64_t>(at(member, "ID")), text(at(member, "name")),
                             urls.is_array() && !urls.empty() ? text(urls.front()) : ""});
  }
}

EtcdReply read_reply(const Json& whole) {
  const Json& json = at(whole, "result").is_object() ? at(whole, "result") : whole;  // of a stream
  EtcdReply reply;
  reply.revision = number(at(at(json, "header"), "revision"));
  reply.succeeded = truth(at(json, "succeeded"));
  reply.lease = number(at(json, "ID"));
  reply.ttl = number(at(json, "TTL"));
  reply.token = text(at(json, "token"));
  add_keys(json, reply);
  add_members(at(json, "members"), reply);
  if (const Json& responses = at(json, "responses"); responses.is_array())
    for (const Json& one : responses) add_keys(at(one, "response_range"), reply);
  return reply;
}

// ---- faults ---------------------------------------------------------------------------------------------------------

// gRPC's numbers.
constexpr std::int64_t kDeadlineExceeded = 4, kUnavailable = 14, kUnauthenticated = 16;
constexpr std::int64_t kCancelled = 1, kUnknown = 2, kResourceExhausted = 8, kAborted = 10, kInternal = 13;

EtcdFault::Kind kind_of(std::int64_t code, const std::string& message) {
  // The first of these has come with several codes.
  if (code == kUnauthenticated || message.find("invalid auth token") != std::string::npos ||
      message.find("revision of auth store is old") != std::string::npos)
    return EtcdFault::Kind::login;
  for (const auto passing :
       {kCancelled, kUnknown, kDeadlineExceeded, kResourceExhausted, kAborted, kInternal, kUnavailable})
    if (code == passing) return EtcdFault::Kind::elsewhere;
  return EtcdFault::Kind::final;
}

// A call that needs a user says only that the name is empty.
std::string in_words(const std::string& message) {
  if (message.find("user name is empty") != std::string::npos) return "it needs a user and a password";
  constexpr std::string_view kPrefix = "etcdserver: ";
  return printable(message.starts_with(kPrefix) ? message.substr(kPrefix.size()) : message, 200);
}

// Of one answer it lies at the top, of a stream below "error".
std::optional<EtcdFault> fault_in(const Json& json) {
  const Json& error = at(json, "error");
  const Json& place = error.is_object() ? error : json;
  const std::int64_t code = number(at(place, at(place, "grpc_code").is_null() ? "code" : "grpc_code"));
  std::string message = text(at(place, "message"));
  if (message.empty()) message = text(error);
  if (code == 0 && message.empty()) return std::nullopt;
  return EtcdFault{kind_of(code, message), in_words(message)};
}

EtcdFault no_gateway(int http_code, std::string_view body) {
  const auto kind = http_code >= 500 ? EtcdFault::Kind::elsewhere : EtcdFault::Kind::final;
  const std::string said = printable(body.substr(0, body.find('\n')), 100);
  return {kind, fmt::format("it does not answer as etcd 3.4 or later does (HTTP {}{}{})", http_code,
                            said.empty() ? "" : ": ", said)};
}

}  // namespace

EtcdRequest etcd_range(std::string_view key) { return request("/v3/kv/range", {{"key", base64(key)}}); }

EtcdRequest etcd_txn(const EtcdTxn& txn) {
  const auto range = [](const std::string& key) { return Json{{"request_range", {{"key", base64(key)}}}}; };
  Json then = Json::array();
  Json otherwise = Json::array();
  for (const auto& key : txn.first_reads) then.push_back(range(key));
  for (const auto& put : txn.puts)
    then.push_back({{"request_put",
                     {{"key", base64(put.key)}, {"value", base64(put.value)}, {"lease", std::to_string(put.lease)}}}});
  for (const auto& key : txn.deletes) then.push_back({{"request_delete_range", {{"key", base64(key)}}}});
  for (const auto& key : txn.reads) then.push_back(range(key));
  for (const auto& key : txn.or_reads) otherwise.push_back(range(key));
  const Json compare = {{"key", base64(txn.compare_key)},
                        {"target", "CREATE"},
                        {"result", "EQUAL"},
                        {"create_revision", std::to_string(txn.create_revision)}};
  return request("/v3/kv/txn", {{"compare", Json::array({compare})}, {"success", then}, {"failure", otherwise}});
}

EtcdRequest etcd_grant(std::int64_t ttl_seconds) {
  return request("/v3/lease/grant", {{"TTL", std::to_string(ttl_seconds)}});
}

EtcdRequest etcd_keepalive(std::int64_t lease) {
  return request("/v3/lease/keepalive", {{"ID", std::to_string(lease)}});
}

EtcdRequest etcd_revoke(std::int64_t lease) { return request("/v3/lease/revoke", {{"ID", std::to_string(lease)}}); }

EtcdRequest etcd_watch(std::string_view key, std::int64_t from_revision) {
  Json create = {{"key", base64(key)}};
  if (from_revision > 0) create["start_revision"] = std::to_string(from_revision);
  return request("/v3/watch", {{"create_request", create}});
}

EtcdRequest etcd_member_list() { return request("/v3/cluster/member/list", Json::object()); }

EtcdRequest etcd_member_add(std::string_view peer_url) {
  return request("/v3/cluster/member/add", {{"peerURLs", Json::array({peer_url})}});
}

EtcdRequest etcd_member_remove(std::uint64_t id) {
  return request("/v3/cluster/member/remove", {{"ID", std::to_string(id)}});
}

EtcdRequest etcd_transfer_leadership(std::uint64_t to_member) {
  return request("/v3/maintenance/transfer-leadership", {{"targetID", std::to_string(to_member)}});
}

EtcdRequest etcd_authenticate(std::string_view user, std::string_view password) {
  return request("/v3/auth/authenticate", {{"name", user}, {"password", password}});
}

std::variant<EtcdReply, EtcdFault> parse_etcd_reply(int http_code, std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return no_gateway(http_code, body);
  auto fault = fault_in(json);
  if (http_code == 200 && !fault) return read_reply(json);
  return fault ? *fault : no_gateway(http_code, body);
}

EtcdWatchStream::News EtcdWatchStream::put(std::string_view bytes) {
  News news;
  line_.append(bytes);
  std::size_t begin = 0;
  for (auto end = line_.find('\n'); end != std::string::npos && !news.over; end = line_.find('\n', begin)) {
    const Json json =
        Json::parse(line_.begin() + std::ptrdiff_t(begin), line_.begin() + std::ptrdiff_t(end), nullptr, false);
    begin = end + 1;
    const Json& result = at(json, "result");
    const Json& events = at(result, "events");
    news.began = news.began || truth(at(result, "created"));
    news.changed = news.changed || (events.is_array() && !events.empty());
    if (auto fault = fault_in(json))
      news.over = std::move(fault);
    else if (!result.is_object())
      news.over = no_gateway(200, line_);
    else if (truth(at(result, "canceled")))
      news.over = EtcdFault{EtcdFault::Kind::elsewhere,
                            "it has ended the watch: " + printable(text(at(result, "cancel_reason")), 200)};
  }
  line_.erase(0, begin);
  if (line_.size() > kEtcdReplyBytes) news.over = EtcdFault{EtcdFault::Kind::final, "an event is too long"};
  return news;
}

}  // namespace dtrain
