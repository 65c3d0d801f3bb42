#include "data/loader/batch_source.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace dtrain::data {

BatchSource::BatchSource(const LoaderParts& parts, const OrderState& from, const std::optional<NodePlan>& plan,
                         JoinTime& time, const StopBell& stop, std::function<bool()> asks,
                         std::unique_ptr<NodeReader>& reader)
    : parts_(&parts), who_(plan ? plan->who : ""), stop_(&stop), asks_(std::move(asks)) {
  if (plan) member_ = NodeMember::join(parts, from, *plan, time, stop, asks_, reader);
}

std::optional<HostBatch> BatchSource::next(const OrderState& at, const BatchShare& share, LoaderTimes& times) {
  if (member_) {
    std::optional<HostBatch> batch = member_->next(at, share, times);
    if (batch) return batch;
    leave_node();
  }
  if (*stop_) return std::nullopt;
  if (!own_ || own_epoch_ != at.epoch) {
    own_.reset();  // before the next one takes as much memory
    own_.emplace(*parts_, at);
    own_epoch_ = at.epoch;
  }
  return own_->next(share, stop_->flag(), times);
}

// Mostly the others have ended because training has, and this rank is about to. So it reads only what is asked for.
void BatchSource::leave_node() {
  while (!asks_() && stop_->pause(std::chrono::milliseconds(20))) continue;
  if (!*stop_) {
    std::fputs(fmt::format("dtrain: {}: {}; this rank reads by itself from here\n", who_, member_->over()).c_str(),
               stderr);
  }
  member_.reset();
}

}  // namespace dtrain::data
