// Why a round ends: the failure of one node, or what another node says of the rank that this one blames. See
// round_core.h.
#include <fmt/format.h>

#include "rendezvous/rounds/round_core.h"

namespace dtrain {

// It says more of the cause than is known: what the rank did that is blamed, a failure that blames nobody in place of
// one that does, or what its own node has found out meanwhile.
bool RoundCore::explains(const RoundMember& m, const msg::Failed& said) const {
  if (!cause_ || cause_->how != JobEnd::failure || phase_ != RoundPhase::stopping) return false;
  if (cause_->node_rank == m.node_rank) return true;
  if (m.has_rank(blamed_)) return true;
  return blamed_ != msg::kNobody && said.because_of == msg::kNobody;
}

void RoundCore::failed(MemberId id, const msg::Failed& m, MonoTime now, Actions& out) {
  const RoundMember* member = members_.find(id);
  if (member == nullptr || m.round != round_ || !member->in_round() || member->over) return;
  const bool first = phase_ == RoundPhase::running || (phase_ == RoundPhase::stopping && !cause_);
  if (!first && !explains(*member, m)) return;  // a consequence
  const int rank = member->node_rank;
  const int exit_code = m.exit_code != 0 ? m.exit_code : first ? 1 : cause_->exit_code;
  const Verdict why{JobEnd::failure, exit_code, rank, fmt::format("{}: {}", name(*member), m.what)};
  // A rank that is blamed elsewhere is still to be named should its own node not do it.
  const bool answered = blamed_ == msg::kSomebody || member->has_rank(blamed_);
  if (first || m.because_of != msg::kNobody || answered || cause_->node_rank == rank) {
    blamed_ = m.because_of;
    blamed_for_ = m.because;
  }
  useless_ = m.never_started;
  if (first) return begin_stop(id, why, 0, now, out);
  cause_ = why;
  decide("the cause: " + why.reason);
}

// The rank that is blamed has ended with 0, and so has its node: nothing else will be heard of it. Where a peer has
// gone and nobody knows which (gloo, NCCL), and no rank failed by itself, it is the rank that left with 0.
void RoundCore::blame_who_left(Actions& out) {
  const bool unnamed = blamed_ == msg::kSomebody;
  if (unnamed) blamed_ = left_;
  for (const auto& [id, m] : members_.all()) {
    if (!cause_ || cause_->how != JobEnd::failure || !m.has_rank(blamed_) || !(m.ok || unnamed)) continue;
    cause_ = {JobEnd::failure, cause_->exit_code, m.node_rank,
              fmt::format("{}: rank {} ended with code 0 while others were in a collective", name(m), blamed_)};
    decide("the cause: " + cause_->reason);
    // A node that is accused by name has heard so before.
    if (unnamed) out.push_back(round_action::Send{id, msg::Stop{round_, 0, cause_->reason, blamed_, blamed_for_}});
  }
}

}  // namespace dtrain
