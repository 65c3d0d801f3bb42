#include "data/loader/node_reader.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

#include "data/parquet/seconds_since.h"
#include "dtrain/data_errors.h"

namespace dtrain::data {
namespace {

ShareCore::Time reader_now() {
  return std::chrono::duration_cast<ShareCore::Time>(std::chrono::steady_clock::now().time_since_epoch());
}

constexpr std::chrono::milliseconds look_again{100};  // for what no bell tells

std::int64_t nanoseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }

}  // namespace

NodeReader::NodeReader(NodeDoor door, Region region, const ShareLimits& limits, const LoaderParts& parts,
                       const Work& work, const StopBell& stop)
    : door_(std::move(door)),
      region_(std::move(region)),
      limits_(limits),
      parts_(&parts),
      work_(work),
      stop_(&stop),
      guests_(region_.size().members),
      shown_(work.at.rows_done),
      released_(work.at.rows_done) {
  region_.reader().shown = shown_;
  thread_ = std::thread([this] { run(); });
}

NodeReader::~NodeReader() { thread_.join(); }

void NodeReader::run() {
  ReaderWords::Over why = ReaderWords::broken;
  try {
    why = read();
    // Who has asked meanwhile hears of the error, too.
    if (why == ReaderWords::failed) look(std::chrono::milliseconds(0));
  } catch (const std::exception& error) {
    note(error);  // no memory, for example: who reads by itself finds out what it is
  }
  end(why);
}

// Until it must end, for this reason. Members are admitted all the time, and see that it works, however long the first
// rows take.
ReaderWords::Over NodeReader::read() {
  try {
    core_.emplace(limits_, work_.ranks, shown_, reader_now());
    if (work_.read_through) parts_->set->read_through(stop_->flag(), [this] { look(std::chrono::milliseconds(0)); });
    OrderState at = work_.at;
    for (; show_epoch(at) && await_wanted(); at.rows_done = 0) {
      at.epoch += work_.epoch_step;
      epoch_begin_ += parts_->rows;
    }
    return *stop_ ? ReaderWords::left : ReaderWords::broken;
  } catch (const DataError& error) {
    note(error);
    return ReaderWords::failed;
  }
}

void NodeReader::note(const std::exception& error) {
  const std::string_view text = error.what();
  text.copy(region_.reader().error, sizeof region_.reader().error - 1);
}

void NodeReader::end(ReaderWords::Over why) {
  door_.reset();  // who comes now becomes the reader
  // None is left, so the memory need not wait until this rank forgets the reader.
  if (std::none_of(guests_.begin(), guests_.end(), [](const auto& guest) { return guest.has_value(); })) {
    region_.free_rows();
  }
  asking_.clear();
  region_.reader().over = why;
  for (auto& guest : guests_) {
    if (guest) guest->link.ring();
  }
}

bool NodeReader::show_epoch(const OrderState& at) {
  RowArena arena(*parts_->layout, region_.size().slots, parts_->tail_bytes, region_.rows(), region_.tails());
  RowFlow flow(*parts_, at, arena);
  ReaderWords& words = region_.reader();
  const std::int64_t end = epoch_begin_ + parts_->rows;
  const auto most = static_cast<std::size_t>(limits_.ring_rows / 4);
  while (shown_ < end) {
    const auto begin = std::chrono::steady_clock::now();
    if (!flow.advance(stop_->flag(), [this] { look(std::chrono::milliseconds(0)); })) return false;
    const RowFlow::Seconds seconds = flow.take_seconds();
    words.disk_ns += nanoseconds(seconds.disk);
    words.decode_ns += nanoseconds(seconds.read - seconds.disk);
    words.copy_ns += nanoseconds(seconds_since(begin) - seconds.read);
    std::span<const std::uint32_t> left = flow.leaving();
    while (!left.empty()) {
      const auto next = left.first(std::min(left.size(), most));
      if (!await_floor(flow, core_->needed_for(shown_ + static_cast<std::int64_t>(next.size())))) return false;
      show(next);
      left = left.subspan(next.size());
    }
  }
  // The next epoch has the same slots.
  return await_floor(flow, end);
}

void NodeReader::show(std::span<const std::uint32_t> slots) {
  while (!slots.empty()) {
    const auto ring = region_.ring(shown_, static_cast<std::int64_t>(slots.size()));
    std::copy_n(slots.begin(), ring.size(), ring.begin());
    shown_ += static_cast<std::int64_t>(ring.size());
    slots = slots.subspan(ring.size());
  }
  region_.reader().shown = shown_;
  core_->shown(reader_now());
  for (std::size_t i = 0; i < guests_.size(); ++i) {
    if (guests_[i] && region_.members()[i].wanted <= shown_) guests_[i]->link.ring();
  }
}

// Members ring when they pass `wanted`. So that none passes it unseen, it is written before their words are read.
bool NodeReader::await_floor(RowFlow& flow, std::int64_t least) {
  ReaderWords& words = region_.reader();
  for (bool once_more = true;;) {
    if (*stop_) return false;
    look(once_more ? std::chrono::milliseconds(0) : look_again);
    see_words();
    const auto now = reader_now();
    const std::int64_t floor = core_->floor(now);
    while (released_ < std::min(floor, shown_)) {
      const auto passed = region_.ring(released_, std::min(floor, shown_) - released_);
      flow.release(passed);
      released_ += static_cast<std::int64_t>(passed.size());
    }
    if (floor >= least) break;
    tell_missing();
    if (!obey(core_->blocked(now))) return false;
    once_more = words.wanted.exchange(least) != least;
  }
  words.wanted = no_row;
  return true;
}

// Until a member asks for a row that is not shown: nobody may need the next epoch.
bool NodeReader::await_wanted() {
  ReaderWords& words = region_.reader();
  words.rests = true;
  for (bool once_more = true;; once_more = false) {
    if (*stop_) return false;
    look(once_more ? std::chrono::milliseconds(0) : look_again);
    see_words();
    if (core_->is_wanted()) break;
    if (!obey(core_->blocked(reader_now()))) return false;
  }
  words.rests = false;
  return true;
}

bool NodeReader::obey(const ShareCore::Verdict& verdict) {
  if (verdict.kind == ShareCore::Verdict::expel) {
    std::uint32_t resting = MemberWords::resting;
    if (region_.members()[verdict.member].state.compare_exchange_strong(resting, MemberWords::expelled)) {
      guests_[verdict.member]->expelled = true;
      region_.members()[verdict.member].passed = no_row;
      core_->left(verdict.member);
    }
  }
  return verdict.kind != ShareCore::Verdict::end;
}

// Who has come, who has gone, and who has rung.
void NodeReader::look(std::chrono::milliseconds limit) {
  ++region_.reader().beat;
  std::vector<pollfd> wait{{door_->fd(), POLLIN, 0}, {stop_->event(), POLLIN, 0}};
  for (const NodeLink& link : asking_) wait.push_back({link.fd(), POLLIN, 0});
  const std::size_t first_guest = wait.size();
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < guests_.size(); ++i) {
    if (!guests_[i]) continue;
    members.push_back(i);
    wait.push_back({guests_[i]->link.fd(), POLLIN, 0});
  }
  if (poll(wait.data(), wait.size(), static_cast<int>(limit.count())) <= 0) return;
  for (std::size_t at = 0; at < members.size(); ++at) {
    const std::size_t member = members[at];
    if (wait[first_guest + at].revents == 0 || guests_[member]->link.answered_bells()) continue;
    if (!guests_[member]->expelled) core_->left(member);
    region_.members()[member].passed = no_row;
    guests_[member].reset();
  }
  for (std::size_t at = first_guest; at-- > 2;) {
    if (wait[at].revents == 0) continue;
    NodeLink link = std::move(asking_[at - 2]);
    asking_.erase(asking_.begin() + static_cast<std::ptrdiff_t>(at - 2));
    if (const auto rank = link.asked()) admit(std::move(link), *rank);
  }
  if (wait[0].revents == 0) return;
  while (auto link = door_->next()) {
    const auto rank = link->asked();
    if (door_->is_full()) {
      turn_away(std::move(*link), rank);
    } else if (rank) {
      admit(std::move(*link), *rank);
    } else {
      asking_.push_back(std::move(*link));
    }
  }
}

// Nobody waits for it. One that has not asked yet comes again.
void NodeReader::turn_away(NodeLink link, std::optional<int> rank) {
  if (!rank) return;
  link.answer({.kind = NodeAnswer::full}, -1);
  core_->reads_alone(*rank);
}

void NodeReader::admit(NodeLink link, int rank) {
  const auto free = std::find(guests_.begin(), guests_.end(), std::nullopt);
  NodeAnswer answer{NodeAnswer::again, static_cast<std::uint32_t>(free - guests_.begin()), region_.size()};
  const ShareCore::Answer may = core_->ask(rank);
  if (may == ShareCore::Answer::late) {
    answer.kind = NodeAnswer::late;
    core_->reads_alone(rank);
    if (region_.reader().ranks != 0) tell_ranks();
  }
  if (may != ShareCore::Answer::welcome || free == guests_.end()) {
    link.answer(answer, -1);
    return;
  }
  MemberWords& words = region_.members()[answer.member];
  words.passed = work_.at.rows_done;
  words.wanted = no_row;
  words.state = MemberWords::resting;
  words.starving = false;
  answer.kind = NodeAnswer::welcome;
  if (!link.answer(answer, region_.fd())) {
    words.passed = no_row;
    return;
  }
  core_->joined(answer.member, rank);
  *free = Guest{std::move(link)};
}

void NodeReader::see_words() {
  for (std::size_t i = 0; i < guests_.size(); ++i) {
    if (!guests_[i] || guests_[i]->expelled) continue;
    const MemberWords& words = region_.members()[i];
    const std::int64_t wanted = words.wanted;
    core_->saw(
        i, {words.passed, words.starving, words.state == MemberWords::copying, wanted != no_row && wanted > shown_});
  }
}

void NodeReader::tell_ranks() { region_.reader().ranks = static_cast<std::uint32_t>(core_->known()); }

void NodeReader::tell_missing() {
  const auto missing = core_->missing(reader_now());
  if (!missing) return;
  tell_ranks();
  if (*missing == 0) return;
  std::fputs(fmt::format("dtrain: {}: {} of this node's {} ranks have not asked for these rows within {} s; "
                         "its reader goes on without. Where their options differ each rank reads by itself\n",
                         work_.who, *missing, work_.ranks, limits_.join.count() / 1000)
                 .c_str(),
             stderr);
}

}  // namespace dtrain::data
