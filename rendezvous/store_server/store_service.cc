#include "rendezvous/store_server/store_service.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace dtrain {

namespace {

StoreBackend& backend(boost::asio::io_context& io, const StoreOptions& options, StoreBackend* store,
                      std::optional<StoreRelay>& relay) {
  if (store != nullptr) return *store;
  return relay.emplace(io, *options.remote);
}

}  // namespace

StoreService::StoreService(boost::asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
                           const StoreOptions& options, std::unique_ptr<StoreBackend> store)
    : options_(options),
      store_(std::move(store)),
      backend_(backend(io, options, store_.get(), relay_)),
      clients_(io, std::move(listener), std::move(peer_uid), options, backend_, outlets_, callbacks()) {
  if (store_) links_.emplace(io, *store_, outlets_, options.limits, callbacks());
  if (relay_)
    relay_->set({.reply = [this](ConnectionId to, std::string_view bytes) { clients_.send(to, bytes); },
                 .end = [this](ConnectionId to, std::string_view reason) { clients_.close(to, reason); },
                 .ready = [this] { clients_.resume(); },
                 .turn = [this] { publish(); },
                 .lost = [this] { link_lost(); }});
  outlets_.set(&clients_, links());
  clients_.start();
}

StoreOutlet::Callbacks StoreService::callbacks() {
  return {.report = [this](std::string_view line) { report(line); }, .publish = [this] { publish(); }};
}

void StoreService::begin_round(std::optional<std::uint64_t> round) {
  clients_.begin_round();
  if (links_) links_->begin_round(round);
  if (store_) store_->renew();
  if (relay_ && round) relay_->begin_round(*round);
  if (relay_ && !round) relay_->stop();
  publish();
}

void StoreService::link_lost() {
  const std::string reason(relay_->closed_because());
  report(reason);
  clients_.close_all();
  publish();
  if (options_.remote->lost) options_.remote->lost(relay_->round(), reason);
}

// Strangers can cause many lines.
void StoreService::report(std::string_view text) {
  if (!options_.log) return;
  const auto line = reports_.admit(fmt::format("store: {}", text), std::chrono::steady_clock::now());
  if (line) options_.log(*line);
}

void StoreService::publish() {
  StoreStats now;
  backend_.describe(now);
  outlets_.describe(now);
  const std::lock_guard lock(published_mutex_);
  published_ = now;
}

StoreStats StoreService::stats() const {
  const std::lock_guard lock(published_mutex_);
  return published_;
}

}  // namespace dtrain
