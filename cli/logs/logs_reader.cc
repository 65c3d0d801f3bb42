#include "cli/logs/logs_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <limits>
#include <queue>
#include <tuple>

namespace dtrain::cli {
namespace {

constexpr std::size_t kChunk = 64 * 1024;
char g_chunk[kChunk];  // bytes on their way from a file to its lines

// A piece that waits for its turn.
struct Waiting {
  std::string bytes;
  bool ends;
  int64_t time_ms;
};

struct Source {
  LogReader* reader;
  std::deque<Waiting> pieces = {};
  bool ended = false;

  // Whether there is a next piece, read from the file if need be.
  bool ready() {
    const auto keep = [this](const LogReader&, const LogPiece& piece) {
      constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();
      pieces.push_back({std::string(piece.bytes), piece.ends, piece.time_ms.value_or(kFirst)});
    };
    while (pieces.empty() && !ended) {
      ended = !reader->more(keep);
      if (ended) reader->finish(keep);
    }
    return !pieces.empty();
  }
};

}  // namespace

Result<LogReader> LogReader::open(const launcher::LogFile& file, LineFilter filter) {
  // The folder may be another user's: no link of his leads us elsewhere, and no pipe of his holds us up.
  UniqueFd fd(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat facts {};
  if (fd && ::fstat(fd.get(), &facts) == 0 && !S_ISREG(facts.st_mode))
    return Error{ErrorKind::system, file.path + " is not a regular file"};
  if (!fd && errno == ELOOP) return Error{ErrorKind::system, file.path + " is a link: not followed"};
  if (!fd) return system_error("cannot read " + file.path, errno);
  const ssize_t n = ::pread(fd.get(), g_chunk, kChunk, 0);
  const std::string_view beginning(g_chunk, n > 0 ? static_cast<std::size_t>(n) : 0);
  const bool timed = carries_times(beginning);
  if (!timed) filter.since_ms.reset();
  LogReader reader(std::move(fd), fmt::format("[{}] ", file.local_rank), std::move(filter));
  reader.timed_ = timed;
  reader.empty_ = beginning.empty();
  return reader;
}

bool LogReader::more(const Show& show) {
  const ssize_t n = fd_ ? ::read(fd_.get(), g_chunk, kChunk) : 0;
  if (n <= 0) return false;
  lines_.feed({g_chunk, static_cast<std::size_t>(n)}, [&](const LogPiece& piece) { show(*this, piece); });
  return true;
}

void LogReader::finish(const Show& show) {
  lines_.finish([&](const LogPiece& piece) { show(*this, piece); });
  fd_.reset();
}

void LogReader::quiet(const Show& show) {
  lines_.quiet([&](const LogPiece& piece) { show(*this, piece); });
}

void show_by_time(const std::vector<LogReader*>& files, const LogReader::Show& show,
                  const std::function<bool()>& stop) {
  std::vector<Source> sources;
  sources.reserve(files.size());
  for (LogReader* file : files) sources.push_back({file});
  using Turn = std::tuple<int64_t, std::size_t>;  // time, index
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  const auto queue = [&](std::size_t i) {
    if (sources[i].ready()) turns.push({sources[i].pieces.front().time_ms, i});
  };
  for (std::size_t i = 0; i < sources.size(); ++i) queue(i);
  while (!turns.empty() && !stop()) {
    const std::size_t i = std::get<1>(turns.top());
    turns.pop();
    for (bool ends = false; !ends && sources[i].ready(); sources[i].pieces.pop_front()) {
      const Waiting& piece = sources[i].pieces.front();
      ends = piece.ends;
      show(*sources[i].reader, LogPiece{piece.bytes, piece.ends, piece.time_ms});
    }
    queue(i);
  }
}

}  // namespace dtrain::cli
