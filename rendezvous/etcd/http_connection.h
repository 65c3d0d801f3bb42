#pragma once
// One connection to an HTTP server on an event loop, with TLS or without: a request and its response, then perhaps the
// next. Time limits are the caller's.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/byte_queue.h"
#include "rendezvous/http_message.h"
#include "rendezvous/link_socket.h"

namespace dtrain {

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  struct Callbacks {
    // Something of the response has come, perhaps the last of it (`done`).
    std::function<void(HttpResponse&, bool done)> news;
    // Instead of the last news. Nothing more comes.
    std::function<void(const std::string& why)> failed;
  };

  // `socket`: connected.
  HttpConnection(boost::asio::io_context& io, LinkSocket socket)
      : socket_(io, socket.fd.release()), bytes_(std::move(socket.tls)) {}

  // Not while another one is under way. `most_bytes` as HttpResponse's. No callback from within.
  void ask(const std::string& request, std::size_t most_bytes, Callbacks callbacks);
  // Without a callback.
  void close();
  // False once the server has closed it, also while nothing was asked.
  bool open() const { return socket_.is_open(); }

 private:
  void write();
  void wait_writable();
  void wait_readable();
  void readable();
  void heard(std::string_view plaintext);
  void ended(const std::string& why);

  boost::asio::posix::stream_descriptor socket_;
  LinkBytes bytes_;
  ByteQueue output_;
  std::unique_ptr<HttpResponse> response_;  // none: nothing was asked
  Callbacks callbacks_;
  bool reads_ = false;
  bool writes_ = false;
};

}  // namespace dtrain
