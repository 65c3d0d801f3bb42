// What the front says while the agent does something else, as reading files.
#include "launcher/front/front_channel.h"

#include <sys/socket.h>

#include <csignal>
#include <string>

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Op = FrontMessage::Op;

namespace {

struct Ends {
  Ends() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    front = UniqueFd(ends[0]);
    agent = UniqueFd(ends[1]);
  }
  UniqueFd front, agent;
};

struct Heard {
  boost::asio::io_context io{1};
  JobSpec spec;
  Ends ends;
  std::string text;
  FrontChannel channel{io,
                       std::move(ends.agent),
                       spec,
                       {[this](const event::StopSignal& stop) { text += "stop " + std::to_string(stop.signal) + ";"; },
                        [this](int signal) { text += "pass " + std::to_string(signal) + ";"; },
                        [this](int number) { text += "suspend " + std::to_string(number) + ";"; },
                        [this] { text += "resume;"; }, [] {}, [this] { text += "lost;"; }}};

  void say(Op op, int value) const { send_to(ends.front.get(), {op, value}); }
};

}  // namespace

TEST_CASE("only a request to end ends what the agent does, and nothing that the front says is lost") {
  Heard heard;
  CHECK_FALSE(heard.channel.asked_to_end());
  heard.say(Op::signal, SIGUSR1);
  heard.say(Op::suspend, 1);
  heard.say(Op::resume, 0);
  CHECK_FALSE(heard.channel.asked_to_end());
  heard.say(Op::signal, SIGUSR2);
  heard.say(Op::stop, SIGTERM);
  CHECK(heard.channel.asked_to_end());
  CHECK(heard.channel.asked_to_end());
  CHECK(heard.text.empty());
  heard.io.poll();
  CHECK(heard.text == "pass 10;suspend 1;resume;pass 12;stop 15;");
}

TEST_CASE("the requests to end are all heard, and so is a front that is gone") {
  for (const Op op : {Op::stop, Op::stop_orphan, Op::stop_again}) {
    Heard heard;
    heard.say(op, SIGINT);
    CHECK(heard.channel.asked_to_end());
  }
  Heard heard;
  heard.ends.front.reset();
  CHECK(heard.channel.asked_to_end());
}
