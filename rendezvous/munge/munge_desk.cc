#include "rendezvous/munge/munge_desk.h"

#include <utility>

namespace dtrain {

namespace {
constexpr std::size_t kMostWaiting = 4096;  // of whom most may have left
}

MungeDesk::MungeDesk(boost::asio::io_context& io, Munge munge, JobSecret secret, std::string job)
    : munge_(io, std::move(munge)), secret_(std::move(secret)), job_(std::move(job)) {}

bool MungeDesk::ask(std::weak_ptr<const void> who, Answer answer) {
  if (waiting_.size() >= kMostWaiting || !budget_.take(SteadyClock::now())) return false;
  waiting_.push_back({std::move(who), std::move(answer)});
  next();
  return true;
}

void MungeDesk::next() {
  while (!waiting_.empty() && waiting_.front().who.expired()) waiting_.pop_front();
  if (busy_ || waiting_.empty()) return;
  busy_ = true;
  munge_.seal(secret_, job_, [this, first = std::move(waiting_.front())](const Result<std::string>& credential) {
    busy_ = false;
    if (!first.who.expired()) first.answer(credential);
    next();
  });
  waiting_.pop_front();
}

}  // namespace dtrain
