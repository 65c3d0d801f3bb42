#include "rendezvous/http/http_connection.h"

#include <utility>

#include "rendezvous/base/check.h"

namespace dtrain {

void HttpConnection::ask(const std::string& request, std::size_t most_bytes, Callbacks callbacks) {
  DT_CHECK(!response_, "one request at a time");
  callbacks_ = std::move(callbacks);
  response_ = std::make_unique<HttpResponse>(most_bytes);
  queue().append(request);
  write_soon();
  resume();
}

void HttpConnection::close() {
  LinkStream::close();
  callbacks_ = {};
}

void HttpConnection::received(std::string_view plaintext) {
  if (!response_) return fail("it speaks before it is asked");
  const auto status = response_->put(plaintext);
  if (status == HttpResponse::Status::bad) return fail(response_->error());
  const auto news = callbacks_.news;
  if (status == HttpResponse::Status::more) return news(*response_, false);
  const auto response = std::move(response_);
  callbacks_ = {};
  if (!response->keeps_open()) close();
  news(*response, true);
}

// Where the server has closed the connection, the response says whether it is complete.
void HttpConnection::closed(LinkBytes::Status how, const std::string& reason) {
  const bool left = how == LinkBytes::Status::ended;
  if (left && response_ && response_->end() == HttpResponse::Status::done) return received({});
  const std::string why = !left ? reason : response_ ? response_->error() : "";
  const auto failed = std::exchange(callbacks_, {}).failed;
  response_.reset();
  if (failed) failed(why);
}

}  // namespace dtrain
