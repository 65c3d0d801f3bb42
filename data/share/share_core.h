#pragma once
// How the ranks of a node share one reader of rows. Pure: a function of what happened and the time.
//
// The reader shows rows in the order of the epoch. Their numbers go on over epochs. Each member takes its own share of
// them, and says which rows it has passed. The memory of the rows that all have passed is the reader's again.
//
//   start        floor         shown
//   ---|-----------|-------------|--------> rows
//        free again  at most ring  not yet
//
// Sharing saves work and changes no row: who cannot take part, or no longer, reads by itself from where it is. So
// whatever goes wrong has one answer, and nobody waits for a rank that does not come, has gone or has stopped.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dtrain::data {

struct ShareLimits {
  std::int64_t ring_rows;          // between the floor and the last row shown
  std::chrono::milliseconds join;  // how long the first rows wait for ranks that have not come
  std::chrono::milliseconds lag;   // how long a member may keep others from rows that they need
};

class ShareCore {
 public:
  using Time = std::chrono::milliseconds;  // since any moment

  // `expected`: how many ranks should come. Rows from `start` on are shown.
  ShareCore(const ShareLimits& limits, int expected, std::int64_t start, Time now);

  // again: the rows that it wants have passed, but it has been here; it starts again before the others do, and waits
  // for their next reader. late: they have passed, and it has never been here.
  enum class Answer { welcome, again, late };
  Answer ask(int rank) const;
  // After `late`, or because there is no descriptor for it: nobody waits for it. It may come to the next reader.
  void reads_alone(int rank) { alone_.insert(rank); }
  // After `welcome`.
  void joined(std::size_t member, int rank);
  // It has ended, or its process has.
  void left(std::size_t member);

  struct Seen {
    std::int64_t passed = 0;  // rows before this one
    bool starving = false;    // its program waits for rows that are not shown
    bool copying = false;     // it reads memory, which must stay as it is
    bool wants = false;       // it waits for rows that are not shown, for its program or to be ahead of it
  };
  void saw(std::size_t member, const Seen& seen);

  // No member needs rows before this one. It never falls. Members pass rows of others before they are shown, so it may
  // be above those.
  std::int64_t floor(Time now);
  // The reader has shown rows.
  void shown(Time now) { still_since_ = now; }
  // What the floor must have reached before rows up to `end` are shown. An epoch ends when it has reached its last row.
  std::int64_t needed_for(std::int64_t end) const { return end - limits_.ring_rows; }

  struct Verdict {
    enum Kind {
      wait,   // until something happens
      expel,  // this member reads by itself from now on, if it is not copying
      end,    // all read by themselves from now on: a member has stopped while it copies, or none is left
    } kind = wait;
    std::size_t member = 0;
  };
  // Asked while the floor keeps rows from being shown, and at the end of an epoch until is_wanted().
  Verdict blocked(Time now);
  // At the end of an epoch: a member wants rows of the next one. It begins then and not before, for there may be none.
  bool is_wanted() const;

  // How many ranks did not come in time, once, when that is known.
  std::optional<int> missing(Time now);
  // How many have come, those that have left again or read alone among them. The next reader expects as many.
  int known() const {
    return static_cast<int>(came_.size() +
                            static_cast<std::size_t>(std::count_if(
                                alone_.begin(), alone_.end(), [this](int rank) { return !came_.contains(rank); })));
  }

 private:
  bool awaits(Time now) const { return known() < expected_ && now < begun_ + limits_.join; }

  const ShareLimits limits_;
  const int expected_;
  const std::int64_t start_;
  const Time begun_;
  std::int64_t floor_;
  Time still_since_;  // somebody starves, the floor has not risen, and no row was shown
  bool told_missing_ = false;
  std::set<int> came_, alone_;
  std::vector<std::optional<Seen>> members_;
};

}  // namespace dtrain::data
