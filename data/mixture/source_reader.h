#pragma once
// The rows of one source of a mixture, one after the other, epoch after epoch: from the node's reader of the source, or
// read by this rank. For the thread that reads.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/base/host_batch.h"
#include "data/loader/batch_source.h"
#include "data/loader/node_reader.h"
#include "data/mixture/source_files.h"
#include "data/node/name_claim.h"
#include "dtrain/loader_times.h"

namespace dtrain::data {

// What the sources of a mixture have in common while a thread reads.
struct MixtureThread {
  const StopBell& stop;
  std::function<bool()> asks;  // the program waits for a batch in this moment
  std::optional<NodeJob> job;  // whose ranks read together
  NodeLimits limits;
  std::string from;           // the state with which the thread has begun: ranks with another one share no rows
  bool reads_through;         // the files are read once before the first row
  std::optional<int>& ranks;  // how many ranks of the node have come, if that is known
};

class SourceReader {
 public:
  // Both must outlive the reader. Destroyed when `stop` has been rung, and not before: the other ranks of the node may
  // need what it reads.
  SourceReader(SourceFiles& source, const MixtureThread& thread);

  // The mixture's epoch begins with epoch `epoch` of the source. `taken` of its rows have been taken.
  void go_to(std::uint64_t epoch, std::int64_t taken);
  // Rows are going to be needed: finds the reader of the node or becomes it. All ranks do so at the begin of an epoch.
  // A rank that first needs a rare source's row some time after the others would come too late. `time` is that of all
  // sources. Reads the files once, if that is wanted and neither has been done nor is the work of the node's reader.
  void begin(JoinTime& time);
  // No row is going to be needed: only reads the files, likewise.
  void read_through();
  // The next `count` rows, which do not go beyond left_of_epoch(); with `is_own` false they are only passed. Nothing if
  // `stop` has been rung. Throws DataError.
  std::optional<HostBatch> next(std::int64_t count, bool is_own, LoaderTimes& times);
  // Gives back the memory of readers that nobody needs any more.
  void drop_ended();
  std::int64_t left_of_epoch() const { return source_->rows() - taken_ % source_->rows(); }

 private:
  OrderState at() const;
  void open(JoinTime& time);

  SourceFiles* source_;
  const MixtureThread* thread_;
  const LoaderParts parts_;
  std::uint64_t epoch_ = 0;  // of the mixture
  std::int64_t taken_ = 0;
  bool reads_through_;
  std::optional<NameClaim> claim_;
  // Of this rank: that of rows_, and earlier ones that others have not left yet.
  std::vector<std::unique_ptr<NodeReader>> readers_;
  std::unique_ptr<BatchSource> rows_;  // none: no row has been needed from here on
};

}  // namespace dtrain::data
