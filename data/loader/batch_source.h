#pragma once
// Where a rank's batches come from: the node's one reader, or this rank's own reading, from a position on.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/base/host_batch.h"
#include "data/flow/epoch_reader.h"
#include "data/flow/row_flow.h"
#include "data/loader/node_member.h"
#include "data/node/stop_bell.h"
#include "data/order/batch_share.h"
#include "data/order/order_state.h"
#include "dtrain/loader_times.h"

namespace dtrain::data {

class BatchSource {
 public:
  // Without a plan this rank reads by itself. All but the plan and the time must outlive the source. `time`, `asks` and
  // `reader` are those of NodeMember::join().
  BatchSource(const LoaderParts& parts, const OrderState& from, const std::optional<NodePlan>& plan, JoinTime& time,
              const StopBell& stop, std::function<bool()> asks, std::unique_ptr<NodeReader>& reader);

  // This rank's share of the rows from `at` on. Nothing if `stop` has been rung. Throws DataError.
  std::optional<HostBatch> next(const OrderState& at, const BatchShare& share, LoaderTimes& times);
  // Of the node, as far as they have come; nothing: not known.
  std::optional<int> ranks() const { return member_ ? member_->ranks() : std::nullopt; }

 private:
  void leave_node();

  const LoaderParts* parts_;
  const std::string who_;  // of the plan
  const StopBell* stop_;
  const std::function<bool()> asks_;
  std::unique_ptr<NodeMember> member_;
  std::optional<EpochReader> own_;
  std::uint64_t own_epoch_ = 0;
};

}  // namespace dtrain::data
