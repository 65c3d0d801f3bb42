#include "rendezvous/etcd/etcd_members.h"

#include <algorithm>
#include <utility>

#include "rendezvous/net/connect.h"
#include "rendezvous/net/host_names.h"

namespace dtrain {
namespace {
constexpr std::size_t kMostIdle = 4;
constexpr auto kLookUpAgain = std::chrono::seconds(1);
}  // namespace

EtcdMembers::EtcdMembers(boost::asio::io_context& io, EtcdSettings settings)
    : settings_(std::move(settings)), look_up_at_(settings_.members.size()), beside_(io) {
  for (const EtcdMember& member : settings_.members) addresses_.push_back(member.addresses);
}

void EtcdMembers::look_up(std::size_t member) {
  const std::string& name = settings_.members[member].name;
  if (SteadyClock::now() < look_up_at_[member] || is_numeric_address(name)) return;
  look_up_at_[member] = MonoTime::max();  // one at a time
  beside_.start<std::vector<std::string>>(
      "etcd", [name] { return addresses_of_host(name); },
      [this, member](const Result<std::vector<std::string>>& found) {
        if (found) addresses_[member] = *found;
        look_up_at_[member] = SteadyClock::now() + kLookUpAgain;
      });
}

std::shared_ptr<HttpConnection> EtcdMembers::take_idle(std::size_t member) {
  std::erase_if(idle_, [](const Idle& idle) { return !idle.connection->open(); });
  const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& idle) { return idle.member == member; });
  if (found == idle_.end()) return nullptr;
  auto connection = std::move(found->connection);
  idle_.erase(found);
  return connection;
}

void EtcdMembers::give_back(std::size_t member, std::shared_ptr<HttpConnection> connection) {
  if (!connection->open()) return;
  if (idle_.size() >= kMostIdle) return connection->close();
  idle_.push_back({member, std::move(connection)});
}

void EtcdMembers::close_idle() {
  for (const Idle& idle : idle_) idle.connection->close();
  idle_.clear();
}

void EtcdMembers::connected(int fd) {
  if (auto own = dtrain::own_address(fd); !own.empty()) own_address_ = std::move(own);
}

}  // namespace dtrain
