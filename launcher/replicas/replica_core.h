#pragma once
// What the ends of replica groups mean for the job of which they are parts. A group that ends, well or not, ends nobody
// else: the others go on. The job ends with the last of them, and its exit code tells of the first that failed.
#include <optional>
#include <string>
#include <vector>

namespace dtrain::launcher {

class ReplicaCore {
 public:
  // The groups of a node, by their place there. `first`: the number of the first one.
  explicit ReplicaCore(int groups, int first = 0) : first_group_(first), ends_(static_cast<std::size_t>(groups)) {}

  // The user, or the system, has asked all groups to end.
  // The first signal counts, as in a job without groups.
  void stopped(int signal) {
    if (signal_ == 0) signal_ = signal;
  }
  // With this exit code. Returns what the user should know.
  std::optional<std::string> ended(int at, int code);
  // The process of the group was killed. The exit code is then dtrain's own failure.
  std::optional<std::string> killed(int at, int signal);

  bool over() const { return left() == 0; }
  // After a stop, the code of the stop if a group has ended with it. Else that of the group that failed first; 0: all
  // have ended well.
  int exit_code() const;
  // The job ends since the user has typed Ctrl-C.
  bool is_interrupted() const;
  // Which groups have failed, once all have ended. Nothing: none has, or there is no need to say it.
  std::optional<std::string> summary() const;

 private:
  int left() const;
  std::optional<std::string> failed(int at, const std::string& how);

  const int first_group_;
  std::vector<std::optional<int>> ends_;  // exit codes by place
  int first_ = 0;                         // exit code of the group that failed first
  int signal_ = 0;
};

}  // namespace dtrain::launcher
