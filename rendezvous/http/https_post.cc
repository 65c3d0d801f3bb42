#include "rendezvous/http/https_post.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "rendezvous/base/printable.h"
#include "rendezvous/credentials/tls_certificates.h"
#include "rendezvous/net/address_text.h"
#include "rendezvous/net/host_names.h"
#include "rendezvous/tls/tls_session.h"

namespace dtrain {
namespace {

constexpr std::size_t kReplyBytes = 16 * 1024, kReplyShown = 200;
constexpr std::string_view kHttps = "https://";

Error broken(std::string what) { return {ErrorKind::system, std::move(what)}; }

}  // namespace

Result<HttpsPlace> parse_https_url(std::string_view url) {
  const Error wrong{ErrorKind::usage, fmt::format("'{}' is no https://HOST[:PORT]/PATH", printable(url, 300))};
  const bool is_text = std::none_of(url.begin(), url.end(), [](char c) { return c <= ' ' || c >= 0x7f; });
  if (!url.starts_with(kHttps) || !is_text) return wrong;
  url.remove_prefix(kHttps.size());
  const std::string_view place = url.substr(0, url.find_first_of("/?#"));
  if (place.find('@') != place.npos || url.substr(place.size()).find('#') != url.npos) return wrong;
  HttpsPlace found;
  found.path = url.substr(place.size());
  if (!found.path.starts_with('/')) found.path = "/" + found.path;
  // A numeric address of IPv6 stands in brackets.
  const std::size_t colon = place.ends_with(']') ? place.npos : place.rfind(':');
  std::string_view host = place.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (!is_numeric_address(std::string(host)) && !can_be_host_name(host)) return wrong;
  found.host = host;
  if (colon == place.npos) return found;
  const std::string_view port = place.substr(colon + 1);
  const auto [rest, status] = std::from_chars(port.data(), port.data() + port.size(), found.port);
  if (status != std::errc() || rest != port.data() + port.size() || found.port == 0) return wrong;
  return found;
}

void HttpsPost::start(Request request, Duration limit, Done done) {
  cancel();
  request_ = std::move(request);
  done_ = std::move(done);
  limit_.expires_after(limit);
  limit_.async_wait([this, limit, number = number_](const boost::system::error_code& error) {
    if (!error && runs(number)) finish(broken(fmt::format("no answer within {:g} s", in_seconds(limit))));
  });
  // One thread at a time: a name service that hangs would get one for each post.
  if (looking_up_) return;
  looking_up_ = true;
  beside_.start<std::vector<std::string>>(
      "a post", [name = request_.place.host] { return addresses_of_host(name); },
      [this, number = number_](const Result<std::vector<std::string>>& found) {
        looking_up_ = false;
        if (!runs(number)) return;
        if (!found) return finish(found.error());
        dial(*found);
      });
}

void HttpsPost::cancel() {
  ++number_;
  done_ = {};
  limit_.cancel();
  dial_.cancel();
  if (connection_) connection_->close();
  connection_.reset();
}

void HttpsPost::dial(const std::vector<std::string>& addresses) {
  dial_.start(addresses, request_.place.port, [this, number = number_](Result<Dial::Connection> dialled) {
    if (!runs(number)) return;
    if (!dialled) return finish(dialled.error());
    connected(std::move(dialled->socket));
  });
}

void HttpsPost::connected(UniqueFd socket) {
  const auto certificates = TlsCertificates::load({request_.ca_file, "", ""});
  if (!certificates) return finish(certificates.error());
  auto tls = TlsSession::client(*certificates, request_.place.host);
  if (!tls) return finish(tls.error());
  LinkSocket link{std::move(socket)};
  link.tls = std::move(*tls);
  connection_ = std::make_shared<HttpConnection>(io_, std::move(link));
  const HttpPost post{address_text(request_.place.host, request_.place.port), request_.place.path,
                      request_.token.empty() ? "" : "Bearer " + request_.token, request_.body};
  connection_->ask(encode(post), kReplyBytes,
                   {[this, number = number_](HttpResponse& response, bool last) {
                      // What the server says beside "yes" does not count.
                      const bool yes = response.has_head() && response.code() / 100 == 2;
                      if (runs(number) && (last || yes)) answered(response);
                    },
                    [this, number = number_](const std::string& why) {
                      if (runs(number)) finish(broken(why));
                    }});
}

void HttpsPost::answered(HttpResponse& response) {
  if (response.code() / 100 == 2) return finish({});
  const std::string said = printable(response.take_body(), kReplyShown);
  finish(broken(fmt::format("the answer is {}{}{}", response.code(), said.empty() ? "" : ": ", said)));
}

void HttpsPost::finish(const Result<void>& result) {
  const Done done = std::exchange(done_, {});
  cancel();
  done(result);
}

}  // namespace dtrain
