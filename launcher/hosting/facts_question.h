#pragma once
// A question to the host of the rounds about the whole job, for `dtrain status`. Everybody who asks while an answer is
// on its way gets that answer, or nothing after half a second. On the agent's event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <vector>

#include "rendezvous/rounds/job_facts.h"

namespace dtrain::launcher {

class FactsQuestion {
 public:
  using Taker = std::function<void(std::optional<JobFacts>)>;

  explicit FactsQuestion(boost::asio::io_context& io) : until_(io) {}

  // True: the caller must send the question. False: it is on its way.
  bool ask(Taker taker);
  // Tells all who have asked.
  void answer(const std::optional<JobFacts>& facts);

 private:
  std::vector<Taker> takers_;
  boost::asio::steady_timer until_;
};

}  // namespace dtrain::launcher
