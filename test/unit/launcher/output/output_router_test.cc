#include "launcher/output/output_router.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <sstream>
#include <thread>

#include "test/support/catch.h"
#include "test/support/temp_folder.h"

namespace dtrain::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::TempFolder;

MonoTime now() { return MonoTime::clock::now(); }
MonoTime soon() { return now() + seconds(20); }

struct Pipe {
  UniqueFd read_end, write_end;
  Pipe() {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    read_end.reset(fds[0]);
    write_end.reset(fds[1]);
  }
  // Everything up to the end; the write end must be closed, or will be.
  std::string drain() {
    write_end.reset();
    return read_all(read_end.get());
  }
  static std::string read_all(int fd) {
    std::string all;
    char buffer[65536];
    for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;) all.append(buffer, size_t(n));
    return all;
  }
};

UniqueFd create(const TempFolder& folder, const std::string& name) {
  return UniqueFd(::open((folder / name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

// Counts on_room calls and lets a test wait for one.
struct Room {
  std::mutex mutex;
  std::condition_variable changed;
  int calls = 0;
  std::function<void()> callback() {
    return [this] {
      std::lock_guard lock(mutex);
      ++calls;
      changed.notify_all();
    };
  }
  bool wait_for_one() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, seconds(20), [&] { return calls > 0; });
  }
};

StreamSpec stream(int rank, Streams which = Streams::out) {
  StreamSpec spec;
  spec.rank = rank;
  spec.which = which;
  spec.prefix = "[" + std::to_string(rank) + "] ";
  return spec;
}

uint64_t lost_bytes(const OutputRouter& router) {
  uint64_t bytes = 0;
  for (const Loss& loss : router.losses()) bytes += loss.bytes;
  return bytes;
}

// A pipe's worth of output that nobody reads: feed lines until the router asks for a pause. Returns the bytes fed.
size_t feed_until_pause(OutputRouter& router, StreamId id, const std::string& line, MonoTime at) {
  size_t fed = 0;
  while (!router.wants_pause(id)) {
    router.feed(id, line, at);
    fed += line.size();
    REQUIRE(fed < (64u << 20));
  }
  return fed;
}

std::string without_prefix(std::string text, const std::string& prefix) {
  for (size_t at = 0; (at = text.find(prefix, at)) != std::string::npos;) text.erase(at, prefix.size());
  return text;
}

}  // namespace

TEST_CASE("lines reach their console with prefixes, notes come between them") {
  Pipe out, err;
  OutputRouter router({.out_fd = out.write_end.get(), .err_fd = err.write_end.get()});
  StreamId a = router.open_stream(stream(0));
  StreamId b = router.open_stream(stream(1));
  StreamId c = router.open_stream(stream(1, Streams::err));
  router.feed(a, "one\ntw", now());
  router.feed(b, "uno\n", now());
  router.feed(c, "oh\n", now());
  router.note("dtrain: restarting");
  router.feed(a, "o\nlast", now());
  router.end(a, now());
  router.finish(soon());
  CHECK(out.drain() == "[0] one\n[1] uno\n[0] two\n[0] last\n");
  CHECK(err.drain() == "[1] oh\ndtrain: restarting\n");
  CHECK(router.losses().empty());
}

TEST_CASE("stdout and stderr on one descriptor share one console, in the order read") {
  Pipe both;
  UniqueFd second(::dup(both.write_end.get()));
  OutputRouter router({.out_fd = both.write_end.get(), .err_fd = second.get()});
  StreamId out = router.open_stream(stream(0));
  StreamId err = router.open_stream(stream(0, Streams::err));
  for (int i = 0; i < 3; ++i) {
    router.feed(out, "o\n", now());
    router.feed(err, "e\n", now());
  }
  router.finish(soon());
  second.reset();
  CHECK(both.drain() == "[0] o\n[0] e\n[0] o\n[0] e\n[0] o\n[0] e\n");
}

TEST_CASE("a long line is not mixed with others' lines, which wait for it") {
  Pipe out;
  std::string line(300'000, 'x');
  std::string shown;
  std::thread reader([&] { shown = Pipe::read_all(out.read_end.get()); });
  {
    OutputRouter router({.out_fd = out.write_end.get(), .err_fd = out.write_end.get()});
    StreamId a = router.open_stream(stream(0));
    StreamId b = router.open_stream(stream(1));
    router.feed(a, line, now());
    router.feed(b, "short\n", now());
    router.note("note");
    router.feed(a, line, now());
    router.feed(a, "\nnext\n", now());
    router.finish(soon());
  }
  out.write_end.reset();
  reader.join();
  CHECK((shown == "[0] " + line + line + "\n[0] next\n[1] short\nnote\n"));
}

TEST_CASE("a long line that stands still is cut after line_patience") {
  Pipe out;
  OutputRouter router({.out_fd = out.write_end.get(), .err_fd = out.write_end.get()});
  StreamId a = router.open_stream(stream(0));
  StreamId b = router.open_stream(stream(1));
  std::string line(LineSplitter::kHoldLimit + 1, 'x');
  std::string shown;
  std::thread reader([&] { shown = Pipe::read_all(out.read_end.get()); });
  MonoTime start = now();
  router.feed(a, line, start);
  CHECK_FALSE(router.deadline());
  router.feed(b, "short\n", start);
  REQUIRE(router.deadline() == start + seconds(1));
  router.on_time(start + seconds(1));
  CHECK_FALSE(router.deadline());
  router.feed(a, "y\n", start + seconds(2));
  router.finish(soon());
  out.write_end.reset();
  reader.join();
  CHECK((shown == "[0] " + line + "\n[1] short\n[0] y\n"));
}

TEST_CASE("waiting streams are paused when they have much to say") {
  Pipe out;
  int room = 0;
  OutputRouter router({.out_fd = out.write_end.get(), .err_fd = out.write_end.get(), .on_room = [&] { ++room; }});
  StreamId a = router.open_stream(stream(0));
  StreamId b = router.open_stream(stream(1));
  router.feed(a, std::string(LineSplitter::kHoldLimit + 1, 'x'), now());
  size_t fed = feed_until_pause(router, b, std::string(4095, 'y') + '\n', now());
  CHECK(fed == 1 << 20);
  CHECK(room == 0);
  router.feed(a, "\n", now());
  CHECK(room == 1);
  CHECK_FALSE(router.wants_pause(b));
  out.read_end.reset();
  router.finish(soon());
  CHECK(lost_bytes(router) <= fed + LineSplitter::kHoldLimit + 2);
}

TEST_CASE("an eager stream shows its prompt at once") {
  Pipe out;
  OutputRouter router({.out_fd = out.write_end.get(), .err_fd = out.write_end.get()});
  StreamSpec spec = stream(0);
  spec.eager = true;
  StreamId a = router.open_stream(std::move(spec));
  router.feed(a, "name: ", now());
  char buffer[64];
  ssize_t n = ::read(out.read_end.get(), buffer, sizeof buffer);
  CHECK(std::string(buffer, size_t(n)) == "[0] name: ");
  router.finish(soon());
}

TEST_CASE("files get every byte unchanged, the console too, for any bytes and chunks") {
  std::mt19937 random(7);
  TempFolder folder;
  Pipe out;
  std::string shown;
  std::thread reader([&] { shown = Pipe::read_all(out.read_end.get()); });
  std::vector<std::string> inputs(3);
  {
    OutputRouter router({.out_fd = out.write_end.get(), .err_fd = out.write_end.get()});
    std::vector<StreamId> ids;
    for (int rank = 0; rank < 3; ++rank) {
      StreamSpec spec = stream(rank);
      spec.prefix = "<" + std::string(1, char('0' + rank)) + ">";
      spec.file_path = std::to_string(rank);
      spec.file = create(folder, spec.file_path);
      ids.push_back(router.open_stream(std::move(spec)));
    }
    for (int turn = 0; turn < 3000; ++turn) {
      size_t rank = random() % 3;
      std::string chunk;
      for (unsigned n = random() % 200; n > 0; --n) chunk += random() % 9 == 0 ? '\n' : char(128 + random() % 128);
      if (chunk.size() == 100) chunk = std::string(100'000, '\0');
      inputs[rank] += chunk;
      router.feed(ids[rank], chunk, now());
    }
    router.finish(soon());
    CHECK(router.losses().empty());
  }
  out.write_end.reset();
  reader.join();
  std::vector<std::string> seen(3);
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line);) {
    REQUIRE((line.size() >= 3 && line[0] == '<' && line[2] == '>'));
    seen[size_t(line[1] - '0')] += line.substr(3) + '\n';
  }
  for (size_t rank = 0; rank < 3; ++rank) {
    CHECK((folder.read(std::to_string(rank)) == inputs[rank]));
    bool ends_whole = inputs[rank].empty() || inputs[rank].back() == '\n';
    CHECK((seen[rank] == inputs[rank] + (ends_whole ? "" : "\n")));
  }
}

TEST_CASE("a slow reader pauses the streams, and nothing is lost") {
  Pipe out;
  Room room;
  OutputRouter router({.out_fd = out.write_end.get(),
                       .err_fd = out.write_end.get(),
                       .queue_bytes = 256 * 1024,
                       .on_room = room.callback()});
  StreamId a = router.open_stream(stream(0));
  std::string line(999, 'x');
  line += '\n';
  size_t fed = feed_until_pause(router, a, line, now());
  CHECK(router.deadline());
  std::string shown;
  std::thread reader([&] { shown = Pipe::read_all(out.read_end.get()); });
  REQUIRE(room.wait_for_one());
  CHECK_FALSE(router.wants_pause(a));
  router.feed(a, "end\n", now());
  router.finish(soon());
  out.write_end.reset();
  reader.join();
  CHECK(router.losses().empty());
  CHECK((without_prefix(shown, "[0] ").size() == fed + 4));
}

TEST_CASE("a stuck reader costs whole lines, counted exactly, and is served again when it reads") {
  Pipe out;
  Room room;
  OutputRouter router({.out_fd = out.write_end.get(),
                       .err_fd = out.write_end.get(),
                       .queue_bytes = 256 * 1024,
                       .on_room = room.callback()});
  StreamId a = router.open_stream(stream(0));
  std::string line = std::string(99, 'x') + '\n';
  MonoTime start = now();
  size_t fed = feed_until_pause(router, a, line, start);
  router.on_time(start);  // the pipe has taken its 64 KiB by now or will have
  // Time passes without progress: each look that still sees progress starts the two seconds again.
  MonoTime at = start;
  while (router.wants_pause(a)) {
    REQUIRE(router.deadline());
    at = *router.deadline();
    router.on_time(at);
  }
  for (int i = 0; i < 1000; ++i) router.feed(a, line, at);
  fed += 1000 * line.size();
  router.feed(a, "half a li", at);
  fed += 9;

  std::string shown;
  std::thread reader([&] { shown = Pipe::read_all(out.read_end.get()); });
  REQUIRE(room.wait_for_one());
  router.feed(a, "ne\nback\n", at);
  fed += 8;
  router.finish(soon());
  out.write_end.reset();
  reader.join();
  std::vector<Loss> losses = router.losses();
  REQUIRE(losses.size() == 1);
  CHECK(losses[0].sink == "stdout");
  CHECK(losses[0].stream == "stdout");
  CHECK(losses[0].rank == 0);
  CHECK(losses[0].lines == 1000);
  CHECK(losses[0].bytes == 1000 * line.size());
  CHECK((without_prefix(shown, "[0] ").size() == fed - losses[0].bytes));
  CHECK(shown.ends_with("x\n[0] half a line\n[0] back\n"));
}

TEST_CASE("a closed console is counted and the log files stay complete") {
  Pipe out;
  TempFolder folder;
  OutputRouter router({.out_fd = out.write_end.get(), .err_fd = out.write_end.get()});
  StreamSpec spec = stream(4);
  spec.file_path = "log";
  spec.file = create(folder, "log");
  StreamId a = router.open_stream(std::move(spec));
  out.read_end.reset();
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i) + "\n";
  router.feed(a, text, now());
  router.feed(a, "no newline", now());
  router.finish(soon());
  REQUIRE(router.losses().size() == 1);
  CHECK(describe(router.losses()[0]) ==
        "rank 4: 3900 bytes (1000 lines) of stdout were not written to stdout: Broken pipe");
  CHECK((folder.read("log") == text + "no newline"));
}

TEST_CASE("a full disk is counted per file") {
  OutputRouter router({.out_fd = -1, .err_fd = -1});
  StreamSpec spec = stream(0, Streams::err);
  spec.to_console = false;
  spec.file_path = "/dev/full";
  spec.file.reset(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  StreamId a = router.open_stream(std::move(spec));
  for (int i = 0; i < 10; ++i) router.feed(a, "12345\n789", now());
  router.finish(soon());
  REQUIRE(router.losses().size() == 1);
  CHECK(describe(router.losses()[0]) ==
        "rank 0: 90 bytes (10 lines) of stderr were not written to /dev/full: No space left on device");
}

TEST_CASE("a file that takes a part is counted from there, and is tried again") {
  TempFolder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  OutputRouter router({.out_fd = -1, .err_fd = -1});
  StreamSpec spec = stream(0);
  spec.to_console = false;
  spec.file_path = "log";
  spec.file = create(folder, "log");
  StreamId a = router.open_stream(std::move(spec));

  rlimit small = before;
  small.rlim_cur = 1000;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  router.feed(a, std::string(5000, 'a'), now());
  MonoTime deadline = soon();
  while (folder.read("log").size() < 1000 && now() < deadline) std::this_thread::yield();
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  uint64_t fed = 5000;
  while (folder.read("log").size() <= 1000 && now() < deadline) {
    router.feed(a, "b\n", now());
    fed += 2;
    std::this_thread::yield();
  }
  router.finish(soon());
  std::string log = folder.read("log");
  CHECK(log.substr(0, 1001) == std::string(1000, 'a') + "b");
  CHECK(lost_bytes(router) == fed - log.size());
  CHECK(lost_bytes(router) >= 4000);
}

TEST_CASE("finish gives up at its deadline and counts what is left") {
  Pipe out;
  size_t fed = 0;
  std::vector<Loss> losses;
  {
    OutputRouter router({.out_fd = out.write_end.get(), .err_fd = out.write_end.get(), .queue_bytes = 512 * 1024});
    StreamId a = router.open_stream(stream(0));
    fed = feed_until_pause(router, a, std::string(99, 'x') + '\n', now());
    MonoTime start = now();
    router.finish(start + milliseconds(300));
    CHECK(now() - start < seconds(10));
    losses = router.losses();
  }
  // The given-up thread may still be in write(): as in dtrain, the descriptor stays open until the process ends.
  out.write_end.release();
  REQUIRE(losses.size() == 1);
  CHECK(losses[0].reason == "not written before dtrain ended");
  // One write() was under way; of that one the kernel may take more after it was counted.
  size_t in_pipe = 64 * 1024 / 104 * 100;
  CHECK(losses[0].bytes >= fed - in_pipe - 64 * 1024);
  CHECK(losses[0].bytes <= fed);
}

TEST_CASE("many streams from restarts and many threads' worth of output end cleanly") {
  TempFolder folder;
  UniqueFd console(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  OutputRouter router({.out_fd = console.get(), .err_fd = console.get()});
  for (int round = 0; round < 50; ++round) {
    StreamSpec spec = stream(round);
    spec.file_path = std::to_string(round);
    spec.file = create(folder, spec.file_path);
    StreamId id = router.open_stream(std::move(spec));
    for (int i = 0; i < 100; ++i) router.feed(id, "a line\n", now());
    router.end(id, now());
  }
  router.finish(soon());
  CHECK(router.losses().empty());
  for (int round = 0; round < 50; ++round) CHECK(folder.read(std::to_string(round)).size() == 700);
}

TEST_CASE("restarts cost no streams, and what each round lost is counted for its own file") {
  TempFolder folder;
  Pipe out;
  std::string shown;
  std::thread reader([&] { shown = Pipe::read_all(out.read_end.get()); });
  const bool fold = GENERATE(false, true);
  std::vector<Loss> losses;
  {
    OutputRouter router({.out_fd = out.write_end.get(), .err_fd = out.write_end.get(), .fold = fold});
    std::vector<StreamId> first;
    for (int round = 0; round < 100; ++round) {
      std::vector<StreamId> ids;
      for (int rank = 0; rank < 3; ++rank) {
        StreamSpec spec = stream(rank);
        spec.file_path = folder / (std::to_string(round) + "." + std::to_string(rank));
        const char* path = rank == 2 && round < 2 ? "/dev/full" : spec.file_path.c_str();
        spec.file.reset(::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        ids.push_back(router.open_stream(std::move(spec)));
      }
      if (round == 0) first = ids;
      REQUIRE(ids == first);
      for (const StreamId id : ids) router.feed(id, "round " + std::to_string(round) + "\n", now());
      for (const StreamId id : ids) router.end(id, now());
    }
    router.finish(soon());
    losses = router.losses();
  }
  out.write_end.reset();
  reader.join();
  CHECK(without_prefix(shown, "[0] ").starts_with(fold ? "[0-2] ×3 round 0\n" : "round 0\n[1] round 0\n"));
  CHECK(shown.ends_with(fold ? "[0-2] ×3 round 99\n" : "[2] round 99\n"));
  REQUIRE(losses.size() == 2);
  CHECK(losses[0].sink == folder / "0.2");
  CHECK(losses[1].sink == folder / "1.2");
  CHECK(losses[1].rank == 2);
  CHECK(losses[1].bytes == 8);
}

TEST_CASE("a stream whose text still waits for the console keeps its number to itself") {
  Pipe out;
  OutputRouter router({.out_fd = out.write_end.get(), .err_fd = out.write_end.get()});
  std::string shown;
  std::thread reader([&] { shown = Pipe::read_all(out.read_end.get()); });
  const StreamId owner = router.open_stream(stream(0));
  const StreamId old = router.open_stream(stream(1));
  router.feed(owner, std::string(100'000, 'x'), now());
  router.feed(old, "old\n", now());
  router.end(old, now());
  const StreamId next = router.open_stream(stream(1));
  CHECK(next != old);
  router.feed(next, "next\n", now());
  router.finish(soon());
  out.write_end.reset();
  reader.join();
  CHECK(shown.ends_with("x\n[1] old\n[1] next\n"));
}

}  // namespace dtrain::launcher
