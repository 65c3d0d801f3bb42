#include "launcher/hosting/facts_question.h"

#include <chrono>
#include <utility>

namespace dtrain::launcher {

namespace {
constexpr auto kAnswer = std::chrono::milliseconds(500);
}  // namespace

bool FactsQuestion::ask(Taker taker) {
  takers_.push_back(std::move(taker));
  if (takers_.size() > 1) return false;
  until_.expires_after(kAnswer);
  until_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec) answer(std::nullopt);
  });
  return true;
}

void FactsQuestion::answer(const std::optional<JobFacts>& facts) {
  until_.cancel();
  for (const Taker& taker : std::exchange(takers_, {})) taker(facts);
}

}  // namespace dtrain::launcher
