#include "rendezvous/store_relay/store_link.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace dtrain {

namespace asio = boost::asio;

void StoreLink::start(Callbacks callbacks, std::string received, bool connecting) {
  callbacks_ = std::move(callbacks);
  queue().append(kStoreLinkGreeting);
  input_ = std::move(received);
  if (connecting) return wait_connected();
  write_soon();
  asio::post(executor(), [this, self = shared_from_this()] { hand_out_rest(); });
}

// ---- out ------------------------------------------------------------------------------------------------------------

void StoreLink::send(StoreLinkType type, std::uint64_t number, std::string_view payload) {
  if (!writes()) return;
  const bool again = type == StoreLinkType::data && is_again(payload);
  const std::size_t before = queue().size();
  put_store_link_frame(queue().end(), again ? StoreLinkType::again : type, number, payload);
  after_last_ += queue().size() - before;
  if (type == StoreLinkType::data && !again) last_data_ = after_last_ = payload.size();
  write_soon();
}

// The payload is what the last data frame had, which is still here to be compared. Many workers get one value at a
// time.
bool StoreLink::is_again(std::string_view payload) const {
  if (!at_host_ || payload.size() != last_data_ || after_last_ > queue().size()) return false;
  if (payload.size() < kStoreLinkAgainLeast || payload.size() > kStoreLinkAgainMost) return false;
  return queue().front().substr(queue().size() - after_last_, last_data_) == payload;
}

void StoreLink::drained() {
  callbacks_.drained();
  if (open() && at_host_) hand_out_rest();
}

// ---- in -------------------------------------------------------------------------------------------------------------

void StoreLink::received(std::string_view bytes) {
  while (open()) {
    if (waits()) {
      input_.append(bytes);
      return;
    }
    switch (decoder_.next(bytes)) {
      case StoreLinkDecoder::Status::need_more:
        return;
      case StoreLinkDecoder::Status::bad:
        return fail(decoder_.error());
      case StoreLinkDecoder::Status::frame:
        hand_out(decoder_.frame());
    }
  }
}

void StoreLink::hand_out(StoreLinkFrame frame) {
  if (finishing()) return;
  callbacks_.frame(frame);
  if (frame.type != StoreLinkType::data || frame.payload.empty() || !waits()) return;
  unhandled_ = frame.payload;
  unhandled_number_ = frame.number;
}

// Go on where the link was full, then with what comes.
void StoreLink::hand_out_rest() {
  if (!unhandled_.empty()) {
    const std::string rest = std::exchange(unhandled_, {});
    hand_out({StoreLinkType::data, unhandled_number_, rest});
  }
  const std::string input = std::exchange(input_, {});
  received(input);
  if (!open()) return;
  callbacks_.turn();
  resume();
}

std::optional<std::uint64_t> StoreLink::epoch() const {
  if (!bytes().encrypted()) return std::nullopt;
  return bytes().link().epoch;
}

}  // namespace dtrain
