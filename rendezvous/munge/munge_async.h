#pragma once
// Asks munged without the event loop waiting for it: libmunge blocks, for many seconds where munged hangs. Whoever
// calls bounds the number of requests.
#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <utility>

#include "rendezvous/base/beside_loop.h"
#include "rendezvous/base/result.h"
#include "rendezvous/munge/munge_secret.h"

namespace dtrain {

// On the thread of `io`; `io` outlives it. `done` is called as BesideLoop does.
class MungeAsync {
 public:
  MungeAsync(boost::asio::io_context& io, Munge munge) : munge_(std::move(munge)), beside_(io) {}

  void seal(const JobSecret& secret, const std::string& job, std::function<void(Result<std::string>)> done) {
    beside_.start<std::string>(
        "MUNGE", [munge = munge_, secret, job] { return munge.seal(secret, job); }, std::move(done));
  }
  void open(const std::string& credential, const std::string& job, std::function<void(Result<JobSecret>)> done) {
    beside_.start<JobSecret>(
        "MUNGE", [munge = munge_, credential, job] { return munge.open(credential, job); }, std::move(done));
  }

 private:
  Munge munge_;
  BesideLoop beside_;
};

}  // namespace dtrain
