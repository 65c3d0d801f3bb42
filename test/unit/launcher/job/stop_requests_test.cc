#include "launcher/job/stop_requests.h"

#include <csignal>
#include <string>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using namespace std::chrono_literals;

namespace {

constexpr auto first = StopMeaning::first;
constexpr auto again = StopMeaning::again;
constexpr auto same = StopMeaning::same;

struct Arrival {
  Duration at;
  StopSignal signal;
  StopMeaning meaning;
};

StopSignal key(int signal) { return {signal, SI_KERNEL}; }
StopSignal sent(int signal) { return {signal, SI_USER}; }
StopSignal death(int signal) { return {signal, SI_USER, true}; }

struct Story {
  std::string who;
  std::vector<Arrival> arrivals;
};

const std::vector<Story> kStories = {
    {"timeout: the child, then its group", {{0ms, sent(SIGTERM), first}, {0ms, sent(SIGTERM), same}}},
    {"a wrapper that is slow to pass it on", {{0ms, sent(SIGTERM), first}, {900ms, sent(SIGTERM), same}}},
    {"a person, twice", {{0ms, sent(SIGTERM), first}, {1001ms, sent(SIGTERM), again}}},
    {"a person who does not wait, three times",
     {{0ms, sent(SIGTERM), first}, {700ms, sent(SIGTERM), same}, {1400ms, sent(SIGTERM), again}}},
    {"a window does not move with what it swallows",
     {{0ms, sent(SIGTERM), first}, {600ms, sent(SIGTERM), same}, {1200ms, sent(SIGTERM), again}}},
    {"three requests", {{0s, sent(SIGTERM), first}, {5s, sent(SIGTERM), again}, {10s, sent(SIGTERM), again}}},
    {"copies of the second one",
     {{0s, sent(SIGTERM), first}, {5s, sent(SIGTERM), again}, {5100ms, sent(SIGTERM), same}}},
    {"Ctrl-C and the wrapper that passes it on", {{0ms, key(SIGINT), first}, {20ms, sent(SIGINT), same}}},
    {"the wrapper was faster", {{0ms, sent(SIGINT), first}, {20ms, key(SIGINT), same}}},
    {"Ctrl-C twice", {{0ms, key(SIGINT), first}, {300ms, key(SIGINT), again}}},
    {"Ctrl-C twice, and a wrapper both times",
     {{0ms, key(SIGINT), first}, {10ms, sent(SIGINT), same}, {300ms, key(SIGINT), again}, {310ms, sent(SIGINT), same}}},
    {"a key that bounces", {{0ms, key(SIGINT), first}, {50ms, key(SIGINT), same}}},
    {"Ctrl-C, then Ctrl-\\", {{0ms, key(SIGINT), first}, {400ms, key(SIGQUIT), again}}},
    {"a shell that hands on the hang-up, and dies", {{0ms, sent(SIGHUP), first}, {10ms, key(SIGHUP), same}}},
    {"the same on a slow machine", {{0s, sent(SIGHUP), first}, {30s, key(SIGHUP), same}}},
    {"hang-ups, from whomever", {{0s, sent(SIGHUP), first}, {5s, sent(SIGHUP), same}, {9s, sent(SIGHUP), same}}},
    {"Ctrl-C, and later the window is closed", {{0s, key(SIGINT), first}, {9s, key(SIGHUP), same}}},
    {"systemd ends a session: SIGTERM and SIGHUP", {{0ms, sent(SIGTERM), first}, {0ms, sent(SIGHUP), same}}},
    {"a hang-up, and then systemd", {{0ms, key(SIGHUP), first}, {40ms, sent(SIGTERM), same}}},
    {"a hang-up, and later a person", {{0s, key(SIGHUP), first}, {20s, sent(SIGTERM), again}}},
    {"a parent that asked, and dies", {{0s, sent(SIGTERM), first}, {3s, death(SIGTERM), same}}},
    {"a parent that dies", {{0s, death(SIGTERM), first}, {3s, sent(SIGTERM), again}}},
};

}  // namespace

TEST_CASE("a request that somebody else has counted is one, however soon it comes") {
  StopRequests requests;
  const StopSignal order{SIGINT, SI_KERNEL, false, true};
  CHECK(requests.take(order, MonoTime{}) == first);
  CHECK(requests.take(order, MonoTime{}) == again);
}

TEST_CASE("which stop signals are requests") {
  for (const Story& story : kStories) {
    INFO(story.who);
    StopRequests requests;
    int counted = 0;
    for (const Arrival& a : story.arrivals) {
      INFO("after " << std::chrono::duration<double>(a.at).count() << " s");
      CHECK(requests.take(a.signal, MonoTime{} + a.at) == a.meaning);
      counted += a.meaning == same ? 0 : 1;
      CHECK(requests.count() == counted);
    }
  }
}
