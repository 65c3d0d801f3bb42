#include "rendezvous/http_connection.h"

#include <array>
#include <boost/asio/post.hpp>
#include <utility>

#include "rendezvous/base/check.h"

namespace dtrain {

namespace asio = boost::asio;

void HttpConnection::ask(const std::string& request, std::size_t most_bytes, Callbacks callbacks) {
  DT_CHECK(!response_, "one request at a time");
  callbacks_ = std::move(callbacks);
  response_ = std::make_unique<HttpResponse>(most_bytes);
  output_.append(request);
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (!self->open()) return;
    self->wait_readable();
    self->write();
  });
}

void HttpConnection::close() {
  if (open()) bytes_.close(socket_.native_handle());
  boost::system::error_code ignored;
  socket_.close(ignored);
  callbacks_ = {};
}

// With nothing left of a request: what TLS has to say.
void HttpConnection::write() {
  std::string_view left = output_.front();
  const auto size = left.size();
  const auto status = bytes_.send(socket_.native_handle(), left);
  output_.take(size - left.size());
  if (status == LinkBytes::Status::blocked) return wait_writable();
  // If the server has left, its last words may still be there; the reader finds the end.
  if (status == LinkBytes::Status::failed) ended(bytes_.error());
}

void HttpConnection::wait_writable() {
  if (std::exchange(writes_, true)) return;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [self = shared_from_this()](const boost::system::error_code& ec) {
                       self->writes_ = false;
                       if (!ec && self->open()) self->write();
                     });
}

void HttpConnection::wait_readable() {
  if (std::exchange(reads_, true)) return;
  socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& ec) {
                       self->reads_ = false;
                       if (!ec && self->open()) self->readable();
                     });
}

void HttpConnection::readable() {
  std::array<char, 16384> buffer;
  std::string_view got;
  const auto status = bytes_.receive(socket_.native_handle(), buffer, got);
  if (!got.empty()) heard(std::string(got));
  if (!open()) return;
  if (status == LinkBytes::Status::failed) return ended(bytes_.error());
  if (status == LinkBytes::Status::ended) {
    if (response_ && response_->end() == HttpResponse::Status::done) return heard({});
    return ended(response_ ? response_->error() : "");
  }
  if (bytes_.unsent()) wait_writable();
  wait_readable();
}

void HttpConnection::heard(std::string_view plaintext) {
  if (!response_) return ended("it speaks before it is asked");
  const auto status = response_->put(plaintext);
  if (status == HttpResponse::Status::bad) return ended(response_->error());
  const auto news = callbacks_.news;
  if (status == HttpResponse::Status::more) return news(*response_, false);
  const auto response = std::move(response_);
  callbacks_ = {};
  if (!response->keeps_open()) close();
  news(*response, true);
}

void HttpConnection::ended(const std::string& why) {
  const auto failed = callbacks_.failed;
  close();
  response_.reset();
  if (failed) failed(why);
}

}  // namespace dtrain
