#include "launcher/output/console.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/job/rank_set.h"

namespace dtrain::launcher {
namespace {

// The most bytes of each stream that wait for another stream's line to end.
constexpr size_t kWaitingLimit = 1 << 20;

}  // namespace

Console::Console(const OutputOptions& options, std::string name, int fd, Lose lose)
    : options_(options),
      lose_(std::move(lose)),
      sink_(options.queue_bytes, options.on_room, options.patience),
      text_(::isatty(fd) == 1, options.turns != nullptr) {
  sink_.writer.add_borrowed_target(fd, std::move(name), options.turns);
}

void Console::open(StreamId id, ConsoleStream spec) {
  if (streams_.size() <= size_t(id)) streams_.resize(size_t(id) + 1);
  auto stream = std::make_unique<Stream>();
  stream->splitter = LineSplitter(spec.eager ? 0 : LineSplitter::kHoldLimit);
  if (folded_ >= 0 && spec.rank >= 0 && !spec.eager) {
    stream->fold_splitter = std::make_unique<LineSplitter>();
    folder_.open(id, static_cast<int>(spec.which));
  }
  stream->spec = std::move(spec);
  streams_[size_t(id)] = std::move(stream);
}

void Console::feed(StreamId id, std::string_view bytes, MonoTime now) {
  sink_.look(now);
  take(id, bytes, now);
  sink_.look(now);  // the queue may be full now: the patience starts here
  if (text_.last() == id) line_moved_ = now;
}

void Console::end(StreamId id, MonoTime now) {
  at(id).ended = true;
  sink_.look(now);
  take(id, {}, now);
}

void Console::take(StreamId id, std::string_view bytes, MonoTime now) {
  at(id).fold_splitter ? fold(id, bytes, now) : write(id, bytes);
}

bool Console::waits(StreamId id) const { return std::find(waiting_.begin(), waiting_.end(), id) != waiting_.end(); }

bool Console::done(StreamId id) const { return streams_[size_t(id)]->ended && !waits(id); }

bool Console::wants_pause(StreamId id) {
  const Stream& stream = at(id);
  // If the folded lines wait, the streams that they come from wait too.
  if (stream.fold_splitter && at(folded_).waiting.size() >= kWaitingLimit) return true;
  return stream.waiting.size() >= kWaitingLimit || sink_.pauses();
}

std::optional<MonoTime> Console::deadline() const {
  std::optional<MonoTime> first = sink_.watch.deadline();
  const auto consider = [&](std::optional<MonoTime> at) {
    if (at && (!first || *at < *first)) first = at;
  };
  if (!waiting_.empty()) consider(line_moved_ + options_.line_patience);
  consider(folder_.deadline());
  return first;
}

void Console::on_time(MonoTime now) {
  sink_.look(now);
  folder_.on_time(now, show());
  if (waiting_.empty() || now < line_moved_ + options_.line_patience) return;
  if (sink_.pauses()) {
    line_moved_ = now;  // the owner cannot move either
  } else {
    text_.interrupt();
    release();
    submit();
  }
}

void Console::let_go() {
  unfold();
  text_.interrupt();
  release();
  submit();
}

// ---- lines of several workers at once -------------------------------------------------------------------------------

void Console::unfold() { folder_.show_all(show()); }

LineFolder::Show Console::show() {
  return [this](const std::vector<int>& members, std::string_view line) {
    std::string text = folded_prefix(members);
    text += line;
    write(folded_, text);
  };
}

std::string Console::folded_prefix(const std::vector<int>& members) {
  if (members.size() == 1) return at(members[0]).spec.prefix;
  RankSet ranks;
  for (const int member : members) ranks.add(at(member).spec.rank);
  return fmt::format("[{}{}] {}{} ", options_.fold_group, ranks.text(), options_.fold_sign, members.size());
}

void Console::fold(StreamId id, std::string_view bytes, MonoTime now) {
  Stream& stream = at(id);
  const LineFolder::Show shown = show();
  const auto piece_of_line = [&](const Piece& piece) {
    const bool whole = piece.line_start && piece.end == Piece::End::newline;
    if (whole && !waits(id) && piece.bytes.size() <= LineFolder::kLongestLine) {
      folder_.line(id, piece.bytes, now, shown);
    } else {
      folder_.let_pass(id, shown);
      write(id, piece.bytes);
    }
  };
  stream.fold_splitter->feed(bytes, piece_of_line);
  if (!stream.ended) return;
  stream.fold_splitter->finish(piece_of_line);
  folder_.close(id, now, shown);
  write(id, {});
}

// ---- one line after the other ---------------------------------------------------------------------------------------

// Lays the bytes out if the console is free for this stream, else lets them wait. The writer gets the block once for
// each call, however many lines the block has.
void Console::write(StreamId id, std::string_view bytes) {
  const bool queued = waits(id);
  if (queued || !text_.admits(id)) {
    at(id).waiting += bytes;
    if (!queued) waiting_.push_back(id);
    return;
  }
  lay_out(id, bytes);
  release();
  submit();
}

void Console::lay_out(StreamId id, std::string_view bytes) {
  Stream& stream = at(id);
  // A note of several lines is a report, which has its own times.
  const bool stamped = options_.stamp && (id != kNotes || bytes.find('\n') + 1 == bytes.size());
  const std::string stamp = stamped ? options_.stamp() : "";
  const auto emit = [&](const Piece& piece) { put(id, piece, stamp); };
  stream.splitter.feed(bytes, emit);
  if (stream.ended) stream.splitter.finish(emit);
}

void Console::put(StreamId id, const Piece& piece, const std::string& stamp) {
  Stream& stream = at(id);
  // Bytes that waited are in memory anyway: they may go beyond the queue's bound.
  const bool drop = (sink_.watch.dropping() && id != kNotes) || (sink_.writer.overfull() && !releasing_);
  if (piece.line_start || drop) stream.dropping = drop;
  if (!stream.dropping) {
    const std::string& prefix = stream.spec.prefix;
    if (stamp.empty())
      text_.append(block_, id, prefix, piece, stream.spec.eager);
    else
      text_.append(block_, id, stamp + prefix, piece, stream.spec.eager);
    return;
  }
  lose_(id, piece.bytes);
  if (text_.last() == id) text_.interrupt();  // nobody waits for a line that is not shown
}

// Lets the waiting streams write, in order, until one of them is within a long line.
void Console::release() {
  if (waiting_.empty() || !text_.admits(waiting_.front())) return;
  releasing_ = true;
  while (!waiting_.empty() && text_.admits(waiting_.front())) {
    const StreamId id = waiting_.front();
    waiting_.erase(waiting_.begin());
    lay_out(id, std::exchange(at(id).waiting, {}));
  }
  releasing_ = false;
  options_.on_room();  // for streams that were paused because too much of theirs waited
}

}  // namespace dtrain::launcher
