#pragma once
// The rows of a unit, taken as far as a pass needs them: read, or as an earlier pass left them.
#include <functional>
#include <memory>
#include <vector>

#include "data/recipe/process_plan.h"
#include "data/rows/batch_store.h"
#include "data/rows/operations.h"
#include "data/rows/rows.h"
#include "data/rows/statistics.h"
#include "data/source/source.h"

namespace dtrain::data {

class UnitRows {
 public:
  // `persist`: what a pass has made of a unit waits in the store for the next pass; else it is read and made again.
  UnitRows(const Source& source, const ProcessPlan& plan, const Operations& operations, bool persist,
           BatchStore& store);

  // By many threads at once, each unit once in a pass, or not at all. What earlier passes have found is in `known`. In
  // a pass that is not the last, statistics are gathered into `gathers`.
  Rows rows(std::size_t unit, int pass, const Statistics& known, Statistics& gathers);
  std::int64_t rows_read(std::size_t unit) const { return counts_[unit]; }

 private:
  Rows read(std::size_t unit, int pass);
  Rows take_kept(std::size_t unit);
  void keep(const Rows& rows);

  struct Waiting {
    BatchStore::Kept kept;
    int done = -1;
    std::vector<std::size_t> slots;  // of the batch's columns after the first one
  };
  const Source& source_;
  const ProcessPlan& plan_;
  const Operations& operations_;
  const bool persist_;
  BatchStore& store_;
  std::vector<Waiting> waiting_;
  std::vector<std::int64_t> counts_;
};

}  // namespace dtrain::data
