// How fast OutputRouter takes lines: `bench_lines [megabytes] [line_bytes] [console] [log_file] [filters]`.
// Feeds 64 KiB chunks of eight streams in turn, prefixed to `console` (default /dev/null) and teed to `log_file`
// (default none), waits until all is written, and prints MB/s of worker output and the CPU time used. With `filters`
// all lines are searched for so many texts that nearly match (--duplicate-stdout-filters).
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <cstdlib>
#include <thread>

#include "launcher/job/prefix.h"
#include "launcher/output/output_router.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

UniqueFd open_for_writing(const char* path) { return UniqueFd(::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); }

// "xy", "xxy", ...; none if there are no filters.
std::shared_ptr<LineCopy> copy_of(size_t filters) {
  if (filters == 0) return nullptr;
  std::vector<std::string> texts;
  for (size_t i = 1; i <= filters; ++i) texts.push_back(std::string(i, 'x') + 'y');
  return std::make_shared<LineCopy>(
      LineCopy{open_for_writing("/dev/null"), "/dev/null", std::make_shared<const TextSearch>(texts)});
}

}  // namespace

int main(int argc, char** argv) {
  const size_t total = (argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1024) << 20;
  const size_t line_bytes = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 100;
  UniqueFd console = open_for_writing(argc > 3 ? argv[3] : "/dev/null");
  const char* log_file = argc > 4 ? argv[4] : nullptr;
  if (!console || line_bytes == 0) return 2;

  OutputRouter router({.out_fd = console.get(), .err_fd = console.get()});
  const std::shared_ptr<LineCopy> copy = copy_of(argc > 5 ? std::strtoul(argv[5], nullptr, 10) : 0);
  std::vector<StreamId> streams;
  for (int rank = 0; rank < 8; ++rank) {
    StreamSpec spec;
    spec.rank = rank;
    spec.prefix = render_prefix("[${rank}] ", {"default", rank, rank, "host"});
    if (log_file != nullptr) {
      spec.file_path = fmt::format("{}.{}", log_file, rank);
      spec.file = open_for_writing(spec.file_path.c_str());
    }
    spec.copy = copy;
    streams.push_back(router.open_stream(std::move(spec)));
  }
  std::string chunk;
  while (chunk.size() < 64 * 1024) chunk += std::string(line_bytes - 1, 'x') + '\n';
  chunk.resize(64 * 1024);

  SteadyClock clock;
  MonoTime start = clock.now();
  size_t fed = 0;
  for (size_t turn = 0; fed < total; ++turn) {
    StreamId stream = streams[turn % streams.size()];
    while (router.wants_pause(stream)) std::this_thread::yield();
    router.feed(stream, chunk, start);
    fed += chunk.size();
  }
  router.finish(clock.now() + std::chrono::minutes(1));
  double seconds = std::chrono::duration<double>(clock.now() - start).count();
  fmt::print("{} MB in {:.2f} s: {:.0f} MB/s, {:.2f} s of CPU\n", fed >> 20, seconds,
             static_cast<double>(fed) * 1e-6 / seconds, cpu_seconds());
  for (const Loss& loss : router.losses()) fmt::print("{}\n", describe(loss));
}
