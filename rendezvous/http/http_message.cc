#include "rendezvous/http/http_message.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

namespace dtrain {

namespace http = boost::beast::http;

namespace {
constexpr std::size_t kHeadBytes = 16 * 1024;
constexpr std::size_t kUndecided = 4 * 1024;  // of what the parser wants to see whole: a line, the head of a chunk
}  // namespace

std::string encode(const HttpPost& post) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
                     post.path, post.host, post.body.size(),
                     post.authorization.empty() ? "" : "Authorization: " + post.authorization + "\r\n", post.body);
}

struct HttpResponse::Impl {
  http::response_parser<http::string_body> parser;
  std::string undecided;
  std::size_t most_bytes = 0;
  Status status = Status::more;
  std::string error;

  Status fail(std::string why) {
    error = std::move(why);
    return status = Status::bad;
  }

  // What the parser takes of `bytes`.
  std::size_t parse(std::string_view bytes) {
    std::size_t taken = 0;
    while (taken < bytes.size() && !parser.is_done()) {
      boost::system::error_code failed;
      const auto rest = bytes.substr(taken);
      const std::size_t now = parser.put(boost::asio::const_buffer(rest.data(), rest.size()), failed);
      taken += now;
      if (failed == http::error::need_more) break;
      if (failed) {
        fail("it does not speak HTTP (" + failed.message() + ")");
        break;
      }
      if (parser.get().body().size() > most_bytes) {
        fail(fmt::format("its answer is longer than {} bytes", most_bytes));
        break;
      }
      if (now == 0) break;
    }
    return taken;
  }
};

HttpResponse::HttpResponse(std::size_t most_bytes) : impl_(std::make_unique<Impl>()) {
  impl_->most_bytes = most_bytes;
  impl_->parser.eager(true);
  impl_->parser.header_limit(kHeadBytes);
  impl_->parser.body_limit(boost::none);  // of a stream there is no end; the bound is above
}

HttpResponse::~HttpResponse() = default;

HttpResponse::Status HttpResponse::put(std::string_view bytes) {
  if (impl_->status != Status::more) return impl_->status;
  // In pieces: what is held of the body stays within its bound, whatever one call brings.
  while (!bytes.empty() && impl_->status == Status::more && !impl_->parser.is_done()) {
    const auto piece = bytes.substr(0, kUndecided);
    bytes.remove_prefix(piece.size());
    impl_->undecided.append(piece);
    impl_->undecided.erase(0, impl_->parse(impl_->undecided));
    if (impl_->undecided.size() > kHeadBytes + kUndecided) impl_->fail("its answer has a line that does not end");
  }
  if (impl_->status == Status::more && impl_->parser.is_done()) impl_->status = Status::done;
  return impl_->status;
}

HttpResponse::Status HttpResponse::end() {
  if (impl_->status != Status::more) return impl_->status;
  boost::system::error_code failed;
  if (!impl_->parser.got_some() || !impl_->parser.is_header_done()) return impl_->fail(kClosed);
  impl_->parser.put_eof(failed);
  if (failed) return impl_->fail(kClosed);
  return impl_->status = Status::done;
}

bool HttpResponse::has_head() const { return impl_->parser.is_header_done(); }
int HttpResponse::code() const { return int(impl_->parser.get().result_int()); }
bool HttpResponse::keeps_open() const { return impl_->parser.get().keep_alive(); }
std::string HttpResponse::take_body() { return std::exchange(impl_->parser.get().body(), {}); }
const std::string& HttpResponse::error() const { return impl_->error; }

}  // namespace dtrain
