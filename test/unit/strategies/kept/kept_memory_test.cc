// The memory of a rank, as the launcher makes it, and the processes that have it one after the other.
#include "strategies/kept/kept_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "dtrain/errors.h"
#include "strategies/checkpoint/stored_type.h"
#include "test/support/catch.h"
#include "test/support/error_of.h"

using namespace dtrain;
using namespace dtrain::kept;
using dtrain::test::error_of;

namespace {

constexpr std::uint64_t kLarge = 16 << 20;
const Identity kSmall{
    .rank = 0, .world_size = 1, .fingerprint = 7, .value_bytes = 64 << 10, .parts = {{0, 0, 64 << 10, 0}}};

struct Descriptor {
  int fd = ::memfd_create("dtrain-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Descriptor() { REQUIRE(::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0); }
  ~Descriptor() { ::close(fd); }
};

// Keeps steps one after the other, each with values that tell the step, until a signal kills it.
[[noreturn]] void keep_for_ever(int fd) {
  KeptMemory memory(fd);
  memory.make_room(kSmall);
  for (std::int64_t step = 1;; ++step) {
    const std::size_t slot = memory.begin();
    std::memset(memory.values(slot), static_cast<int>(step % 251), kSmall.value_bytes);
    memory.commit(slot, {{0, step}, 0});
  }
}

}  // namespace

TEST_CASE("a process that is killed at any moment leaves a whole state") {
  for (int trial = 0; trial < 100; ++trial) {
    const Descriptor file;
    const pid_t child = ::fork();
    if (child == 0) {
      const itimerval moment{{}, {0, 1000 + trial * 97}};
      ::signal(SIGALRM, SIG_DFL);
      ::setitimer(ITIMER_REAL, &moment, nullptr);  // at its end the process dies, wherever it is
      keep_for_ever(file.fd);
    }
    ::waitpid(child, nullptr, 0);
    KeptMemory memory(file.fd);
    const Found found = memory.find(kSmall.fingerprint);
    for (std::size_t slot = 0; slot < kSlots; ++slot) {
      if (!found.slots[slot]) continue;
      const auto value = static_cast<std::byte>(found.slots[slot]->stamp.step % 251);
      const std::byte* values = memory.values(slot);
      CHECK(std::count(values, values + kSmall.value_bytes, value) == std::ptrdiff_t(kSmall.value_bytes));
    }
    if (found.slots[0] && found.slots[1]) CHECK(std::abs(found.slots[0]->stamp.step - found.slots[1]->stamp.step) == 1);
  }
}

TEST_CASE("a descriptor that is closed, or somebody else's, is told apart") {
  CHECK(error_of<ConfigError>([] { KeptMemory memory(987); }).find("it is closed here") != std::string::npos);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  CHECK(error_of<ConfigError>([&] { KeptMemory memory(null); }).find("something else is there") != std::string::npos);
  ::close(null);
}

TEST_CASE("one process of a rank has the memory, and programs that it starts do not") {
  const Descriptor file;
  ::fcntl(file.fd, F_SETFD, 0);
  const KeptMemory memory(file.fd);
  CHECK(::fcntl(file.fd, F_GETFD) == FD_CLOEXEC);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string said = error_of<ConfigError>([&] { KeptMemory again(file.fd); });
    ::_exit(::write(ends[1], said.data(), said.size()) > 0 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  char text[1000] = {};
  REQUIRE(::read(ends[0], text, sizeof text - 1) > 0);
  CHECK(std::string(text).find("process " + std::to_string(::getpid()) + " of this rank has it") != std::string::npos);
  ::close(ends[0]);
  ::close(ends[1]);
  CHECK_THAT(error_of<ConfigError>([&] { KeptMemory again(file.fd); }), Catch::Contains("this process has it already"));
}

#ifndef __SANITIZE_THREAD__  // which maps memory of its own where the child has a gap
TEST_CASE("a child that is forked has no mapping of the memory") {
  const Descriptor file;
  KeptMemory memory(file.fd);
  memory.lay_out(kSmall);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);
    *const_cast<volatile std::byte*>(memory.values(0)) = std::byte{1};
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
}
#endif

TEST_CASE("too little memory, or too small a limit, is an error before anything is written") {
  const Descriptor file;
  KeptMemory memory(file.fd);
  Identity huge = kSmall;
  huge.value_bytes = std::uint64_t{1} << 46;
  const std::string said = error_of<checkpoint::Refused>([&] { memory.lay_out(huge); });
  CHECK_THAT(said,
             Catch::StartsWith("keeping the state of this rank takes 134217730 MiB of memory, twice its size, and "));
  CHECK_THAT(said, Catch::EndsWith(" MiB are available"));
  CHECK(::lseek(file.fd, 0, SEEK_END) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit small{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string told = error_of<checkpoint::Refused>([&] { memory.lay_out(kSmall); });
    ::_exit(told.find("the limit of a file's size is 1 MiB (`ulimit -f`)") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("another layout takes the place of the one before") {
  const Descriptor file;
  KeptMemory memory(file.fd);
  memory.lay_out(kSmall);
  memory.commit(0, {{0, 3}, 0});
  Identity other = kSmall;
  other.fingerprint = 8;
  other.value_bytes = 100;
  CHECK_FALSE(memory.find(other.fingerprint).why_not.empty());
  memory.lay_out(other);
  CHECK(memory.find(other.fingerprint).blank);
  CHECK_FALSE(memory.find(kSmall.fingerprint).slots[0]);
}

TEST_CASE("memory that no layout needs any more is given back, and may be taken again") {
  const Descriptor file;
  const auto reserved = [&] {
    struct stat facts {};
    REQUIRE(::fstat(file.fd, &facts) == 0);
    return static_cast<std::uint64_t>(facts.st_blocks) * 512;
  };
  KeptMemory memory(file.fd);
  Identity large = kSmall;
  large.value_bytes = kLarge;
  memory.lay_out(large);
  CHECK(reserved() == total_bytes(kLarge, 1));
  memory.lay_out(kSmall);
  CHECK(reserved() == total_bytes(kSmall.value_bytes, 1));
  memory.lay_out(large);
  CHECK(reserved() == total_bytes(kLarge, 1));
}

#ifndef __SANITIZE_THREAD__  // which itself cannot go on where no more can be mapped
TEST_CASE("a layout that fails leaves the one before, and no memory is lost") {
  const Descriptor file;
  const pid_t child = ::fork();
  if (child == 0) {
    KeptMemory memory(file.fd);
    memory.lay_out(kSmall);
    std::memset(memory.values(0), 7, kSmall.value_bytes);
    memory.commit(0, {{0, 3}, 0});
    const rlimit little{1, 1};  // no more can be mapped
    ::setrlimit(RLIMIT_AS, &little);
    Identity large = kSmall;
    large.value_bytes = kLarge;
    const std::string said = error_of<checkpoint::Refused>([&] { memory.lay_out(large); });
    ::_exit(said.find("cannot be mapped") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  struct stat facts {};
  REQUIRE(::fstat(file.fd, &facts) == 0);
  CHECK(static_cast<std::uint64_t>(facts.st_blocks) * 512 == total_bytes(kSmall.value_bytes, 1));
  KeptMemory memory(file.fd);
  REQUIRE(memory.find(kSmall.fingerprint).slots[0]);
  CHECK(memory.values(0)[kSmall.value_bytes - 1] == std::byte{7});
}
#endif
