#include "rendezvous/etcd/etcd_client.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace dtrain {

EtcdClient::EtcdClient(boost::asio::io_context& io, EtcdSettings settings)
    : io_(io), members_(io, std::move(settings)) {}

EtcdClient::~EtcdClient() { cancel(); }

std::shared_ptr<EtcdCall> EtcdClient::make_call(EtcdRequest request) {
  return std::make_shared<EtcdCall>(io_, members_, std::move(request), [this](const std::shared_ptr<EtcdCall>& call) {
    calls_.erase(call);
    if (watch_ == call) watch_.reset();
  });
}

void EtcdClient::call(EtcdRequest request, Duration limit, Done done) {
  if (calls_.size() >= kMostCalls) {
    boost::asio::post(io_, [done = std::move(done)] {
      done(Error{ErrorKind::system, "too many calls of etcd at once"});
    });
    return;
  }
  const auto call = make_call(std::move(request));
  calls_.insert(call);
  call->begin(limit, std::move(done));
}

void EtcdClient::watch(EtcdRequest request, Duration limit, WatchCallbacks callbacks) {
  stop_watching();
  watch_ = make_call(std::move(request));
  watch_->begin(limit, std::move(callbacks));
}

void EtcdClient::stop_watching() {
  if (const auto watch = std::exchange(watch_, nullptr)) watch->cancel();
}

void EtcdClient::cancel() {
  stop_watching();
  for (const auto& call : std::exchange(calls_, {})) call->cancel();
  members_.close_idle();
}

}  // namespace dtrain
