// OutputRouter's way to the console when identical lines are folded.
//
// What LineFolder shows goes to the console as one more stream, `folded`, whose lines carry their own prefix. Whatever
// cannot wait for its like (a progress bar, a very long line, a prompt) goes the ordinary way, after what its stream
// had waiting; and a stream that waits for the console goes that way until it has caught up.
#include <fmt/core.h>

#include <algorithm>

#include "launcher/output_router.h"
#include "launcher/rank_set.h"

namespace dtrain::launcher {

void OutputRouter::open_folding(Stream& stream, StreamId id) {
  Console& console = *stream.console;
  if (!console.folder) {
    StreamSpec folded;
    folded.rank = kFoldedLines;
    folded.which = &console == err_.get() ? Streams::err : Streams::out;
    console.folder = std::make_unique<LineFolder>();
    console.folded = open_stream(std::move(folded));
  }
  stream.fold_splitter = std::make_unique<LineSplitter>();
  console.folder->open(id, static_cast<int>(stream.spec.which));
}

LineFolder::Show OutputRouter::show_on(Console& console) {
  return [this, &console](const std::vector<int>& members, std::string_view line) {
    std::string text = folded_prefix(members);
    text += line;
    to_console(console.folded, text);
  };
}

std::string OutputRouter::folded_prefix(const std::vector<int>& members) const {
  const Stream& first = *streams_[static_cast<size_t>(members[0])];
  if (members.size() == 1) return first.spec.prefix;
  RankSet ranks;
  for (const int member : members) ranks.add(streams_[static_cast<size_t>(member)]->spec.rank);
  return fmt::format("[{}] {}{} ", ranks.text(), options_.fold_sign, members.size());
}

void OutputRouter::fold(StreamId id, std::string_view bytes, MonoTime now) {
  Stream& stream = *streams_[static_cast<size_t>(id)];
  Console& console = *stream.console;
  const LineFolder::Show show = show_on(console);
  auto take = [&](const Piece& piece) {
    const bool waits = std::find(console.waiting.begin(), console.waiting.end(), id) != console.waiting.end();
    const bool whole = piece.line_start && piece.end == Piece::End::newline;
    if (whole && !waits && piece.bytes.size() <= LineFolder::kLongestLine) {
      console.folder->line(id, piece.bytes, now, show);
    } else {
      console.folder->let_pass(id, show);
      to_console(id, piece.bytes);
    }
  };
  stream.fold_splitter->feed(bytes, take);
  if (!stream.ended) return;
  stream.fold_splitter->finish(take);
  console.folder->close(id, now, show);
  to_console(id, {});
}

void OutputRouter::unfold(Console& console) {
  if (console.folder) console.folder->show_all(show_on(console));
}

}  // namespace dtrain::launcher
