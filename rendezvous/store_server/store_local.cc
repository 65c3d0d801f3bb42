#include "rendezvous/store_server/store_local.h"

#include <memory>
#include <utility>

namespace dtrain {
namespace {

// Replies collected before they are written, when one read holds many requests.
constexpr std::size_t kBatchBytes = std::size_t{1} << 20;
// Bytes of keys whose freeing takes milliseconds.
constexpr std::size_t kLongToFree = std::size_t{1} << 20;

}  // namespace

void StoreLocal::connect(ConnectionId connection) {
  ++requests_;  // the greeting
  decoders_.try_emplace(connection, StoreDecoder::after_greeting(limits_.wire));
}

void StoreLocal::receive(ConnectionId connection, std::string_view& input, StoreActions& out) {
  const auto found = decoders_.find(connection);
  if (found == decoders_.end()) {
    input = {};
    return;
  }
  StoreDecoder& decoder = found->second;
  for (;;) {
    const StoreDecoder::Status status = decoder.next(input);
    if (status == StoreDecoder::Status::need_more) return;
    if (status == StoreDecoder::Status::bad) {
      input = {};
      return out.close(connection, decoder.error());
    }
    ++requests_;
    core_.apply(connection, decoder.request(), out);
    if (!out.closes().empty() || (out.size() > kBatchBytes && !input.empty())) return;
  }
}

void StoreLocal::disconnect(ConnectionId connection) {
  decoders_.erase(connection);
  core_.disconnect(connection);
}

std::size_t StoreLocal::held_bytes(ConnectionId connection) const {
  const auto found = decoders_.find(connection);
  return found == decoders_.end() ? 0 : found->second.held_bytes();
}

void StoreLocal::describe(StoreStats& stats) const {
  stats.requests = requests_;
  stats.connections_waiting = core_.waiting_connections();
  stats.keys = core_.key_count();
  stats.bytes = core_.bytes();
}

void StoreLocal::renew() {
  decoders_.clear();
  StoreCore old = std::exchange(core_, StoreCore(limits_.core));
  // Others wait for this: a standing server with all its jobs.
  if (old.bytes() >= kLongToFree) discard_.add(std::make_shared<StoreCore>(std::move(old)));
}

}  // namespace dtrain
