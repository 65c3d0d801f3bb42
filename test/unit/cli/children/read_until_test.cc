#include "cli/children/read_until.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "cli/children/ask_program.h"
#include "rendezvous/base/unique_fd.h"
#include "test/support/catch.h"

namespace dtrain::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Pipe {
  UniqueFd out, in;
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    out.reset(ends[0]);
    in.reset(ends[1]);
  }
};

}  // namespace

TEST_CASE("what is in a pipe is read to its end, and as much of it is kept as is wanted") {
  Pipe pipe;
  REQUIRE(::write(pipe.in.get(), "some text", 9) == 9);
  pipe.in.reset();
  const PipeText read = read_until(pipe.out.get(), Clock::now() + std::chrono::minutes(1), 4);
  CHECK(read.text == "some");
  CHECK(read.complete);
}

TEST_CASE("a pipe without an end is read until the deadline") {
  Pipe pipe;
  REQUIRE(::write(pipe.in.get(), "some", 4) == 4);
  const PipeText read = read_until(pipe.out.get(), Clock::now() + milliseconds(20), 100);
  CHECK(read.text == "some");
  CHECK_FALSE(read.complete);
}

TEST_CASE("after the deadline nothing is read, though something is there") {
  Pipe pipe;
  REQUIRE(::write(pipe.in.get(), "some", 4) == 4);
  const PipeText read = read_until(pipe.out.get(), Clock::now(), 100);
  CHECK(read.text.empty());
  CHECK_FALSE(read.complete);
}

TEST_CASE("a program that writes for ever is ended in time") {
  const auto answer = ask_program({"/usr/bin/yes"}, milliseconds(200));
  REQUIRE_FALSE(answer);
  CHECK(answer.error().message.starts_with("/usr/bin/yes: no answer within"));
}

}  // namespace dtrain::cli
