#pragma once
// The host's side of munge_exchange.h: makes credentials for those who ask, one after the other.
#include <boost/asio/io_context.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/munge/munge_async.h"
#include "rendezvous/munge/munge_exchange.h"

namespace dtrain {

// On the thread of `io`, which outlives it.
class MungeDesk {
 public:
  using Answer = std::function<void(const Result<std::string>& credential)>;

  MungeDesk(boost::asio::io_context& io, Munge munge, JobSecret secret, std::string job);

  // `answer` is called once, never from within, if `who` is still there when its turn comes. False: too many have asked
  // lately.
  bool ask(std::weak_ptr<const void> who, Answer answer);

 private:
  struct Waiting {
    std::weak_ptr<const void> who;
    Answer answer;
  };
  void next();

  MungeAsync munge_;
  const JobSecret secret_;
  const std::string job_;
  MungeBudget budget_;
  std::deque<Waiting> waiting_;  // bounded by the budget, and by those who are there
  bool busy_ = false;
};

}  // namespace dtrain
