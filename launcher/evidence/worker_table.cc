#include "launcher/evidence/worker_table.h"

#include <algorithm>
#include <chrono>

namespace dtrain::launcher {
namespace {

using std::chrono::milliseconds;

WorkerNow now_of(const WorkerRow& row, MonoTime now) {
  WorkerNow worker;
  worker.local_rank = row.local_rank;
  worker.rank = row.rank;
  worker.pid = row.pid;
  worker.state = row.end ? describe(row.end->status) : row.pid == 0 ? "not started yet" : "running";
  worker.alive = row.pid != 0 && !row.end;
  if (row.pid != 0)
    worker.age = std::chrono::duration_cast<milliseconds>((row.end ? row.end->ended : now) - row.started);
  worker.silent = std::chrono::duration_cast<milliseconds>(now - std::max(row.started, row.wrote));
  return worker;
}

WorkerRow new_row(int local_rank, int rank) {
  WorkerRow row;
  row.local_rank = local_rank;
  row.rank = rank;
  return row;
}

}  // namespace

void WorkerTable::begin_round(const Assignment& place) {
  place_ = place;
  int local_rank = 0;
  for (WorkerRow& row : rows_) {
    row = new_row(local_rank, place.base_rank + local_rank);
    ++local_rank;
  }
}

void WorkerTable::replace(int local_rank) {
  WorkerRow& row = rows_.at(std::size_t(local_rank));
  row = new_row(local_rank, row.rank);
  row.replaced = true;
}

bool WorkerTable::all_started() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const WorkerRow& row) { return row.pid != 0; });
}

std::optional<MonoTime> WorkerTable::last_end() const {
  std::optional<MonoTime> last;
  for (const WorkerRow& row : rows_) {
    if (row.end && (!last || row.end->ended > *last)) last = row.end->ended;
  }
  return last;
}

std::vector<WorkerNow> WorkerTable::now(MonoTime now) const {
  std::vector<WorkerNow> all;
  if (!place_) return all;
  all.reserve(rows_.size());
  for (const WorkerRow& row : rows_) all.push_back(now_of(row, now));
  return all;
}

}  // namespace dtrain::launcher
