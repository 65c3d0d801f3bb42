#pragma once
// The one reader of a node: a thread that reads rows from a position on, epoch after epoch, and shows them to the
// members. It decides nothing; ShareCore does.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "data/flow/row_flow.h"
#include "data/node/node_link.h"
#include "data/node/region.h"
#include "data/node/stop_bell.h"
#include "data/share/share_core.h"

namespace dtrain::data {

// Numbers of rows begin with that of `at` in its epoch, and go on over epochs.
class NodeReader {
 public:
  struct Work {
    std::string who;  // the loader, for what is written to standard error
    OrderState at;
    std::uint64_t epoch_step;  // between an epoch and the next one
    int ranks;                 // that should come
    bool read_through;         // the files first
  };
  // All but the work must outlive the reader.
  NodeReader(NodeDoor door, Region region, const ShareLimits& limits, const LoaderParts& parts, const Work& work,
             const StopBell& stop);
  // `stop` has been rung.
  ~NodeReader();
  NodeReader(const NodeReader&) = delete;
  NodeReader& operator=(const NodeReader&) = delete;

  // It shows no more rows, and nobody can ask it. So it is when all members have left, too.
  bool has_ended() const { return words().over != ReaderWords::reads; }
  const ReaderWords& words() const { return region_.reader(); }

 private:
  struct Guest {
    NodeLink link;
    bool expelled = false;
  };
  void run();
  ReaderWords::Over read();
  bool show_epoch(const OrderState& at);
  void show(std::span<const std::uint32_t> slots);
  bool await_floor(RowFlow& flow, std::int64_t least);
  bool await_wanted();
  bool obey(const ShareCore::Verdict& verdict);
  void look(std::chrono::milliseconds limit);
  void admit(NodeLink link, int rank);
  void turn_away(NodeLink link, std::optional<int> rank);
  void see_words();
  void tell_missing();
  void tell_ranks();
  void note(const std::exception& error);
  void end(ReaderWords::Over why);

  std::optional<NodeDoor> door_;
  Region region_;
  const ShareLimits limits_;
  const LoaderParts* parts_;
  const Work work_;
  const StopBell* stop_;
  std::optional<ShareCore> core_;
  std::vector<NodeLink> asking_;              // at the door, without an answer
  std::vector<std::optional<Guest>> guests_;  // by the member's number
  std::int64_t shown_, released_, epoch_begin_ = 0;
  std::thread thread_;
};

}  // namespace dtrain::data
