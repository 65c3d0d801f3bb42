#include "launcher/output_router.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace dtrain::launcher {
namespace {

constexpr StreamId kNotes = 0;
// Of each stream that waits for another one's line to end.
constexpr size_t kWaitingLimit = 1 << 20;

bool same_file(int a, int b) {
  struct stat first {
  }, second{};
  if (::fstat(a, &first) != 0 || ::fstat(b, &second) != 0) return false;
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

const char* stream_name(Streams which) { return which == Streams::err ? "stderr" : "stdout"; }

}  // namespace

std::string describe(const Loss& loss) {
  std::string who = loss.rank == kFoldedLines ? "folded lines"
                    : loss.rank < 0           ? "dtrain"
                                              : fmt::format("rank {}", loss.rank);
  return fmt::format("{}: {} byte{} ({} line{}) of {} were not written to {}: {}", who, loss.bytes,
                     loss.bytes == 1 ? "" : "s", loss.lines, loss.lines == 1 ? "" : "s", loss.stream, loss.sink,
                     loss.reason);
}

OutputRouter::Console::Console(const Options& options, std::string n, int fd)
    : sink(options.queue_bytes, options.on_room, options.patience), name(std::move(n)), text(::isatty(fd) == 1) {
  sink.writer.add_borrowed_target(fd, name);
}

OutputRouter::OutputRouter(Options options)
    : options_(std::move(options)), files_(options_.queue_bytes, options_.on_room, options_.patience) {
  out_ = std::make_unique<Console>(options_, "stdout", options_.out_fd);
  if (!same_file(options_.out_fd, options_.err_fd)) {
    err_ = std::make_unique<Console>(options_, "stderr", options_.err_fd);
  }
  StreamSpec notes;
  notes.rank = -1;
  notes.which = Streams::err;
  open_stream(std::move(notes));
}

OutputRouter::~OutputRouter() = default;

// The streams of a worker in one round have the numbers of the round before: a job may restart for ever.
StreamId OutputRouter::number_of(const StreamSpec& spec) {
  const auto [it, fresh] = numbers_.try_emplace({spec.rank, spec.which}, StreamId(streams_.size()));
  if (!fresh && !is_over(it->second)) it->second = StreamId(streams_.size());
  if (it->second == StreamId(streams_.size())) streams_.emplace_back();
  return it->second;
}

bool OutputRouter::is_over(StreamId id) const {
  const Stream& stream = *streams_[size_t(id)];
  if (!stream.ended || stream.console == nullptr) return stream.ended;
  const auto& waiting = stream.console->waiting;
  return std::find(waiting.begin(), waiting.end(), id) == waiting.end();
}

StreamId OutputRouter::open_stream(StreamSpec spec) {
  auto stream = std::make_unique<Stream>();
  stream->splitter = LineSplitter(spec.eager ? 0 : LineSplitter::kHoldLimit);
  if (spec.to_console) stream->console = spec.which == Streams::err && err_ ? err_.get() : out_.get();
  if (spec.file) {
    stream->file_target = files_.writer.add_target(std::move(spec.file), spec.file_path);
  }
  if (spec.copy) {
    LineCopy& copy = *spec.copy;
    if (copy.file) copy.target = files_.writer.add_target(std::move(copy.file), copy.path);
    ++copy.streams;
    stream->picker = std::make_unique<LinePicker>(copy.texts);
  }
  const bool folds = options_.fold && stream->console != nullptr && spec.rank >= 0 && !spec.eager;
  const StreamId id = number_of(spec);
  stream->spec = std::move(spec);
  streams_[size_t(id)] = std::move(stream);
  if (folds) open_folding(*streams_[size_t(id)], id);
  return id;
}

void OutputRouter::feed(StreamId id, std::string_view bytes, MonoTime now) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  if (stream.file_target >= 0) to_file(id, bytes, now);
  if (stream.picker) copy_lines(id, bytes, now);
  if (stream.console == nullptr) return;
  Console& console = *stream.console;
  console.sink.look(now);
  stream.fold_splitter ? fold(id, bytes, now) : to_console(id, bytes);
  console.sink.look(now);  // it may be full now: the patience starts here
  if (console.text.last() == id) console.line_moved = now;
}

void OutputRouter::end(StreamId id, MonoTime now) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  if (stream.ended) return;
  stream.ended = true;
  if (stream.file_target >= 0) files_.writer.close_target(stream.file_target);
  if (stream.picker) {
    copy_lines(id, {}, now);
    if (--stream.spec.copy->streams == 0) files_.writer.close_target(stream.spec.copy->target);
  }
  if (stream.console == nullptr) return;
  stream.console->sink.look(now);
  stream.fold_splitter ? fold(id, {}, now) : to_console(id, {});
}

bool OutputRouter::wants_pause(StreamId id) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  if (stream.file_target >= 0 && files_.pauses()) return true;
  if (stream.console == nullptr) return false;
  Console& console = *stream.console;
  // What this stream's folded lines wait for, it waits for too.
  const bool folds = stream.fold_splitter != nullptr;
  if (folds && streams_[static_cast<size_t>(console.folded)]->waiting.size() >= kWaitingLimit) return true;
  return stream.waiting.size() >= kWaitingLimit || console.sink.pauses();
}

std::optional<MonoTime> OutputRouter::deadline() const {
  std::optional<MonoTime> first = files_.watch.deadline();
  auto consider = [&](std::optional<MonoTime> at) {
    if (at && (!first || *at < *first)) first = at;
  };
  for (const Console* console : {out_.get(), err_.get()}) {
    if (console == nullptr) continue;
    consider(console->sink.watch.deadline());
    if (!console->waiting.empty()) consider(console->line_moved + options_.line_patience);
    if (console->folder) consider(console->folder->deadline());
  }
  return first;
}

void OutputRouter::on_time(MonoTime now) {
  files_.look(now);
  for (Console* console : {out_.get(), err_.get()}) {
    if (console == nullptr) continue;
    console->sink.look(now);
    if (console->folder) console->folder->on_time(now, show_on(*console));
    if (console->waiting.empty() || now < console->line_moved + options_.line_patience) continue;
    if (console->sink.pauses()) {
      console->line_moved = now;  // the owner cannot move either
    } else {
      console->text.interrupt();
      release(*console);
      submit(*console);
    }
  }
}

void OutputRouter::note(std::string_view text) {
  for (Console* console : {out_.get(), err_.get()})
    if (console != nullptr) unfold(*console);
  to_console(kNotes, text.ends_with('\n') ? std::string(text) : std::string(text) + '\n');
}

void OutputRouter::to_file(StreamId id, std::string_view bytes, MonoTime now) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  files_.look(now);
  if (files_.watch.dropping()) return lose(stream.spec.file_path, id, bytes, "the disk took nothing for too long");
  if (files_.writer.overfull()) return lose(stream.spec.file_path, id, bytes, "its queue is full");
  file_block_.append({}, bytes, id);
  files_.writer.submit(stream.file_target, file_block_);
  files_.look(now);
}

void OutputRouter::copy_lines(StreamId id, std::string_view bytes, MonoTime now) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  LineCopy& copy = *stream.spec.copy;
  files_.look(now);
  const bool drop = files_.watch.dropping() || files_.writer.overfull();
  auto emit = [&](std::string_view line) {
    if (drop) return lose(copy.path, id, line, "the disk took nothing for too long");
    file_block_.append(stream.spec.copy_prefix, line, id);
    if (!line.ends_with('\n')) file_block_.append("\n", {}, id);
  };
  stream.picker->feed(bytes, emit);
  if (stream.ended) stream.picker->finish(emit);
  files_.writer.submit(copy.target, file_block_);
  files_.look(now);
}

// Lay the bytes out if the console is free for this stream, else let them wait. The block is given to the writer once
// for each call, however many lines it has.
void OutputRouter::to_console(StreamId id, std::string_view bytes) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  Console& console = *stream.console;
  bool queued = std::find(console.waiting.begin(), console.waiting.end(), id) != console.waiting.end();
  if (queued || !console.text.admits(id)) {
    stream.waiting += bytes;
    if (!queued) console.waiting.push_back(id);
    return;
  }
  lay_out(id, bytes);
  release(console);
  submit(console);
}

void OutputRouter::lay_out(StreamId id, std::string_view bytes) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  auto emit = [&](const Piece& piece) { put(id, piece); };
  // A report of several lines has its own times.
  stamps_ = options_.stamp && (id != kNotes || bytes.find('\n') + 1 == bytes.size());
  if (stamps_) stamp_ = options_.stamp();
  stream.splitter.feed(bytes, emit);
  if (stream.ended) stream.splitter.finish(emit);
}

void OutputRouter::put(StreamId id, const Piece& piece) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  Console& console = *stream.console;
  // What waited is in memory anyway: it may go beyond the queue's bound.
  bool drop = (console.sink.watch.dropping() && id != kNotes) || (console.sink.writer.overfull() && !releasing_);
  if (piece.line_start || drop) stream.dropping = drop;
  if (!stream.dropping) {
    const std::string& prefix = stream.spec.prefix;
    if (stamps_)
      console.text.append(console.block, id, stamp_ + prefix, piece, stream.spec.eager);
    else
      console.text.append(console.block, id, prefix, piece, stream.spec.eager);
    return;
  }
  lose(console.name, id, piece.bytes, "the reader took nothing for too long");
  if (console.text.last() == id) console.text.interrupt();  // nobody waits for a line that is not shown
}

// Let the waiting streams write, in order, until one of them is within a long line.
void OutputRouter::release(Console& console) {
  if (console.waiting.empty() || !console.text.admits(console.waiting.front())) return;
  releasing_ = true;
  while (!console.waiting.empty() && console.text.admits(console.waiting.front())) {
    StreamId id = console.waiting.front();
    console.waiting.erase(console.waiting.begin());
    lay_out(id, std::exchange(streams_[static_cast<size_t>(id)]->waiting, {}));
  }
  releasing_ = false;
  options_.on_room();  // for those that were paused because so much of theirs waited
}

void OutputRouter::submit(Console& console) { console.sink.writer.submit(0, console.block); }

void OutputRouter::finish(MonoTime deadline) {
  for (size_t id = 1; id < streams_.size(); ++id) end(static_cast<StreamId>(id), MonoTime::clock::now());
  for (Console* console : {out_.get(), err_.get()}) {
    if (console == nullptr) continue;
    unfold(*console);
    console->text.interrupt();
    release(*console);
    submit(*console);
  }
  files_.writer.finish(deadline);
  collect(files_.writer);
  for (Console* console : {out_.get(), err_.get()}) {
    if (console == nullptr) continue;
    console->sink.writer.finish(deadline);
    collect(console->sink.writer);
  }
}

std::vector<Loss> OutputRouter::losses() const {
  std::vector<Loss> result;
  for (const auto& [key, loss] : losses_) result.push_back(loss);
  return result;
}

void OutputRouter::lose(const std::string& sink, StreamId id, std::string_view bytes, const std::string& reason) {
  Loss& lost = loss(sink, id, reason);
  lost.bytes += bytes.size();
  lost.lines += static_cast<uint64_t>(std::count(bytes.begin(), bytes.end(), '\n'));
}

Loss& OutputRouter::loss(const std::string& sink, StreamId id, const std::string& reason) {
  const StreamSpec& spec = streams_[static_cast<size_t>(id)]->spec;
  auto [it, fresh] = losses_.try_emplace({sink, id, reason});
  if (fresh) it->second = {sink, spec.rank, stream_name(spec.which), 0, 0, reason};
  return it->second;
}

void OutputRouter::collect(const OutputWriter& writer) {
  for (const WriteLoss& lost : writer.losses()) {
    Loss& total = loss(lost.target, lost.stream, lost.reason);
    total.bytes += lost.bytes;
    total.lines += lost.lines;
  }
}

}  // namespace dtrain::launcher
