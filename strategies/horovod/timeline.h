#pragma once
// A trace of what happens to each tensor, in the format of chrome://tracing: a row for each tensor, written by a thread
// of its own while the job runs.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace dtrain::hvd {

class Timeline {
 public:
  using Moment = std::chrono::steady_clock::time_point;

  // Throws std::runtime_error where the file cannot be opened.
  explicit Timeline(const std::string& path);
  // The file is whole after it.
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // Does not wait for the disk: what is beyond the room there is gets lost, and the file says at its end how much.
  void add(const std::string& tensor, const char* what, Moment begin, Moment end);

 private:
  struct Event {
    std::string tensor;
    const char* what;
    Moment begin;
    Moment end;
  };
  void write_loop();
  void write(const Event& event);
  void write_line(const std::string& json);

  const Moment start_;
  std::ofstream file_;
  bool first_line_ = true;
  std::map<std::string, int> rows_;

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Event> queue_;
  std::uint64_t lost_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace dtrain::hvd
