// Tested by test/process/data/predict_program_test.py.
#include "data/predict/part_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <system_error>

#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_folder(const std::string& folder, const std::string& why) {
  throw DataError(fmt::format("dtrain: {}: {}", folder, why));
}

// A program that is started alone is a job of its own each time.
std::string job_name() {
  const char* name = std::getenv("TORCHELASTIC_RUN_ID");
  return name == nullptr ? "alone-" + random_name() : name;
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) refuse_folder(path, error.message());
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator(); at.increment(error))
    names.insert(at->path().filename().string());
  if (error) throw_of_path(folder, error.value());
  return names;
}

// The try of this process: what its handler of signals takes back.
std::atomic<int> try_fd{-1};
std::atomic<std::int64_t> try_begun{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

extern "C" void take_back_try(int signal) {
  if (const int fd = try_fd.load(); fd >= 0) [[maybe_unused]]
    const int ignored = ::ftruncate(fd, try_begun.load());
  struct sigaction usual = {};
  usual.sa_handler = SIG_DFL;
  ::sigaction(signal, &usual, nullptr);
  ::raise(signal);  // comes when this handler returns
}

// Whatever else the program has set up for these signals stays.
void watch_for_end() {
  for (const int number : {SIGTERM, SIGINT}) {
    struct sigaction now = {};
    if (::sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction wanted = {};
    wanted.sa_handler = take_back_try;
    ::sigaction(number, &wanted, nullptr);
  }
}

}  // namespace

PartFolder::PartFolder(std::string folder, const PartsPlan& mine, const std::string& program,
                       const RowGroupsOf& row_groups)
    : folder_(std::move(folder)),
      work_(folder_ + "/.dtrain"),
      success_(folder_ + "/_SUCCESS"),
      job_(job_name()),
      done_before_(is_there(success_)) {
  make_folder(done_before_ ? folder_ : work_);
  files_ = settled_plan(mine, program, row_groups).files;
  parts_ = parts_of(files_);
  watch_for_end();
}

PartsPlan PartFolder::settled_plan(const PartsPlan& mine, const std::string& program, const RowGroupsOf& row_groups) {
  const std::string path = work_ + "/plan.json";
  std::optional<std::string> text = read_shared(done_before_ ? success_ : path);
  if (!text) {
    refuse_foreign();
    text = read_shared(path);  // another process may have written it meanwhile
  }
  if (!text) {
    PartsPlan whole = mine;
    for (PredictFile& file : whole.files) file.row_groups = row_groups(file.path);
    try {
      text = link_content(work_, path, plan_text(whole));
    } catch (const NotThere&) {  // others have done all of it, and removed the folder
      text = read_shared(success_);
      if (!text) throw;
    }
  }
  if (!done_before_) done_before_ = is_there(success_);
  const auto theirs = parse_plan(*text);
  if (!theirs) refuse_folder(path, "this is not what dtrain writes; choose another folder");
  if (const std::string what = plan_difference(mine, *theirs, program); !what.empty())
    refuse_folder(folder_, fmt::format("what is there {}; choose another folder, or remove this one", what));
  return *theirs;
}

void PartFolder::refuse_foreign() const {
  for (const std::string& name : names_in(folder_)) {
    if (name == ".dtrain" || is_there(work_ + "/plan.json") || is_finished()) continue;
    refuse_folder(folder_, fmt::format("has other files than results ({}); choose another folder", name));
  }
}

std::string PartFolder::result(const Part& part) const {
  return folder_ + "/" + result_name(part.number, parts_.size());
}

std::string PartFolder::beside(const Part& part, const std::string& ending) const {
  return work_ + "/" + name_beside(part.number, ending);
}

std::vector<Part> PartFolder::left() const {
  const std::set<std::string> there = names_in(folder_);
  std::vector<Part> left;
  std::copy_if(parts_.begin(), parts_.end(), std::back_inserter(left),
               [&](const Part& part) { return !there.contains(result_name(part.number, parts_.size())); });
  return left;
}

std::size_t PartFolder::tries(const Part& part) const {
  std::istringstream lines(read_shared(beside(part, "tries")).value_or(""));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line == job_ ? 1 : 0;
  return count;
}

std::optional<OwnedFd> PartFolder::claim(const Part& part) const {
  auto lock = try_lock(beside(part, "lock"), Lock::exclusive);
  if (!lock || is_there(result(part)) || tries(part) >= kMostTries) return std::nullopt;
  return lock;
}

bool PartFolder::has_failed(const Part& part) const {
  const auto is_without = [&] { return !is_there(result(part)) && tries(part) >= kMostTries; };
  if (!is_without()) return false;
  // Who only looks keeps nobody else from looking. Who is at the last try has the lock.
  const auto lock = try_lock(beside(part, "lock"), Lock::shared);
  return lock && is_without();
}

PartFolder::OneTry::OneTry(const PartFolder& folder, const Part& part) : path_(folder.beside(part, "tries")) {
  file_ = OwnedFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) throw_of_path(path_, errno);
  begun_ = ::lseek(file_.get(), 0, SEEK_END);
  try_begun = begun_;
  try_fd = file_.get();
  const std::string line = folder.job_ + "\n";
  if (::write(file_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) throw_of_path(path_, errno);
}

PartFolder::OneTry::~OneTry() { try_fd = -1; }

void PartFolder::OneTry::settle() {
  if (::ftruncate(file_.get(), begun_) != 0) throw_of_path(path_, errno);
}

std::string PartFolder::schema(const std::string& mine) const { return link_content(work_, work_ + "/schema", mine); }

void PartFolder::commit(const Part& part, const std::function<void(const std::string&)>& write) const {
  make_once(beside(part, draft_ending()), result(part), write);
  sync_shared_folder(folder_);
}

void PartFolder::finish() const {
  // Without it another process was faster.
  if (const auto plan = read_shared(work_ + "/plan.json")) {
    try {
      link_content(work_, success_, *plan);
    } catch (const NotThere&) {
      if (!is_finished()) throw;
    }
    sync_shared_folder(folder_);
  }
  std::error_code ignored;  // what another process removes at the same time
  fs::remove_all(work_, ignored);
}

}  // namespace dtrain::data
