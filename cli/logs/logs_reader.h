#pragma once
// Log files that are read as far as they have been written: one, or several by the times of their lines.
#include <functional>
#include <string>
#include <vector>

#include "cli/logs/logs_lines.h"
#include "launcher/logs/log_finder.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::cli {

class LogReader {
 public:
  using Show = std::function<void(const LogReader&, const LogPiece&)>;

  // `filter.since_ms` counts only if the file's lines carry times: if one among its first 64 KiB does.
  static Result<LogReader> open(const launcher::LogFile& file, LineFilter filter);

  bool timed() const { return timed_; }
  bool empty() const { return empty_; }  // when it was opened
  const std::string& prefix() const { return prefix_; }

  // Take the next bytes; false if there are none. After finish() the file is closed.
  bool more(const Show& show);
  void finish(const Show& show);
  // Nothing came for a while: see LogLines.
  void quiet(const Show& show);
  bool waits() const { return lines_.waits(); }

 private:
  LogReader(UniqueFd fd, std::string prefix, LineFilter filter)
      : fd_(std::move(fd)), prefix_(std::move(prefix)), lines_(std::move(filter)) {}

  UniqueFd fd_;
  std::string prefix_;
  LogLines lines_;
  bool timed_ = false;
  bool empty_ = false;
};

// Show all lines of all files by their times; those of one file never change places. Stops early once `stop` says so.
void show_by_time(const std::vector<LogReader*>& files, const LogReader::Show& show, const std::function<bool()>& stop);

}  // namespace dtrain::cli
