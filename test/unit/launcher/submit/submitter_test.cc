// How agents' output waits for a reader of the submitter's.
#include "launcher/submit/submitter.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <utility>
#include <vector>

#include "test/unit/launcher/engines/placed_job.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

// One agent, which is ready at once. `runs`: when it has begun.
struct OneAgent final : AgentEnds {
  boost::asio::io_context& io;
  std::function<void()> runs{};
  Callbacks callbacks{};
  std::vector<int> resumed{};
  boost::asio::steady_timer patience{io};
  bool is_over = false;

  explicit OneAgent(boost::asio::io_context& context) : io(context) {}
  void attach(Callbacks theirs) override { callbacks = std::move(theirs); }
  Result<void> start(int /*agent*/) override {
    says(card(0));
    return {};
  }
  void send(int /*agent*/, const std::string& line) override {
    if (line != kAgentGo) return says(verdict_line({}));
    boost::asio::post(io, runs);
  }
  void says(const std::string& line) {
    boost::asio::post(io, [this, line] { callbacks.data(0, line + "\n"); });
  }
  void ends() {
    patience.cancel();
    if (!std::exchange(is_over, true)) callbacks.ended(0, 0);
  }
  void ends_within(std::chrono::seconds span) {
    patience.expires_after(span);
    patience.async_wait([this](const boost::system::error_code& error) {
      if (!error) ends();
    });
  }
  void drop(int /*agent*/) override {}
  void resume(int stream) override {
    resumed.push_back(stream);
    boost::asio::post(io, [this] { ends(); });
  }
  bool any_runs() const override { return !is_over; }
  void drain_all() override {}
  void close_all() override {}
  bool all_closed() const override { return true; }
};

// In place of the standard error of this process.
struct SlowReader {
  int ends[2]{};
  int kept = ::dup(STDERR_FILENO);
  std::size_t got = 0;
  SlowReader() {
    REQUIRE(::pipe(ends) == 0);
    ::dup2(ends[1], STDERR_FILENO);
  }
  ~SlowReader() {
    ::dup2(kept, STDERR_FILENO);
    for (const int fd : {ends[0], ends[1], kept}) ::close(fd);
  }
  SlowReader(const SlowReader&) = delete;
  SlowReader& operator=(const SlowReader&) = delete;
  void read_some() {
    char bytes[std::size_t{64} << 10];
    const auto count = ::read(ends[0], bytes, sizeof bytes);
    REQUIRE(count > 0);
    got += static_cast<std::size_t>(count);
  }
};

}  // namespace

TEST_CASE("a stream that had to wait is resumed, though its other source did not have to") {
  boost::asio::io_context io;
  OneAgent agent(io);
  SlowReader reader;
  std::string lines;
  while (lines.size() < std::size_t{5} << 20) lines += std::string(1023, 'x') + "\n";
  agent.runs = [&] {
    std::size_t sent = lines.size();
    CHECK_FALSE(agent.callbacks.data(1, lines));
    for (bool takes = false; !takes; sent += 2) {
      reader.read_some();
      takes = agent.callbacks.data(1, "y\n");
    }
    while (reader.got < sent) reader.read_some();
    agent.ends_within(std::chrono::seconds(20));
  };
  sigset_t none;
  ::sigemptyset(&none);
  Submitter submitter(io, {}, UniqueFd(::signalfd(-1, &none, SFD_CLOEXEC | SFD_NONBLOCK)), request({{"h0"}}), agent);
  const auto code = submitter.run();
  REQUIRE(code.ok());
  CHECK(*code == 0);
  CHECK(agent.resumed == std::vector<int>{1});
}
