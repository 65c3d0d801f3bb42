#pragma once
// The links of a rank to all others of its group: those of its host, and those of other hosts if there are any. Used by
// one thread at a time.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "strategies/comm/messages/p2p_link.h"
#include "strategies/comm/tcp/tcp_links.h"

namespace dtrain {

class P2pLinks {
 public:
  using Map = std::map<int, std::unique_ptr<P2pLink>>;

  void add(int rank, std::unique_ptr<P2pLink> link) { links_.emplace(rank, std::move(link)); }
  // Some links lead to other hosts. `hosts` lives until forget_hosts().
  void reach_hosts(TcpLinks& hosts) { hosts_ = &hosts; }
  void forget_hosts() { hosts_ = nullptr; }
  bool reach_hosts() const { return hosts_ != nullptr; }

  Map::const_iterator begin() const { return links_.begin(); }
  Map::const_iterator end() const { return links_.end(); }
  bool are_many() const { return links_.size() > 1; }
  P2pLink& at(int rank) const { return *links_.at(rank); }
  // Null: this rank itself, or any.
  P2pLink* find(int rank) const {
    const auto found = links_.find(rank);
    return found == links_.end() ? nullptr : found->second.get();
  }
  int some_rank() const { return links_.begin()->first; }

  // What to sleep on, an entry for each link in their order; none on one host.
  std::vector<pollfd> interests() const {
    std::vector<pollfd> polls;
    if (hosts_ == nullptr) return polls;
    for (const auto& [rank, link] : links_) polls.push_back(link->interest());
    return polls;
  }
  // Ask the kernel what has come.
  void look() const {
    std::vector<pollfd> polls = interests();
    if (polls.empty() || ::poll(polls.data(), polls.size(), 0) <= 0) return;
    auto entry = polls.begin();
    for (const auto& [rank, link] : links_) link->notice((entry++)->revents);
  }
  // Add what to sleep on for words about failures.
  void watch_words(std::vector<pollfd>& polls) const {
    if (hosts_ != nullptr) hosts_->watch_words(polls);
  }
  // Look for such words. A failure that one tells of is the group's from then on.
  void heed() const {
    if (hosts_ == nullptr) return;
    try {
      hosts_->heed("");
    } catch (const CollectiveError&) {  // recorded
    }
  }
  // Tell other hosts of the group's failure.
  void tell() const {
    if (hosts_ != nullptr) hosts_->tell();
  }

  // From now on nothing is sent, and no caller's memory is touched.
  void cease() const {
    for (const auto& [rank, link] : links_) link->cease();
  }
  // After that: return when what was sent has reached the other hosts, or the time is over.
  void await_arrival(std::chrono::steady_clock::duration limit) const {
    constexpr int kBetweenLooks = 5;  // milliseconds
    const auto deadline = std::chrono::steady_clock::now() + limit;
    const auto arrived = [](const auto& link) { return link.second->has_arrived(); };
    while (!std::all_of(begin(), end(), arrived) && std::chrono::steady_clock::now() < deadline) {
      std::vector<pollfd> polls = interests();
      ::poll(polls.data(), polls.size(), kBetweenLooks);
    }
  }

 private:
  Map links_;
  TcpLinks* hosts_ = nullptr;  // null: all ranks are of this host
};

}  // namespace dtrain
