#include "rendezvous/store_server/busy_poll.h"

#include <time.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <thread>

#include "test/support/catch.h"

namespace asio = boost::asio;
using dtrain::BusyPoll;
using namespace std::chrono_literals;

TEST_CASE("a thread looks before it sleeps only while work comes at short intervals") {
  BusyPoll busy_poll;
  CHECK(busy_poll.look() == 0us);
  busy_poll.waited(100us);
  CHECK(busy_poll.look() == BusyPoll::kLook);
  busy_poll.waited(20us);
  CHECK(busy_poll.look() == BusyPoll::kLook);
  busy_poll.waited(1ms);
  CHECK(busy_poll.look() == 0us);
  busy_poll.waited(1h);
  CHECK(busy_poll.look() == 0us);
}

TEST_CASE("a loop that polls does what is posted, at once or later, until it is stopped") {
  asio::io_context io{1};
  const auto stays = asio::make_work_guard(io);
  std::thread thread([&] { dtrain::run_with_busy_poll(io); });

  // One after the other: it looks for these.
  for (int i = 0; i < 1000; ++i) {
    std::promise<void> done;
    asio::post(io, [&] { done.set_value(); });
    REQUIRE(done.get_future().wait_for(30s) == std::future_status::ready);
  }
  // It is asleep by the time that this one comes.
  asio::steady_timer timer(io);
  std::promise<void> late;
  asio::post(io, [&] {
    timer.expires_after(20ms);
    timer.async_wait([&](const boost::system::error_code&) { late.set_value(); });
  });
  REQUIRE(late.get_future().wait_for(30s) == std::future_status::ready);

  io.stop();
  thread.join();
}

TEST_CASE("a loop that polls with nothing to do takes no CPU") {
  asio::io_context io{1};
  asio::steady_timer timer(io, 300ms);
  timer.async_wait([](const boost::system::error_code&) {});
  const auto cpu = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = cpu();
  // Ends as run() does, when nothing is left that could come.
  dtrain::run_with_busy_poll(io);
  CHECK(cpu() - before < 100ms);
}
