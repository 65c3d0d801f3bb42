#include "launcher/terminal/console_turns.h"

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "rendezvous/base/unique_fd.h"
#include "test/support/catch.h"

namespace dtrain::launcher {

TEST_CASE("the line of a process that died within it is ended before the next one") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  auto turns = ConsoleTurns::make(false);
  REQUIRE(turns.ok());
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const ConsoleTurns::Turn turn(*turns, writer.get());
    ::_exit(::write(writer.get(), "half", 4) == 4 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  for (int lines = 0; lines < 2; ++lines) {
    const ConsoleTurns::Turn turn(**turns, writer.get(), std::chrono::seconds(1));
    REQUIRE(::write(writer.get(), "line\n", 5) == 5);
  }
  char text[64];
  const ssize_t got = ::read(reader.get(), text, sizeof text);
  CHECK(std::string(text, got < 0 ? 0 : std::size_t(got)) == "half\nline\nline\n");
}

}  // namespace dtrain::launcher
