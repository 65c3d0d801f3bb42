#pragma once
// LineFolder shows a line that many workers write at about the same time once. Pure: events and the time go in, lines
// come out of `show`.
//
//   0: "epoch 1\n"   1: "epoch 1\n"   2: "epoch 1\n"   ->   show({0, 1, 2}, "epoch 1\n")
//
// A line waits for its equals: at most kWindow, and no longer than until every open member has written it, or more than
// kMostBytes wait. Lines are shown in the order in which they first came, so those of one member keep their order.
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/base/clock.h"

namespace dtrain::launcher {

class LineFolder {
 public:
  static constexpr std::chrono::milliseconds kWindow{200};
  static constexpr size_t kMostBytes = 1 << 20;  // that wait; each line counts as kLineCost more
  static constexpr size_t kLineCost = 128;
  static constexpr size_t kLongestLine = 4096;  // what is longer is not worth waiting for: let_pass() it

  // members: who wrote the line, in the order in which they did.
  using Show = std::function<void(const std::vector<int>& members, std::string_view line)>;

  // A member that may write from now on. Only lines of one kind (stdout, stderr) are folded.
  void open(int member, int kind);
  // It writes no more; nobody waits for it.
  void close(int member, MonoTime now, const Show& show);

  // A whole line of an open member, with its line end.
  void line(int member, std::string_view text, MonoTime now, const Show& show);
  // Show what this member has written, because something of it that cannot be folded comes next.
  void let_pass(int member, const Show& show);
  void show_all(const Show& show);

  // When to call on_time(): only while a line waits.
  std::optional<MonoTime> deadline() const;
  void on_time(MonoTime now, const Show& show) { settle(now, show); }

  size_t waiting_bytes() const { return bytes_; }

 private:
  struct Member {
    int kind = 0;
    uint64_t next = 0;  // its next line may be any from this number on
  };
  struct Line {
    std::string key;  // kind and text
    MonoTime deadline;
    std::vector<int> members;
    int missing;  // open members that have not written it
  };

  Line& at(uint64_t number) { return lines_[number - first_]; }
  void settle(MonoTime now, const Show& show);
  void show_first(const Show& show);

  std::map<int, Member> members_;
  std::deque<Line> lines_;  // numbered first_, first_ + 1, ...
  uint64_t first_ = 0;
  std::unordered_map<std::string, std::deque<uint64_t>> numbers_;  // of the lines with this key, ascending
  size_t bytes_ = 0;
};

}  // namespace dtrain::launcher
