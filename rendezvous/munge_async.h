#pragma once
// Asks munged without the event loop waiting for it: each request has a thread of its own, since libmunge blocks, for
// many seconds where munged hangs. Whoever calls bounds their number.
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/munge_secret.h"

namespace dtrain {

// On the thread of `io`; `io` outlives it. `done` is called there, never from within, and not after the end of this
// object; it is copied and destroyed on other threads.
class MungeAsync {
 public:
  MungeAsync(boost::asio::io_context& io, Munge munge);
  ~MungeAsync();
  MungeAsync(const MungeAsync&) = delete;
  MungeAsync& operator=(const MungeAsync&) = delete;

  void seal(const JobSecret& secret, const std::string& job, std::function<void(Result<std::string>)> done);
  void open(const std::string& credential, const std::string& job, std::function<void(Result<JobSecret>)> done);

 private:
  struct Loop;
  template <class Value, class Work>
  void start(Work work, std::function<void(Result<Value>)> done);

  Munge munge_;
  std::shared_ptr<Loop> loop_;
};

}  // namespace dtrain
