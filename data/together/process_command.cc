#include "data/together/process_command.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/process/process.h"
#include "data/together/left_build.h"
#include "data/together/together.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

constexpr int kEndLookMs = 10;

nlohmann::json json_of(const ProcessReport& report) {
  nlohmann::json parts = nlohmann::json::object();
  for (const PartReport& part : report.parts)
    parts[part.name] = {{"rows", part.rows}, {"files", part.files}, {"bytes", part.bytes}};
  return {{"rows_read", report.rows_read},
          {"parts", parts},
          {"partitions", report.partitions},
          {"passes", report.passes},
          {"threads", report.threads},
          {"memory_limit_bytes", report.memory_limit_bytes},
          {"spilled_bytes", report.spilled_bytes}};
}

// The most memory that this process has had.
std::int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

std::int64_t peak_of_largest_worker() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw RecipeError(path, "it cannot be read");
  try {
    return nlohmann::json::parse(in);
  } catch (const nlohmann::json::exception& error) {
    throw RecipeError(path, error.what());
  }
}

// fmt::print() would throw if standard error is closed or full.
void say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

// Those that are there when this goes are killed.
class Children {
 public:
  Children() = default;
  ~Children() {
    kill_all();
    for (const pid_t each : pids_) ::waitpid(each, nullptr, 0);
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void add(pid_t pid) { pids_.push_back(pid); }
  void kill_all() const {
    for (const pid_t each : pids_) ::kill(each, SIGKILL);
  }
  // Whether one has not ended.
  bool are_there() {
    std::erase_if(pids_, [](pid_t each) { return ::waitpid(each, nullptr, WNOHANG) != 0; });
    return !pids_.empty();
  }

 private:
  std::vector<pid_t> pids_;
};

pid_t started(const std::filesystem::path& folder, int rank, int count) {
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0)
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("process {} of {} cannot be started: fork", rank + 1, count));
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [name, value] :
       {std::pair("RANK", rank), std::pair("WORLD_SIZE", count), std::pair("LOCAL_WORLD_SIZE", count)})
    ::setenv(name, std::to_string(value).c_str(), 1);
  if (::getppid() == parent) ::execl("/proc/self/exe", "dtrain-data", "work", folder.c_str(), nullptr);
  ::_exit(125);
}

// On this host, without a job of dtrain's. What a process that has died leaves undone is done at the end.
ProcessReport by_processes(const Recipe& recipe, const std::filesystem::path& folder, int count) {
  check_shared_folder(folder);
  return process_together(recipe, folder, {static_cast<std::size_t>(count), {}, say},
                          [count](const std::filesystem::path& made, const auto& must_end) {
                            Children children;
                            for (int rank = 0; rank < count; ++rank) children.add(started(made, rank, count));
                            for (bool told = false; children.are_there(); ::poll(nullptr, 0, kEndLookMs)) {
                              if (told || !must_end()) continue;
                              children.kill_all();
                              told = true;
                            }
                          });
}

bool is_number(std::string_view text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

int run_process(std::span<const std::string_view> words) {
  int workers = 1;
  if (words.size() == 3 && !is_number(words[2], workers)) workers = 0;
  if (words.size() < 2 || words.size() > 3 || workers < 1) {
    std::fputs("usage: dtrain-data process RECIPE.json FOLDER [PROCESSES]\n", stderr);
    return 2;
  }
  try {
    const Recipe recipe = parse_recipe(read_json(std::string(words[0])));
    const std::filesystem::path folder(words[1]);
    const ProcessReport report = workers == 1 ? process(recipe, folder, {}) : by_processes(recipe, folder, workers);
    nlohmann::json told = json_of(report);
    told["peak_memory_bytes"] = peak_memory_bytes() + (workers == 1 ? 0 : workers * peak_of_largest_worker());
    fmt::print("{}\n", told.dump());
    return 0;
  } catch (const RecipeError& error) {
    say(error.what());
    return 2;
  } catch (const DataError& error) {
    say(error.what());
    return 1;
  } catch (const std::exception& error) {
    say(fmt::format("dtrain: dtrain-data process: {}", error.what()));
    return 125;
  }
}

}  // namespace dtrain::data
