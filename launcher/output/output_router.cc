#include "launcher/output/output_router.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/base/counted.h"

namespace dtrain::launcher {
namespace {

constexpr const char* kStuckReader = "the reader took nothing for too long";
constexpr const char* kStuckDisk = "the disk took nothing for too long";

const char* stream_name(Streams which) { return which == Streams::err ? "stderr" : "stdout"; }

}  // namespace

std::string describe(const Loss& loss) {
  std::string who = loss.rank == kFoldedLines ? "folded lines"
                    : loss.rank < 0           ? "dtrain"
                                              : fmt::format("rank {}", loss.rank);
  return fmt::format("{}: {} ({}) of {} were not written to {}: {}", who, counted(loss.bytes, "byte"),
                     counted(loss.lines, "line"), loss.stream, loss.sink, loss.reason);
}

OutputRouter::OutputRouter(Options options)
    : options_(std::move(options)), files_(options_.queue_bytes, options_.on_room, options_.patience) {
  open_console(options_.out_fd, "stdout");
  if (!same_file(options_.out_fd, options_.err_fd)) open_console(options_.err_fd, "stderr");
  StreamSpec notes;
  notes.rank = -1;
  notes.which = Streams::err;
  open_stream(std::move(notes));
  for (const auto& console : consoles_) {
    if (!options_.fold) break;
    StreamSpec folded;
    folded.rank = kFoldedLines;
    folded.which = console == consoles_.front() ? Streams::out : Streams::err;
    console->fold_as(open_stream(std::move(folded)));
  }
}

OutputRouter::~OutputRouter() = default;

void OutputRouter::open_console(int fd, const std::string& name) {
  const auto lose_here = [this, name](StreamId id, std::string_view bytes) { lose(name, id, bytes, kStuckReader); };
  consoles_.push_back(std::make_unique<Console>(options_, name, fd, lose_here));
}

// The streams of a worker in one round have the numbers of the round before: a job may restart for ever.
StreamId OutputRouter::number_of(const StreamSpec& spec) {
  const auto [it, fresh] = numbers_.try_emplace({spec.rank, spec.which}, StreamId(streams_.size()));
  if (!fresh && !is_over(it->second)) it->second = StreamId(streams_.size());
  if (it->second == StreamId(streams_.size())) streams_.emplace_back();
  return it->second;
}

bool OutputRouter::is_over(StreamId id) const {
  const Stream& stream = *streams_[size_t(id)];
  return stream.ended && (stream.console == nullptr || stream.console->done(id));
}

StreamId OutputRouter::open_stream(StreamSpec spec) {
  auto stream = std::make_unique<Stream>();
  if (spec.to_console) stream->console = &console_of(spec.which);
  if (spec.file) {
    stream->file_target = files_.writer.add_target(std::move(spec.file), spec.file_path);
  }
  if (spec.copy) {
    LineCopy& copy = *spec.copy;
    if (copy.file) copy.target = files_.writer.add_target(std::move(copy.file), copy.path);
    ++copy.streams;
    stream->picker = std::make_unique<LinePicker>(copy.texts);
  }
  const StreamId id = number_of(spec);
  if (stream->console != nullptr) stream->console->open(id, {spec.rank, spec.which, spec.prefix, spec.eager});
  stream->spec = std::move(spec);
  streams_[size_t(id)] = std::move(stream);
  return id;
}

void OutputRouter::feed(StreamId id, std::string_view bytes, MonoTime now) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  if (stream.file_target >= 0) to_file(id, bytes, now);
  if (stream.picker) copy_lines(id, bytes, now);
  if (stream.console != nullptr) stream.console->feed(id, bytes, now);
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
  if (stream.console != nullptr) stream.console->end(id, now);
}

bool OutputRouter::wants_pause(StreamId id) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  if (stream.file_target >= 0 && files_.pauses()) return true;
  return stream.console != nullptr && stream.console->wants_pause(id);
}

std::optional<MonoTime> OutputRouter::deadline() const {
  std::optional<MonoTime> first = files_.watch.deadline();
  for (const auto& console : consoles_) {
    const auto at = console->deadline();
    if (at && (!first || *at < *first)) first = at;
  }
  return first;
}

void OutputRouter::on_time(MonoTime now) {
  files_.look(now);
  for (const auto& console : consoles_) console->on_time(now);
}

void OutputRouter::note(std::string_view text) {
  for (const auto& console : consoles_) console->unfold();
  console_of(Streams::err).note(text.ends_with('\n') ? std::string(text) : std::string(text) + '\n');
}

void OutputRouter::to_file(StreamId id, std::string_view bytes, MonoTime now) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  files_.look(now);
  if (files_.watch.dropping()) return lose(stream.spec.file_path, id, bytes, kStuckDisk);
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
    if (drop) return lose(copy.path, id, line, kStuckDisk);
    file_block_.append(stream.spec.copy_prefix, line, id);
    if (!line.ends_with('\n')) file_block_.append("\n", {}, id);
  };
  stream.picker->feed(bytes, emit);
  if (stream.ended) stream.picker->finish(emit);
  files_.writer.submit(copy.target, file_block_);
  files_.look(now);
}

void OutputRouter::finish(MonoTime deadline) {
  for (size_t id = 1; id < streams_.size(); ++id) end(static_cast<StreamId>(id), MonoTime::clock::now());
  for (const auto& console : consoles_) console->let_go();
  files_.writer.finish(deadline);
  collect(files_.writer);
  for (const auto& console : consoles_) {
    console->writer().finish(deadline);
    collect(console->writer());
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
