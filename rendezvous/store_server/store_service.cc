#include "rendezvous/store_service.h"

#include <string>
#include <string_view>
#include <utility>

namespace dtrain {

namespace {

StoreBackend& backend(boost::asio::io_context& io, const StoreHost::Options& options, StoreBackend* store,
                      std::optional<StoreRelay>& relay) {
  if (store != nullptr) return *store;
  return relay.emplace(io, *options.remote);
}

}  // namespace

StoreService::StoreService(boost::asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
                           const StoreHost::Options& options, std::unique_ptr<StoreBackend> store)
    : options_(options),
      store_(std::move(store)),
      front_(io, std::move(listener), std::move(peer_uid), options, backend(io, options, store_.get(), relay_)) {
  if (store_) links_.emplace(io, *store_, front_, options.limits);
  if (relay_)
    relay_->set({.reply = [this](ConnectionId to, std::string_view bytes) { front_.reply(to, bytes); },
                 .end = [this](ConnectionId to, std::string_view reason) { front_.end(to, reason); },
                 .ready = [this] { front_.resume(); },
                 .turn = [this] { front_.publish(); },
                 .lost = [this] { link_lost(); }});
  front_.start(links());
}

void StoreService::begin_round(std::optional<std::uint64_t> round) {
  front_.close_all();
  if (links_) links_->begin_round(round);
  if (store_) store_->renew();
  if (relay_ && round) relay_->begin_round(*round);
  if (relay_ && !round) relay_->stop();
  front_.publish();
}

void StoreService::link_lost() {
  const std::string reason(relay_->closed_because());
  front_.report(reason);
  front_.close_all();
  front_.publish();
  if (options_.remote->lost) options_.remote->lost(relay_->round(), reason);
}

}  // namespace dtrain
