// Asking for a job's secret: the request among other first bytes, the answer in any pieces, and no more than is
// allowed.
#include "rendezvous/munge/munge_exchange.h"

#include <chrono>

#include "test/support/catch.h"

using namespace dtrain;
using namespace std::chrono_literals;

TEST_CASE("a request is told from everything else that may begin a connection") {
  const std::string request(munge_request());
  REQUIRE(request.size() == 8);
  CHECK(asked_for_munge(request) == MungeAsked::yes);
  for (std::size_t size = 0; size < request.size(); ++size)
    CHECK(asked_for_munge(request.substr(0, size)) == MungeAsked::more);
  std::string other_version = request;
  other_version.back() = 2;
  for (const std::string& other :
       {std::string("\x16\x03\x01"), std::string(1, '\0'), std::string("\xD7"), std::string("\xD8"),
        std::string("\xD9x"), request + "x", request + request, other_version})
    CHECK(asked_for_munge(other) == MungeAsked::no);
}

TEST_CASE("an answer comes in any pieces") {
  const std::string sent = "MUNGE:AwQFAAD+/9==:";
  for (std::size_t piece = 1; piece <= sent.size(); ++piece) {
    MungeAnswer answer;
    for (std::size_t at = 0; at < sent.size(); at += piece) {
      CHECK_FALSE(answer.credential().ok());
      CHECK(answer.add(std::string_view(sent).substr(at, piece)).ok());
    }
    auto got = answer.credential();
    REQUIRE(got.ok());
    CHECK(*got == sent);
  }
}

TEST_CASE("what is no credential is refused") {
  for (const std::string& sent :
       {std::string("MUNGA"), std::string("munge:"), std::string("MUNGE:a b:"), std::string("MUNGE:a:\n"),
        std::string("MUNGE:\0:", 8), std::string("\x15\x03\x03"), "MUNGE:" + std::string(kLongestCredential, 'A')}) {
    MungeAnswer answer;
    CHECK_FALSE(answer.add(sent).ok());
    CHECK_FALSE(answer.add("MUNGE:A:").ok());
    CHECK_FALSE(answer.credential().ok());
  }
  for (const char* sent : {"", "MUN", "MUNGE:", "MUNGE::", "MUNGE:abc"}) {
    MungeAnswer answer;
    CHECK(answer.add(sent).ok());
    CHECK_FALSE(answer.credential().ok());
  }
}

TEST_CASE("a host answers many nodes at once, and strangers no more often than it can bear") {
  MungeBudget budget;
  const MonoTime start = MonoTime{} + 1h;
  auto answered = [&](MonoTime now) {
    int count = 0;
    while (budget.take(now)) ++count;
    return count;
  };
  CHECK(answered(start) == MungeBudget::kMost);
  CHECK(answered(start + 900us) == 0);
  CHECK(answered(start + 1ms) == 1);
  CHECK(answered(start + 6ms) == 5);
  CHECK(answered(start + 24h) == MungeBudget::kMost);
}
