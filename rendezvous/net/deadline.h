#pragma once
// The deadline of a pure core, on an event loop.
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <utility>

#include "rendezvous/base/clock.h"

namespace dtrain {

// Call due() at `at`, in place of what `timer` waited for before. Empty: wait for nothing. Where `timer` is cancelled,
// due() is not called; but one that has come may be called after its owner has gone, if the owner does not look.
template <class Due>
void call_at(boost::asio::steady_timer& timer, std::optional<MonoTime> at, Due due) {
  if (!at) {
    timer.cancel();
    return;
  }
  timer.expires_at(*at);
  timer.async_wait([due = std::move(due)](const boost::system::error_code& ec) {
    if (!ec) due();
  });
}

}  // namespace dtrain
