#pragma once
// One rank's batches from the rows that the node's reader shows: finds the reader or becomes it, copies its own rows,
// and says when it goes on by itself.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/base/host_batch.h"
#include "data/flow/row_arena.h"
#include "data/flow/row_flow.h"
#include "data/loader/node_reader.h"
#include "data/node/node_job.h"
#include "data/node/node_link.h"
#include "data/node/region.h"
#include "data/node/stop_bell.h"
#include "data/order/batch_share.h"
#include "data/share/share_core.h"
#include "dtrain/loader_times.h"

namespace dtrain::data {

// How long ranks wait for each other, and how much memory long rows have. docs/training/loader.md says what follows.
struct NodeLimits {
  std::chrono::seconds join{10};                     // for ranks that have not come, and for a reader
  std::chrono::seconds lag{30};                      // for a rank that asks for nothing
  std::chrono::seconds reader{300};                  // for a sign of life of the reader
  std::uint64_t tails_min = std::uint64_t{1} << 30;  // bytes for rows that differ in length, beyond what footers say
};

// How long a rank waits in join(), in all where several joins share it.
struct JoinTime {
  std::chrono::steady_clock::time_point find_until;  // a reader; later, by what a reader takes to answer
  std::chrono::steady_clock::duration answer;        // of readers

  static JoinTime from_now(const NodeLimits& limits);
};

// How a loader takes part.
struct NodePlan {
  std::string who;  // the loader, for what is written to standard error
  NodeJob job;
  std::string rows;  // what is read, how, and from where on: loaders with another text have other rows or columns
  int ranks;         // that should come
  bool read_through;
  std::uint64_t epoch_step = 1;  // after epoch e comes e + epoch_step
  NodeLimits limits = {};        // the same on all ranks
};

class NodeMember {
 public:
  // Waits for the reader, if there is one, and takes what it waits from `time`. Nothing: this rank reads by itself, and
  // a line has said why, or `stop` has been rung. If this rank becomes the reader, `reader` has it. It ends when `stop`
  // has been rung, and not before, for the others need it. `asks`: the program waits for a batch in this moment. All
  // but the plan must outlive the member.
  static std::unique_ptr<NodeMember> join(const LoaderParts& parts, const OrderState& from, const NodePlan& plan,
                                          JoinTime& time, const StopBell& stop, std::function<bool()> asks,
                                          std::unique_ptr<NodeReader>& reader);

  // This rank's share of the rows from `at` on. Nothing: `stop` has been rung, or over() says why no more rows come.
  // Throws the reader's DataError. Adds to the times what the reader and this rank have done.
  std::optional<HostBatch> next(const OrderState& at, const BatchShare& share, LoaderTimes& times);
  // One line; empty: it goes on.
  const std::string& over() const { return over_; }
  // How many ranks have come; nothing: more may come.
  std::optional<int> ranks() const;

 private:
  NodeMember(const LoaderParts& parts, const OrderState& from, const NodePlan& plan, const StopBell& stop,
             std::function<bool()> asks, NodeLink link, Region region, std::size_t number);
  static std::unique_ptr<NodeMember> find(const LoaderParts& parts, const OrderState& from, const NodePlan& plan,
                                          JoinTime& time, const StopBell& stop, std::function<bool()> asks,
                                          std::unique_ptr<NodeReader>& reader);
  std::optional<HostBatch> filled(std::int64_t first, const BatchShare& share);
  std::int64_t await_shown(std::int64_t row, std::int64_t count);
  bool doze();
  void pass(std::int64_t row);
  void add_times(LoaderTimes& times);

  const LoaderParts* parts_;
  const OrderState from_;
  const std::uint64_t epoch_step_;
  const NodeLimits limits_;
  const StopBell* stop_;
  const std::function<bool()> asks_;
  NodeLink link_;
  Region region_;
  MemberWords* words_;
  RowArena arena_;
  std::string over_;
  double slept_ = 0;               // seconds, in next()
  LoaderTimes reader_times_ = {};  // that have been added
};

}  // namespace dtrain::data
