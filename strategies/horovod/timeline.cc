// See timeline.h.
#include "strategies/horovod/timeline.h"

#include <fmt/format.h>
#include <pthread.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace dtrain::hvd {
namespace {

using nlohmann::json;

constexpr std::size_t kRoom = 1 << 16;  // events that wait for the disk

std::int64_t microseconds(Timeline::Moment::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

// Names may be any bytes; a JSON file must be UTF-8.
std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

Timeline::Timeline(const std::string& path) : start_(std::chrono::steady_clock::now()), file_(path) {
  if (!file_) throw std::runtime_error(fmt::format("dtrain: HOROVOD_TIMELINE: '{}' cannot be written", path));
  file_ << "[\n";
  thread_ = std::thread([this] { write_loop(); });
}

Timeline::~Timeline() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  more_.notify_all();
  thread_.join();
  if (lost_ > 0) write_line(text_of({{"name", fmt::format("{} events lost", lost_)}, {"ph", "M"}, {"pid", 0}}));
  file_ << "\n]\n";
}

void Timeline::add(const std::string& tensor, const char* what, Moment begin, Moment end) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= kRoom) {
      ++lost_;
      return;
    }
    queue_.push_back({tensor, what, begin, end});
  }
  more_.notify_one();
}

void Timeline::write_loop() {
  ::pthread_setname_np(::pthread_self(), "dtrain-timeline");
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::deque<Event> events = std::exchange(queue_, {});
    lock.unlock();
    for (const Event& event : events) write(event);
    file_.flush();
    lock.lock();
  }
}

void Timeline::write(const Event& event) {
  const auto [row, is_new] = rows_.try_emplace(event.tensor, static_cast<int>(rows_.size()) + 1);
  if (is_new)
    write_line(
        text_of({{"name", "process_name"}, {"ph", "M"}, {"pid", row->second}, {"args", {{"name", event.tensor}}}}));
  write_line(text_of({{"name", event.what},
                      {"ph", "X"},
                      {"pid", row->second},
                      {"tid", 0},
                      {"ts", microseconds(event.begin - start_)},
                      {"dur", microseconds(event.end - event.begin)}}));
}

void Timeline::write_line(const std::string& line) {
  if (!std::exchange(first_line_, false)) file_ << ",\n";
  file_ << line;
}

}  // namespace dtrain::hvd
