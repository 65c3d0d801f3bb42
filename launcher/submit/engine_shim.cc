#include "launcher/submit/engine_shim.h"

#include <string_view>
#include <utility>

#include "launcher/engine_wire/json_line.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

constexpr std::size_t kLongestLastWord = 400;

std::string_view without_end(std::string_view line) {
  const auto last = line.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
}

}  // namespace

EngineShim::EngineShim(boost::asio::io_context& io, rlimit descriptors, Callbacks callbacks)
    : descriptors_(descriptors),
      callbacks_(std::move(callbacks)),
      command_(io,
               [this](int status) {
                 pipes_.drain_all();
                 pipes_.close_all();
                 callbacks_.ended(status, last_complaint_);
               }),
      pipes_(io, 1, {[this](int stream, std::string_view bytes) { return take(stream, bytes); }, [](int) {}, [] {}}) {}

Result<void> EngineShim::start(const std::vector<std::string>& words, const std::string& code,
                               const ShimRequest& request) {
  auto output = pipes_.open(0, Streams::all);
  if (!output) return output.error();
  if (auto done = command_.start(words, std::move(*output), descriptors_, true); !done) return done.error();
  command_.send(one_line(code) + "\n" + shim_request_line(request) + "\n");
  return {};
}

bool EngineShim::take(int stream, std::string_view bytes) {
  if (stream == 1)
    complaints_.feed(bytes, [this](const Piece& piece) {
      if (const auto line = without_end(piece.bytes); !line.empty())
        last_complaint_ = printable(line.substr(0, kLongestLastWord));
    });
  else
    words_.feed(bytes, [this](const Piece& piece) {
      auto word = parse_shim_word(without_end(piece.bytes));
      callbacks_.said(word ? std::move(*word) : ShimWord(word.error()));
    });
  return true;
}

}  // namespace dtrain::launcher
