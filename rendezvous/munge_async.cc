#include "rendezvous/munge_async.h"

#include <boost/asio/post.hpp>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "rendezvous/base/all_signals_blocked.h"

namespace dtrain {

namespace asio = boost::asio;

// What a thread has of the event loop: as long as it is there.
struct MungeAsync::Loop {
  std::mutex mutex;
  asio::io_context* io = nullptr;  // null: the object has ended

  template <class Value>
  static void answer(const std::shared_ptr<Loop>& loop, const std::function<void(Result<Value>)>& done,
                     Result<Value> value) {
    const std::lock_guard lock(loop->mutex);
    if (loop->io == nullptr) return;
    asio::post(*loop->io, [loop, done, value = std::move(value)] {
      if (loop->io != nullptr) done(value);  // it changes on this thread alone
    });
  }
};

MungeAsync::MungeAsync(asio::io_context& io, Munge munge) : munge_(std::move(munge)), loop_(std::make_shared<Loop>()) {
  loop_->io = &io;
}

MungeAsync::~MungeAsync() {
  const std::lock_guard lock(loop_->mutex);
  loop_->io = nullptr;
}

template <class Value, class Work>
void MungeAsync::start(Work work, std::function<void(Result<Value>)> done) {
  const AllSignalsBlocked blocked;
  try {
    std::thread([loop = loop_, work = std::move(work), done] { Loop::answer<Value>(loop, done, work()); }).detach();
  } catch (const std::system_error& e) {
    Loop::answer<Value>(loop_, done, system_error("MUNGE: no thread", e.code().value()));
  }
}

void MungeAsync::seal(const JobSecret& secret, const std::string& job, std::function<void(Result<std::string>)> done) {
  start<std::string>([munge = munge_, secret, job] { return munge.seal(secret, job); }, std::move(done));
}

void MungeAsync::open(const std::string& credential, const std::string& job,
                      std::function<void(Result<JobSecret>)> done) {
  start<JobSecret>([munge = munge_, credential, job] { return munge.open(credential, job); }, std::move(done));
}

}  // namespace dtrain
