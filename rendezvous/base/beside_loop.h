#pragma once
// Work that blocks, for an event loop that must not: each piece has a thread of its own, and its outcome comes back on
// the loop. Whoever calls bounds their number.
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "rendezvous/base/all_signals_blocked.h"
#include "rendezvous/base/result.h"

namespace dtrain {

class BesideLoop {
 public:
  // On the thread of `io`; `io` outlives it.
  explicit BesideLoop(boost::asio::io_context& io) : loop_(std::make_shared<Loop>()) { loop_->io = &io; }
  ~BesideLoop() {
    const std::lock_guard lock(loop_->mutex);
    loop_->io = nullptr;
  }
  BesideLoop(const BesideLoop&) = delete;
  BesideLoop& operator=(const BesideLoop&) = delete;

  // `done` is called on the loop, never from within, and not after the end of this object; it is copied and destroyed
  // on other threads. `what` names the work in the error that there is no thread for it.
  template <class Value>
  void start(const std::string& what, std::function<Result<Value>()> work, std::function<void(Result<Value>)> done) {
    const AllSignalsBlocked blocked;
    try {
      std::thread([loop = loop_, work = std::move(work), done] { answer<Value>(loop, done, work()); }).detach();
    } catch (const std::system_error& e) {
      answer<Value>(loop_, done, system_error(what + ": no thread", e.code().value()));
    }
  }

 private:
  // What a thread has of the event loop: as long as it is there.
  struct Loop {
    std::mutex mutex;
    boost::asio::io_context* io = nullptr;  // null: the object has ended
  };

  template <class Value>
  static void answer(const std::shared_ptr<Loop>& loop, const std::function<void(Result<Value>)>& done,
                     Result<Value> value) {
    const std::lock_guard lock(loop->mutex);
    if (loop->io == nullptr) return;
    boost::asio::post(*loop->io, [loop, done, value = std::move(value)] {
      if (loop->io != nullptr) done(value);  // it changes on this thread alone
    });
  }

  std::shared_ptr<Loop> loop_;
};

}  // namespace dtrain
