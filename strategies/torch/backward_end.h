#pragma once
// The end of a backward, which may run within another one, and forwards that a backward runs again
// (dtrain/recompute.h). Autograd has a thread for each device: nodes of a backward within another one run on the thread
// of theirs, so a model is on one device.
#include <functional>
#include <vector>

namespace dtrain {

// Called at the end of the backward that runs, and of the outermost one if it runs within others. Use it within one. It
// is not called if the backward ends with an exception.
void at_end_of_backward(std::function<void()> call);

// While it lives, this thread runs a backward within another one.
class InnerBackward {
 public:
  InnerBackward();
  ~InnerBackward();
  InnerBackward(const InnerBackward&) = delete;
  InnerBackward& operator=(const InnerBackward&) = delete;

 private:
  friend void at_end_of_backward(std::function<void()> call);
  InnerBackward* outer_;
  std::vector<std::function<void()>> calls_;  // for the end of the one around it
};

// While it lives, this thread is in the first run of such a forward, which has no gradients.
class InFirstRun {
 public:
  InFirstRun();
  ~InFirstRun();
  InFirstRun(const InFirstRun&) = delete;
  InFirstRun& operator=(const InFirstRun&) = delete;
};
bool is_first_run();

}  // namespace dtrain
