#include "launcher/hosting/waiting_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace dtrain::launcher {

namespace {
constexpr auto kAskAgain = std::chrono::seconds(10);
}  // namespace

void WaitingLine::set(const std::string& text, std::optional<MonoTime> until) {
  until_ = until;
  if (text == text_) return;
  text_ = text;
  show();
}

void WaitingLine::clear() {
  stop();
  text_.clear();
}

void WaitingLine::stop() {
  until_.reset();
  timer_.cancel();
}

void WaitingLine::show() {
  if (!until_) {
    timer_.cancel();
    return show_("waiting: " + text_);
  }
  const auto left = std::max(Duration{}, Duration(*until_ - SteadyClock::now()));
  show_(fmt::format("waiting: {}, {:.0f} s left", text_, in_seconds(left)));
  timer_.expires_after(kAskAgain);
  timer_.async_wait([this](const boost::system::error_code& ec) {
    if (!ec && until_) show();
  });
}

}  // namespace dtrain::launcher
