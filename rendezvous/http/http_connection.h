#pragma once
// One connection to an HTTP server on an event loop, with TLS or without: a request and its response, then perhaps the
// next. Time limits are the caller's.
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/http/http_message.h"
#include "rendezvous/tls/link_stream.h"

namespace dtrain {

class HttpConnection final : public LinkStream {
 public:
  struct Callbacks {
    // Something of the response has come, perhaps the last of it (`done`).
    std::function<void(HttpResponse&, bool done)> news;
    // Instead of the last news. Nothing more comes.
    std::function<void(const std::string& why)> failed;
  };

  // `socket`: connected. open() is false once the server has closed it, also while nothing was asked.
  HttpConnection(boost::asio::io_context& io, LinkSocket socket) : LinkStream(io, std::move(socket), kLimits) {}

  // Not while another request is under way. `most_bytes` as HttpResponse's. No callback is called from within.
  void ask(const std::string& request, std::size_t most_bytes, Callbacks callbacks);
  // Without a callback.
  void close();

 private:
  static constexpr LinkStreamLimits kLimits{};

  void received(std::string_view plaintext) override;
  void closed(LinkBytes::Status how, const std::string& reason) override;

  std::unique_ptr<HttpResponse> response_;  // null: nothing was asked
  Callbacks callbacks_;
};

}  // namespace dtrain
