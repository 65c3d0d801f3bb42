#include "launcher/output/worker_pipes.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

struct Pipes {
  boost::asio::io_context io;
  std::string read;
  bool all_ended = false;
  UniqueFd refill;  // a writer that never pauses: for each piece that is read it writes another
  bool refills = false;
  WorkerPipes pipes{io,
                    1,
                    {[this](int, std::string_view bytes) {
                       read += bytes;
                       if (refills) CHECK(::write(refill.get(), "more", 4) == 4);
                       if (read.size() > 100) FAIL("it is read for ever");
                       return false;
                     },
                     [](int) {}, [this] { all_ended = true; }}};

  UniqueFd open() {
    auto ends = pipes.open(0, Streams::out);
    REQUIRE(ends);
    return std::move(ends->out);
  }
};

}  // namespace

TEST_CASE("what a pipe holds is drained, and its end if no writer is left") {
  Pipes p;
  UniqueFd in = p.open();
  REQUIRE(::write(in.get(), "last words", 10) == 10);
  p.pipes.drain_all();
  CHECK(p.read == "last words");
  CHECK_FALSE(p.all_ended);
  in.reset();
  p.pipes.drain_all();
  CHECK(p.all_ended);
}

TEST_CASE("the end is drained with the last words") {
  Pipes p;
  UniqueFd in = p.open();
  REQUIRE(::write(in.get(), "last words", 10) == 10);
  in.reset();
  p.pipes.drain_all();
  CHECK(p.read == "last words");
  CHECK(p.all_ended);
}

TEST_CASE("a writer that never pauses does not hold the one who drains") {
  Pipes p;
  p.refill = p.open();
  p.refills = true;
  REQUIRE(::write(p.refill.get(), "last words", 10) == 10);
  p.pipes.drain_all();
  CHECK(p.read.starts_with("last words"));
  CHECK_FALSE(p.all_ended);
}

}  // namespace dtrain::launcher
