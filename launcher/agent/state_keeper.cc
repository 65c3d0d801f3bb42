#include "launcher/agent/state_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "launcher/base/readable.h"
#include "launcher/spill/spill_core.h"
#include "launcher/spill/state_file.h"
#include "rendezvous/base/all_signals_blocked.h"
#include "rendezvous/base/beside_loop.h"
#include "rendezvous/base/counted.h"

namespace dtrain::launcher {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kThreads = 4;                     // that read or write at a time
constexpr auto kDiskIsStuck = std::chrono::seconds(5);  // beyond the time that it has

// One memory, and the file that it has.
struct MemoryAndFile {
  StateHead head;
  UniqueFd memory;
  std::unique_ptr<WrittenState> written{};
  std::optional<Error> error{};
  bool done = false;
};

using Memories = std::vector<MemoryAndFile>;

// What the threads have that write them. They may outlive the agent.
struct WrittenMemories {
  UniqueFd folder;
  Memories memories;
};

// In their order, some at a time.
void for_each_at_once(Memories& all, const std::function<void(MemoryAndFile&)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) work(all[i]);
  };
  std::vector<std::thread> threads;
  {
    const AllSignalsBlocked blocked;
    try {
      while (threads.size() + 1 < std::min(kThreads, all.size())) threads.emplace_back(take);
    } catch (const std::system_error&) {  // no thread is left: it takes longer
    }
  }
  take();
  for (std::thread& thread : threads) thread.join();
}

// A file gets its name only if all do that belong together: all states of the workers, and then all copies.
void publish(Memories& all) {
  const auto part = [&all](bool copy, Result<void> (WrittenState::*step)()) {
    bool good = true;
    for (MemoryAndFile& each : all) {
      if (each.head.owner.copy != copy) continue;
      if (each.written)
        if (auto done = (*each.written.*step)(); !done) each.error = done.error();
      good = good && !each.error;
    }
    return good;
  };
  for (const bool copy : {false, true}) {
    if (!part(copy, &WrittenState::prepare) || !part(copy, &WrittenState::publish)) break;
    for (MemoryAndFile& each : all) each.done = each.done || each.head.owner.copy == copy;
  }
  for (MemoryAndFile& each : all) each.written.reset();  // what has no name goes
}

// The first error stands for all of them.
std::optional<std::string> errors_of(const Memories& all) {
  const auto failed = [](const MemoryAndFile& each) { return each.error.has_value(); };
  const auto first = std::find_if(all.begin(), all.end(), failed);
  if (first == all.end()) return std::nullopt;
  const auto more = std::count_if(first, all.end(), failed) - 1;
  return first->error->message + (more == 0 ? "" : fmt::format(" (and {} more)", more));
}

std::string done_text(const Memories& all) {
  std::uint64_t bytes = 0;
  std::size_t own = 0, copies = 0;
  for (const MemoryAndFile& each : all) {
    if (!each.done) continue;
    bytes += each.head.bytes;
    ++(each.head.owner.copy ? copies : own);
  }
  const std::string of_copies = copies == 0 ? "" : copies == 1 ? " and a copy" : fmt::format(" and {} copies", copies);
  return fmt::format("the state of {}{} ({})", counted(own, "worker"), of_copies, readable_bytes(bytes));
}

bool any_done(const Memories& all) {
  return std::any_of(all.begin(), all.end(), [](const MemoryAndFile& each) { return each.done; });
}

// The workers' own states come first: where all nodes are there, they are enough.
Result<Memories> memories(const JobSpec& spec, StateMemory& own, StateMemory& copies) {
  const StateFiles& files = *spec.state_files;
  Memories all;
  for (const bool copy : {false, true}) {
    if (copy && !spec.copy_state) break;
    for (int worker = 0; worker < spec.nproc_per_node; ++worker) {
      auto memory = (copy ? copies : own).of(worker);
      if (!memory) return memory.error();
      all.push_back({{{files.key, files.node, files.nodes, worker, spec.nproc_per_node, copy}}, std::move(*memory)});
    }
  }
  return all;
}

}  // namespace

void StateKeeper::load(const std::function<bool()>& given_up) {
  if (!spec_.state_files) return;
  const std::string& where = spec_.state_files->folder;
  const MonoTime began = SteadyClock::now();
  auto folder = open_state_folder(where);
  auto all = memories(spec_, own_, copies_);
  if (!folder || !all) return say_((folder ? all.error() : folder.error()).message);
  for_each_at_once(*all, [&](MemoryAndFile& each) {
    auto read = read_state_file(folder->get(), each.head.owner, each.memory.get(), given_up);
    if (!read)
      each.error = read.error();
    else
      each.done = *read;
  });
  for (MemoryAndFile& each : *all) {
    if (each.error && each.error->kind == ErrorKind::unavailable) abandoned_ = true;
    if (each.error) (each.head.owner.copy ? copies_ : own_).forget(each.head.owner.worker);
    if (each.done) each.head.bytes = state_bytes(each.memory.get()).ok() ? *state_bytes(each.memory.get()) : 0;
  }
  if (const auto errors = errors_of(*all)) say_(fmt::format("a state in {} is not used: {}", where, *errors));
  if (any_done(*all) && !spec_.quiet)
    say_(fmt::format("{} came from {} in {}", done_text(*all), where, readable_duration(SteadyClock::now() - began)));
}

Result<void> StateKeeper::hand_to(int local_rank, std::vector<UniqueFd>& fds) {
  for (const auto& [wanted, memory] : {std::pair(spec_.keep_state, &own_), std::pair(spec_.copy_state, &copies_)}) {
    if (!wanted) continue;
    auto fd = memory->of(local_rank);
    if (!fd) return fd.error();
    fds.push_back(std::move(*fd));
  }
  return {};
}

std::optional<MonoTime> StateKeeper::close(const std::optional<Outcome>& outcome, MonoTime stop_began,
                                           asio::io_context& io) {
  if (!spec_.state_files || !outcome) return std::nullopt;
  const StateFiles& files = *spec_.state_files;
  const MonoTime now = SteadyClock::now();
  const StateEnd end = state_end(spec_, *outcome, now);
  if (end == StateEnd::leave || abandoned_) return std::nullopt;
  if (end == StateEnd::remove) {
    remove({});
    return std::nullopt;
  }
  const NextRun next = end == StateEnd::ask && files.next_run ? files.next_run() : NextRun::may_come;
  if (next != NextRun::may_come) {
    say_("this job does not run again: the state of its workers is not kept");
    if (next == NextRun::cancelled) remove(files.node);
    return std::nullopt;
  }
  return spill(spill_deadline(spec_, *outcome, stop_began, now), io);
}

MonoTime StateKeeper::spill(MonoTime until, asio::io_context& io) {
  const std::string& where = spec_.state_files->folder;
  const MonoTime began = SteadyClock::now();
  const auto lost = [&](const std::string& why) {
    say_(fmt::format("the state is not kept in {} for the job's next run: {}", where, why));
    return until;
  };
  auto folder = open_state_folder(where);
  auto all = memories(spec_, own_, copies_);
  if (!folder || !all) return lost((folder ? all.error() : folder.error()).message);
  for (MemoryAndFile& each : *all)
    if (auto bytes = state_bytes(each.memory.get())) each.head.bytes = *bytes;
  std::erase_if(*all, [](const MemoryAndFile& each) { return each.head.bytes == 0; });
  if (all->empty()) return lost("no worker has kept any");

  const auto spill = std::make_shared<WrittenMemories>(WrittenMemories{std::move(*folder), std::move(*all)});
  const std::function<Result<Memories*>()> write = [spill, until] {
    for_each_at_once(spill->memories, [&](MemoryAndFile& each) {
      auto wrote = write_state_file(spill->folder.get(), each.head, each.memory.get(), until);
      if (wrote)
        each.written = std::move(*wrote);
      else
        each.error = wrote.error();
    });
    publish(spill->memories);
    return &spill->memories;
  };
  BesideLoop beside(io);
  std::optional<Result<Memories*>> wrote;
  beside.start<Memories*>("writing the state", write, [&](Result<Memories*> done) { wrote = std::move(done); });
  const auto work = asio::make_work_guard(io);
  while (!wrote && SteadyClock::now() < until + kDiskIsStuck) {
    io.restart();  // the loss of the front, too, stops it
    io.run_one_until(until + kDiskIsStuck);
  }
  if (!wrote) return lost("the disk does not answer");
  if (!*wrote) return lost(wrote->error().message);
  const Memories& done = ***wrote;
  if (const auto errors = errors_of(done)) lost(*errors);
  if (any_done(done) && !spec_.quiet)
    say_(fmt::format("{} is in {} for the job's next run, after {}", done_text(done), where,
                     readable_duration(SteadyClock::now() - began)));
  return until;
}

void StateKeeper::remove(std::optional<int> node) {
  const StateFiles& files = *spec_.state_files;
  auto folder = open_state_folder(files.folder);
  auto removed = folder ? remove_state_files(folder->get(), files.key, node) : Result<int>(folder.error());
  if (!removed) say_(fmt::format("the job's state is not removed from {}: {}", files.folder, removed.error().message));
}

}  // namespace dtrain::launcher
