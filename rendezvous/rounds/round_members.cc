#include "rendezvous/rounds/round_members.h"

namespace dtrain {

const RoundMember* RoundMembers::find(MemberId id) const {
  const auto it = members_.find(id);
  return it != members_.end() ? &it->second : nullptr;
}

const RoundMember* RoundMembers::of_agent(const std::string& agent_id) const {
  const auto it = agents_.find(agent_id);
  return it != agents_.end() ? &members_.at(it->second) : nullptr;
}

const RoundMember* RoundMembers::with_wanted_rank(int rank) const {
  const auto it = wanted_.find(rank);
  return it != wanted_.end() ? &members_.at(it->second) : nullptr;
}

void RoundMembers::add(MemberId id, const NodeInfo& info) {
  RoundMember& m = members_[id];
  m.id = id;
  m.info = info;
  agents_[info.agent_id] = id;
  if (info.wanted_rank >= 0) wanted_[info.wanted_rank] = id;
}

void RoundMembers::remove(MemberId id) {
  const auto it = members_.find(id);
  count(it->second, -1);
  agents_.erase(it->second.info.agent_id);
  wanted_.erase(it->second.info.wanted_rank);
  members_.erase(it);
}

void RoundMembers::set_leaving(MemberId id) {
  RoundMember& m = members_.at(id);
  count(m, -1);
  m.leaving = true;
  count(m, 1);
}

void RoundMembers::clear_places() {
  for (auto& [id, m] : members_) m.node_rank = -1, m.over = m.ok = false;
  placed_ = over_ = ok_ = 0;
}

void RoundMembers::place(MemberId id, int node_rank, int base_rank) {
  RoundMember& m = members_.at(id);
  count(m, -1);
  m.node_rank = node_rank;
  m.base_rank = base_rank;
  count(m, 1);
}

void RoundMembers::set_over(MemberId id, bool ok) {
  RoundMember& m = members_.at(id);
  count(m, -1);
  m.over = true;
  m.ok = ok;
  count(m, 1);
}

void RoundMembers::end_round(const LastPlace& last) {
  for (auto& [id, m] : members_) {
    if (!m.in_round()) continue;
    m.info.last = last;
    m.info.last.node_rank = m.node_rank;
  }
  clear_places();
}

void RoundMembers::count(const RoundMember& m, int by) {
  if (m.leaving) leaving_ += by;
  if (!m.in_round()) return;
  placed_ += by;
  if (m.over) over_ += by;
  if (m.ok) ok_ += by;
}

}  // namespace dtrain
