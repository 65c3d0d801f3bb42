#pragma once
// Whose call a collective is, where the program did not make it itself: errors and the flight recorder say it. Numbers
// and no text, since each collective carries it. Pure.
#include <cstdint>
#include <string>
#include <utility>

namespace dtrain {

struct CallOrigin {
  enum class Kind : std::uint32_t {
    program,
    ddp_construction,
    ddp_backward,
    ddp_unused,
    ddp_bucket_order,
    ddp_buffers,
    ddp_verify_sync,
    ddp_join,
    hvd_context,
    hvd_parameters,
    hvd_optimizer_state,
    new_group,
    group_end,
    shutdown,
    call_check
  };
  Kind kind = Kind::program;
  // Of ddp_backward: which bucket, from 1, and of how many; 0: not known.
  std::uint32_t bucket = 0, buckets = 0;

  // "Ddp backward, bucket 1 of 3". Empty: the program's own, or a number that another build sent.
  std::string text() const;

  // What this thread calls now.
  static const CallOrigin& current() { return of_thread; }

 private:
  friend class CallsOf;
  static constinit thread_local CallOrigin of_thread;
};

// What this thread calls while it lives is of that origin.
class CallsOf {
 public:
  explicit CallsOf(const CallOrigin& origin) : before_(std::exchange(CallOrigin::of_thread, origin)) {}
  explicit CallsOf(CallOrigin::Kind kind) : CallsOf(CallOrigin{kind}) {}
  ~CallsOf() { CallOrigin::of_thread = before_; }
  CallsOf(const CallsOf&) = delete;
  CallsOf& operator=(const CallsOf&) = delete;

 private:
  const CallOrigin before_;
};

}  // namespace dtrain
