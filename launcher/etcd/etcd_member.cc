#include "launcher/etcd/etcd_member.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rendezvous/base/printable.h"
#include "rendezvous/net/listen.h"

namespace dtrain::launcher {

namespace {

// So that a lost leader of etcd's, an election and the lease of a lost host together take less time than the nodes'
// patience (docs/adr/0511-private-etcd.md).
constexpr const char* kHeartbeat = "100";
constexpr const char* kElection = "500";
constexpr const char* kQuota = "67108864";  // bytes; a job writes some hundred a round

std::string url(const EtcdPlace& place, const std::string& host, std::uint16_t port) {
  return fmt::format("{}://{}", place.https ? "https" : "http", address_text(host, port));
}

std::uint16_t peer_port(const EtcdPlace& place, std::size_t member) {
  return place.own->peer_port != 0 ? place.own->peer_port : std::uint16_t(place.members[member].port + 1);
}

std::string listed(const EtcdPlace& place, std::size_t member) {
  return fmt::format("m{}={}", member, etcd_peer_url(place, member));
}

}  // namespace

std::string etcd_peer_url(const EtcdPlace& place, std::size_t member) {
  return url(place, place.members[member].name, peer_port(place, member));
}

std::array<std::uint16_t, 2> own_etcd_ports(const EtcdPlace& place) {
  const auto self = std::size_t(place.own->self);
  return {place.members[self].port, peer_port(place, self)};
}

std::string etcd_cluster(const EtcdPlace& place) {
  std::string text;
  for (std::size_t i = 0; i < place.members.size(); ++i) text += (i == 0 ? "" : ",") + listed(place, i);
  return text;
}

std::string etcd_cluster(const EtcdPlace& place, const std::vector<EtcdMemberFacts>& members) {
  std::string text;
  for (std::size_t i = 0; i < place.members.size(); ++i) {
    const auto has_it = [&](const EtcdMemberFacts& member) { return member.peer_url == etcd_peer_url(place, i); };
    if (std::any_of(members.begin(), members.end(), has_it)) text += (text.empty() ? "" : ",") + listed(place, i);
  }
  return text;
}

std::vector<std::string> etcd_member_command(const EtcdPlace& place, const std::string& job, const std::string& cluster,
                                             bool existing) {
  const auto& own = *place.own;
  const auto self = std::size_t(own.self);
  const auto& member = place.members[self];
  std::vector<std::string> words = {own.program,
                                    "--name=" + fmt::format("m{}", self),
                                    "--data-dir=" + own.folder + "/" + kEtcdData,
                                    "--listen-client-urls=" + url(place, own.address, member.port),
                                    "--advertise-client-urls=" + url(place, member.name, member.port),
                                    "--listen-peer-urls=" + url(place, own.address, peer_port(place, self)),
                                    "--initial-advertise-peer-urls=" + etcd_peer_url(place, self),
                                    "--initial-cluster=" + cluster,
                                    "--initial-cluster-token=dtrain-" + job,
                                    std::string("--initial-cluster-state=") + (existing ? "existing" : "new"),
                                    std::string("--heartbeat-interval=") + kHeartbeat,
                                    std::string("--election-timeout=") + kElection,
                                    std::string("--quota-backend-bytes=") + kQuota,
                                    "--pre-vote=true",
                                    "--logger=zap",
                                    "--log-outputs=stderr",
                                    "--log-level=warn"};
  if (!place.https) return words;
  const std::string folder = own.folder + "/";
  for (const std::string side : {"", "peer-"}) {
    words.push_back(fmt::format("--{}cert-file={}{}", side, folder, kEtcdCertificate));
    words.push_back(fmt::format("--{}key-file={}{}", side, folder, kEtcdKeyFile));
    words.push_back(fmt::format("--{}trusted-ca-file={}{}", side, folder, kEtcdAuthority));
    words.push_back(fmt::format("--{}client-cert-auth=true", side));
  }
  return words;
}

const EtcdMemberFacts* own_etcd_member(const EtcdPlace& place, const std::vector<EtcdMemberFacts>& members) {
  const std::string peer = etcd_peer_url(place, std::size_t(place.own->self));
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const EtcdMemberFacts& member) { return member.peer_url == peer; });
  return found == members.end() ? nullptr : &*found;
}

const EtcdMemberFacts* other_etcd_member(const EtcdPlace& place, const std::vector<EtcdMemberFacts>& members) {
  const EtcdMemberFacts* own = own_etcd_member(place, members);
  const auto found = std::find_if(members.begin(), members.end(), [&](const EtcdMemberFacts& member) {
    return &member != own && !member.name.empty();
  });
  return found == members.end() ? nullptr : &*found;
}

EtcdStart judge_etcd_start(const EtcdPlace& place, const EtcdSurroundings& around, EtcdBefore before) {
  if (around.taken_port != 0) return EtcdStart::stay_out;
  if (around.members) {
    const EtcdMemberFacts* own = own_etcd_member(place, *around.members);
    if (own == nullptr) return EtcdStart::add;
    const bool has_begun = before != EtcdBefore::none || !own->name.empty();
    return has_begun ? EtcdStart::replace : EtcdStart::as_typed;
  }
  // A cluster that goes on without this node has more than half of the members, so one of those would be seen.
  const bool few = around.reached * 2 < place.members.size() - 1;
  return few || before == EtcdBefore::own ? EtcdStart::wait : EtcdStart::as_typed;
}

std::string why_not_taken_in(const EtcdSurroundings& around, const std::string& error) {
  const std::size_t all = around.members ? around.members->size() : 0;
  if (around.answered * 2 > all) return error;
  return fmt::format("too few of the other members are left to admit it: {} of {} answer, and {} are needed",
                     around.answered, all, all / 2 + 1);
}

std::string why_etcd_ended(const std::vector<std::string>& lines) {
  const auto field = [](const nlohmann::json& line, const char* name) {
    const auto found = line.find(name);
    return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const auto json = nlohmann::json::parse(*line, nullptr, false);
    if (!json.is_object()) continue;
    const std::string error = field(json, "error"), message = field(json, "msg");
    if (!message.empty()) return printable(error.empty() ? message : message + ": " + error, 300);
  }
  return lines.empty() ? "it says nothing" : printable(lines.back(), 300);
}

}  // namespace dtrain::launcher
