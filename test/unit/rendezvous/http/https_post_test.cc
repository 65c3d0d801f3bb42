// Which URLs are taken. The posts themselves, to a real server: test/process/launcher/trainer_test.py.
#include "rendezvous/http/https_post.h"

#include <optional>

#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

HttpsPlace place(const char* url) {
  const auto found = parse_https_url(url);
  INFO(url);
  REQUIRE(found.ok());
  return *found;
}

}  // namespace

TEST_CASE("an https URL is a host, a port and a path") {
  CHECK(place("https://trainer.kubeflow:8082/apis/v1/status") ==
        HttpsPlace{"trainer.kubeflow", 8082, "/apis/v1/status"});
  CHECK(place("https://trainer") == HttpsPlace{"trainer", 443, "/"});
  CHECK(place("https://10.0.0.1/a?b=c") == HttpsPlace{"10.0.0.1", 443, "/a?b=c"});
  CHECK(place("https://h?b") == HttpsPlace{"h", 443, "/?b"});
  CHECK(place("https://[fd00::1]:99/") == HttpsPlace{"fd00::1", 99, "/"});
  CHECK(place("https://[fd00::1]") == HttpsPlace{"fd00::1", 443, "/"});
}

TEST_CASE("what is no https URL is refused and shown") {
  for (const char* url : {"", "http://h/", "https://", "https:///a", "https://h:0/", "https://h:65536/",
                          "https://h:1x/", "https://h:/", "https://user:word@h/", "https://h /", "https://h/\r\nX: y",
                          "https://h/#a", "https://999.1/", "https://[fd00::1/", "HTTPS//h"}) {
    INFO(url);
    const auto found = parse_https_url(url);
    REQUIRE_FALSE(found.ok());
    CHECK(found.error().message.find('\r') == std::string::npos);
  }
}

TEST_CASE("a post to nobody fails, and one that is called off calls nobody") {
  boost::asio::io_context io;
  HttpsPost post(io);
  std::optional<std::string> why;
  const HttpsPost::Request request{{"127.0.0.1", 1, "/"}, "", "", "{}"};
  post.start(request, 5s, [&](const Result<void>& result) { why = result.ok() ? "" : result.error().message; });
  CHECK_FALSE(why);
  io.run();
  REQUIRE(why.has_value());
  CHECK(*why == "cannot connect to 127.0.0.1:1: Connection refused");
  why.reset();
  post.start(request, 5s, [&](const Result<void>&) { why = "called"; });
  post.cancel();
  io.restart();
  io.run();
  CHECK_FALSE(why);
}
