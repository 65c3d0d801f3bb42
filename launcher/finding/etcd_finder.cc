#include "launcher/etcd_finder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/small_file.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/listen.h"

namespace dtrain::launcher {

namespace act = election_action;
namespace ev = election_event;
namespace asio = boost::asio;
using Json = nlohmann::json;

namespace {

constexpr auto kCall = std::chrono::seconds(2);
constexpr std::chrono::milliseconds kShortestTry{500};
constexpr auto kFarewell = std::chrono::milliseconds(500);
constexpr std::size_t kLongestPassword = 4096;

ElectionSettings election_settings(const JobSpec& spec) {
  ElectionSettings settings;
  settings.pulse = spec.nodes.pulse;
  if (spec.nodes.etcd) settings.ttl_seconds = spec.nodes.etcd->lease_ttl;
  return settings;
}

// Its first line; others must not be able to read it.
Result<std::string> read_password(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) == 0 && (facts.st_mode & 077) != 0)
    return Error{ErrorKind::usage, "others may read it: chmod 600"};
  auto text = read_regular_file(path, kLongestPassword);
  if (!text) return text.error();
  std::string line = text->substr(0, text->find('\n'));
  if (line.empty() || line.size() > kLongestPassword) return Error{ErrorKind::usage, "no password in it"};
  return line;
}

std::optional<ElectedHost> host_in(const EtcdReply& reply, const std::string& key) {
  for (const EtcdKey& found : reply.keys)
    if (found.key == key) return ElectedHost{found.value, std::uint64_t(found.create_revision), found.lease};
  return std::nullopt;
}

}  // namespace

EtcdFinder::EtcdFinder(asio::io_context& io, const JobSpec& spec, std::string agent_id, Callbacks callbacks)
    : io_(io),
      spec_(spec),
      agent_id_(std::move(agent_id)),
      callbacks_(std::move(callbacks)),
      host_key_(fmt::format("{}/{}/host", spec.nodes.etcd->prefix, spec.run_id)),
      record_key_(fmt::format("{}/{}/record", spec.nodes.etcd->prefix, spec.run_id)),
      core_(election_settings(spec)),
      timer_(io) {}

std::string EtcdFinder::endpoint() const {
  std::string text = "etcd ";
  for (const auto& member : spec_.nodes.etcd->members)
    text += (text.back() == ' ' ? "" : ",") + address_text(member.name, member.port);
  return text;
}

Result<void> EtcdFinder::open() {
  auto settings = client_settings();
  if (!settings) return settings.error();
  client_ = std::make_unique<EtcdClient>(io_, *settings);
  if (!spec_.nodes.etcd->own || spec_.nodes.etcd->own->self < 0) return {};
  member_ = std::make_unique<PrivateEtcd>(io_, spec_, callbacks_.say);
  return member_->open(*settings);
}

Result<EtcdSettings> EtcdFinder::client_settings() const {
  const auto& place = *spec_.nodes.etcd;
  EtcdSettings settings;
  for (const auto& member : place.members) settings.members.push_back({member.name, member.addresses, member.port});
  settings.one_try = std::max(kShortestTry, std::chrono::milliseconds(250) * place.lease_ttl);
  if (place.own && place.https) {
    auto issued = issue_certificate(*spec_.nodes.credential->secret(), spec_.run_id, {});
    if (!issued) return issued.error();
    auto certificates = TlsCertificates::of(*issued);
    if (!certificates) return certificates.error();
    settings.certificates = *certificates;
  } else if (place.https) {
    auto certificates = TlsCertificates::load({place.ca, place.certificate, place.key});
    if (!certificates) return certificates.error().in("--rdzv-conf");
    settings.certificates = *certificates;
  }
  if (!place.user.empty()) {
    auto password = read_password(place.password_file);
    if (!password) return password.error().in("--rdzv-conf password_file " + printable(place.password_file));
    settings.user = place.user;
    settings.password = *password;
  }
  return settings;
}

void EtcdFinder::opened(const msg::Open&) {
  feed(ev::Opened{});
  if (member_ && core_.leads()) member_->leave_leading();
}

void EtcdFinder::feed(const ElectionEvent& event) {
  if (closed_) return;
  for (const auto& action : core_.step(event, clock_.now()))
    if (!closed_) perform(action);
  if (!closed_) arm();
}

void EtcdFinder::arm() {
  const auto at = core_.deadline();
  if (!at) return timer_.cancel(), void();
  timer_.expires_at(*at);
  timer_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec) feed(ev::Tick{});
  });
}

void EtcdFinder::perform(const ElectionAction& action) {
  const auto ignored = [](const Result<EtcdReply>&) {};
  if (std::holds_alternative<act::Look>(action)) return look();
  if (std::holds_alternative<act::Grant>(action)) return grant();
  if (const auto* a = std::get_if<act::Campaign>(&action)) return campaign(*a);
  if (const auto* a = std::get_if<act::Keep>(&action)) return keep(*a);
  if (const auto* a = std::get_if<act::KeepRecord>(&action))
    return client_->call(etcd_keepalive(a->lease), kCall, ignored);
  if (const auto* a = std::get_if<act::Revoke>(&action)) return client_->call(etcd_revoke(a->lease), kCall, ignored);
  if (std::holds_alternative<act::Watch>(action)) return watch();
  if (std::holds_alternative<act::StopWatching>(action)) return client_->stop_watching();
  if (const auto* a = std::get_if<act::Here>(&action)) return here(*a);
  if (const auto* a = std::get_if<act::There>(&action)) return there(a->host);
  if (const auto* a = std::get_if<act::Nobody>(&action)) return callbacks_.nobody(a->why);
  if (std::holds_alternative<act::Doubt>(action))
    return callbacks_.say("etcd does not answer; without it this node hosts the job no longer than its nodes wait");
  if (std::holds_alternative<act::Sure>(action)) return callbacks_.say("etcd answers again");
  if (const auto* a = std::get_if<act::Deposed>(&action)) return callbacks_.deposed(a->why);
}

// ---- calls ----------------------------------------------------------------------------------------------------------

void EtcdFinder::failed(const Error& error) { feed(ev::Failed{error.message}); }

void EtcdFinder::look() {
  client_->call(etcd_range(host_key_), kCall, [this](Result<EtcdReply> reply) {
    if (!reply) return failed(reply.error());
    feed(ev::Looked{host_in(*reply, host_key_)});
  });
}

// Two leases: the record's is to outlive this agent, so that who follows knows that there was a host.
void EtcdFinder::grant() {
  client_->call(etcd_grant(kRecordLease.count()), kCall, [this](Result<EtcdReply> record) {
    if (!record) return failed(record.error());
    const MonoTime sent = clock_.now();
    client_->call(etcd_grant(spec_.nodes.etcd->lease_ttl), kCall,
                  [this, sent, record_lease = record->lease](Result<EtcdReply> reply) {
                    if (!reply) return failed(reply.error());
                    feed(ev::Granted{reply->lease, record_lease, std::chrono::seconds(reply->ttl), sent});
                  });
  });
}

void EtcdFinder::campaign(const act::Campaign& action) {
  if (auto listening = listen(); !listening) return callbacks_.failed(listening.error());
  EtcdTxn txn;
  txn.compare_key = host_key_;
  txn.first_reads = {record_key_};
  txn.puts = {{host_key_, own_value(), action.lease}, {record_key_, record(0, -1, 0, 0), action.record_lease}};
  txn.reads = txn.or_reads = {host_key_};
  client_->call(etcd_txn(txn), kCall, [this](Result<EtcdReply> reply) {
    if (!reply) return failed(reply.error());
    feed(ev::Campaigned{reply->succeeded, host_in(*reply, record_key_).has_value(), host_in(*reply, host_key_)});
  });
}

void EtcdFinder::keep(const act::Keep& action) {
  client_->call(etcd_keepalive(action.lease), action.limit,
                [this, lease = action.lease, sent = clock_.now()](Result<EtcdReply> reply) {
                  if (lease != core_.lease()) return;  // of a time as host that is over
                  if (reply)
                    feed(ev::Kept{reply->ttl > 0, sent});
                  else
                    feed(ev::NotKept{});
                });
}

void EtcdFinder::watch() {
  const auto changed = [this] { feed(ev::Changed{}); };
  // What happened before it began is seen by looking.
  client_->watch(etcd_watch(host_key_, 0), kCall, {changed, changed, [this](const Error&) {
                                                     if (!closed_) feed(ev::Changed{true});
                                                   }});
}

// Epoch and record in one: a host that has been followed opens nothing.
void EtcdFinder::before_round(int round, int restarts, int nodes, std::function<void()> go) {
  EtcdTxn txn;
  txn.compare_key = host_key_;
  txn.create_revision = std::int64_t(core_.term());
  txn.puts = {{record_key_, record(core_.term(), round, restarts, nodes), core_.record_lease()}};
  client_->call(etcd_txn(txn), kCall, [this, term = core_.term(), go = std::move(go)](Result<EtcdReply> reply) {
    if (closed_ || !core_.leads() || core_.term() != term) return;
    // Without an answer it is deposed soon, or this was too late for it anyway.
    if (reply && reply->succeeded) return go();
    feed(ev::Overtaken{});
  });
}

// ---- answers --------------------------------------------------------------------------------------------------------

Result<void> EtcdFinder::listen() {
  if (listener_) return {};
  address_ = spec_.nodes.address.empty() ? client_->own_address() : spec_.nodes.address;
  auto listener = listen_at(address_, 0);
  if (!listener) return listener.error();
  const auto port = port_of_socket(listener->get());
  if (!port) return port.error();
  port_ = *port;
  listener_ = std::move(*listener);
  return {};
}

std::string EtcdFinder::own_value() const {
  return Json{{"addresses", {address_}}, {"port", port_}, {"agent", agent_id_}}.dump();
}

std::string EtcdFinder::record(std::uint64_t term, int round, int restarts, int nodes) const {
  return Json{{"term", term}, {"round", round}, {"restarts", restarts}, {"nodes", nodes}}.dump();
}

void EtcdFinder::here(const act::Here& here) {
  if (!spec_.quiet) callbacks_.say(fmt::format("this node hosts the job, at {}", address_text(address_, port_)));
  callbacks_.host_here({std::move(listener_),
                        address_,
                        here.term,
                        here.not_before,
                        [this] { return core_.sure(clock_.now()); },
                        [this](int round, int restarts, int nodes, const VoterSet&, std::function<void()> go) {
                          before_round(round, restarts, nodes, std::move(go));
                        },
                        {}});
}

void EtcdFinder::there(const ElectedHost& host) {
  const Json json = Json::parse(host.value, nullptr, false);
  There there;
  there.term = host.term;
  try {
    there.addresses = json.at("addresses").get<std::vector<std::string>>();
    there.port = json.at("port").get<std::uint16_t>();
  } catch (const Json::exception&) {
    return callbacks_.failed({ErrorKind::system, fmt::format("{}: {} is not this version's", endpoint(), host_key_)});
  }
  callbacks_.at(there);
}

// The key goes at once, so that others need not wait for the lease.
void EtcdFinder::close(bool as_killed) {
  if (std::exchange(closed_, true) || !client_) return;
  timer_.cancel();
  client_->stop_watching();
  // With the job its own etcd ends too, and nobody looks there any more.
  if (core_.leads() && !spec_.nodes.etcd->own && !as_killed) {
    bool done = false;
    client_->cancel();
    client_->call(etcd_revoke(core_.lease()), kFarewell, [&](const Result<EtcdReply>&) { done = true; });
    const MonoTime end = clock_.now() + 2 * kFarewell;
    io_.restart();
    while (!done && io_.run_one_until(end) > 0) {
    }
  }
  client_->cancel();
  if (member_) member_->close();
}

}  // namespace dtrain::launcher
