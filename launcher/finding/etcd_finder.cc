#include "launcher/finding/etcd_finder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/base/small_file.h"
#include "rendezvous/base/printable.h"
#include "rendezvous/net/deadline.h"
#include "rendezvous/net/listen.h"

namespace dtrain::launcher {

namespace asio = boost::asio;
using Json = nlohmann::json;

namespace {

constexpr auto kCall = std::chrono::seconds(2);
constexpr std::chrono::milliseconds kShortestTry{500};
constexpr auto kEtcdFarewell = std::chrono::milliseconds(500);
constexpr std::size_t kLongestPassword = 4096;

ElectionSettings election_settings(const JobSpec& spec) {
  ElectionSettings settings;
  settings.pulse = spec.nodes.pulse;
  if (spec.nodes.etcd) settings.ttl_seconds = spec.nodes.etcd->lease_ttl;
  return settings;
}

// The password is the file's first line. No other user may be able to read the file.
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

EtcdFinder::EtcdFinder(asio::io_context& io, const JobSpec& spec, std::string agent_id, Answers answers,
                       Callbacks callbacks, const Say& say)
    : io_(io),
      spec_(spec),
      agent_id_(std::move(agent_id)),
      answers_(std::move(answers)),
      callbacks_(std::move(callbacks)),
      say_(say),
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
  member_ = std::make_unique<PrivateEtcd>(io_, spec_, say_);
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

void EtcdFinder::hear(const HostNews& news) {
  if (const auto* lost = std::get_if<host_news::Lost>(&news)) return feed(election_event::Lost{lost->term});
  if (!std::holds_alternative<host_news::Opened>(news)) return;
  feed(election_event::Opened{});
  if (member_ && core_.leads()) member_->leave_leading();
}

void EtcdFinder::feed(const ElectionEvent& event) {
  if (closed_) return;
  for (const auto& action : core_.step(event, SteadyClock::now()))
    if (!closed_) perform(action);
  if (!closed_) arm();
}

void EtcdFinder::arm() {
  call_at(timer_, core_.deadline(), [this] { feed(election_event::Tick{}); });
}

void EtcdFinder::perform(const ElectionAction& action) {
  const auto ignored = [](const Result<EtcdReply>&) {};
  if (std::holds_alternative<election_action::Look>(action)) return look();
  if (std::holds_alternative<election_action::Grant>(action)) return grant();
  if (const auto* a = std::get_if<election_action::Campaign>(&action)) return campaign(*a);
  if (const auto* a = std::get_if<election_action::Keep>(&action)) return keep(*a);
  if (const auto* a = std::get_if<election_action::KeepRecord>(&action))
    return client_->call(etcd_keepalive(a->lease), kCall, ignored);
  if (const auto* a = std::get_if<election_action::Revoke>(&action))
    return client_->call(etcd_revoke(a->lease), kCall, ignored);
  if (std::holds_alternative<election_action::Watch>(action)) return watch();
  if (std::holds_alternative<election_action::StopWatching>(action)) return client_->stop_watching();
  if (const auto* a = std::get_if<election_action::Here>(&action)) return here(*a);
  if (const auto* a = std::get_if<election_action::There>(&action)) return there(a->host);
  if (const auto* a = std::get_if<election_action::Nobody>(&action)) return answers_.nobody(a->why);
  if (std::holds_alternative<election_action::Doubt>(action))
    return say_("etcd does not answer; without it, this node can host the job only as long as its nodes wait");
  if (std::holds_alternative<election_action::Sure>(action)) return say_("etcd answers again");
  if (const auto* a = std::get_if<election_action::Deposed>(&action)) return callbacks_.deposed(a->why);
}

// ---- calls ----------------------------------------------------------------------------------------------------------

void EtcdFinder::failed(const Error& error) { feed(election_event::Failed{error.message}); }

void EtcdFinder::look() {
  client_->call(etcd_range(host_key_), kCall, [this](Result<EtcdReply> reply) {
    if (!reply) return failed(reply.error());
    feed(election_event::Looked{host_in(*reply, host_key_)});
  });
}

// Asks for two leases: the record's outlives this agent, so that the next host knows that there was one before.
void EtcdFinder::grant() {
  client_->call(etcd_grant(kRecordLease.count()), kCall, [this](Result<EtcdReply> record) {
    if (!record) return failed(record.error());
    const MonoTime sent = SteadyClock::now();
    client_->call(etcd_grant(spec_.nodes.etcd->lease_ttl), kCall,
                  [this, sent, record_lease = record->lease](Result<EtcdReply> reply) {
                    if (!reply) return failed(reply.error());
                    feed(election_event::Granted{reply->lease, record_lease, std::chrono::seconds(reply->ttl), sent});
                  });
  });
}

void EtcdFinder::campaign(const election_action::Campaign& action) {
  if (auto listening = listen(); !listening) return answers_.failed(listening.error());
  EtcdTxn txn;
  txn.compare_key = host_key_;
  txn.first_reads = {record_key_};
  txn.puts = {{host_key_, own_value(), action.lease}, {record_key_, record(0, -1, 0, 0), action.record_lease}};
  txn.reads = txn.or_reads = {host_key_};
  client_->call(etcd_txn(txn), kCall, [this](Result<EtcdReply> reply) {
    if (!reply) return failed(reply.error());
    feed(election_event::Campaigned{reply->succeeded, host_in(*reply, record_key_).has_value(),
                                    host_in(*reply, host_key_)});
  });
}

void EtcdFinder::keep(const election_action::Keep& action) {
  client_->call(etcd_keepalive(action.lease), action.limit,
                [this, lease = action.lease, sent = SteadyClock::now()](Result<EtcdReply> reply) {
                  if (lease != core_.lease()) return;  // this agent is the host no more, or anew
                  if (reply)
                    feed(election_event::Kept{reply->ttl > 0, sent});
                  else
                    feed(election_event::NotKept{});
                });
}

void EtcdFinder::watch() {
  const auto changed = [this] { feed(election_event::Changed{}); };
  // A look sees what has happened before the watch began.
  client_->watch(etcd_watch(host_key_, 0), kCall, {changed, changed, [this](const Error&) {
                                                     if (!closed_) feed(election_event::Changed{true});
                                                   }});
}

// One transaction checks the term and writes the record: a host that another has followed opens nothing.
void EtcdFinder::before_round(int round, int restarts, int nodes, std::function<void()> go) {
  EtcdTxn txn;
  txn.compare_key = host_key_;
  txn.create_revision = std::int64_t(core_.term());
  txn.puts = {{record_key_, record(core_.term(), round, restarts, nodes), core_.record_lease()}};
  client_->call(etcd_txn(txn), kCall, [this, term = core_.term(), go = std::move(go)](Result<EtcdReply> reply) {
    if (closed_ || !core_.leads() || core_.term() != term) return;
    // Without an answer this host is deposed soon, or the call came too late for it anyway.
    if (reply && reply->succeeded) return go();
    feed(election_event::Overtaken{});
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

void EtcdFinder::here(const election_action::Here& here) {
  if (!spec_.quiet) say_(fmt::format("this node hosts the job, at {}", address_text(address_, port_)));
  answers_.here({std::move(listener_),
                 address_,
                 here.term,
                 here.not_before,
                 [this] { return core_.sure(SteadyClock::now()); },
                 [this](int round, int restarts, int nodes, const VoterSet&, std::function<void()> go) {
                   before_round(round, restarts, nodes, std::move(go));
                 },
                 {}});
}

void EtcdFinder::there(const ElectedHost& host) {
  const Json json = Json::parse(host.value, nullptr, false);
  HostPlace there;
  there.term = host.term;
  try {
    there.addresses = json.at("addresses").get<std::vector<std::string>>();
    there.port = json.at("port").get<std::uint16_t>();
  } catch (const Json::exception&) {
    return answers_.failed(
        {ErrorKind::system, fmt::format("{}: another version of dtrain has written {}", endpoint(), host_key_)});
  }
  answers_.there(there);
}

// Takes the key away at once, so that others need not wait for the lease.
void EtcdFinder::close(bool as_killed) {
  if (std::exchange(closed_, true) || !client_) return;
  timer_.cancel();
  client_->stop_watching();
  // With the job its own etcd ends too, and nobody looks there any more.
  if (core_.leads() && !spec_.nodes.etcd->own && !as_killed) {
    bool done = false;
    client_->cancel();
    client_->call(etcd_revoke(core_.lease()), kEtcdFarewell, [&](const Result<EtcdReply>&) { done = true; });
    const MonoTime end = SteadyClock::now() + 2 * kEtcdFarewell;
    io_.restart();
    while (!done && io_.run_one_until(end) > 0) {
    }
  }
  client_->cancel();
  if (member_) member_->close();
}

}  // namespace dtrain::launcher
