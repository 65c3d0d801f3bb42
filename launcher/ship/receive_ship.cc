// Tested by test/process/ssh/ship_test.py.
#include "launcher/ship/receive_ship.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/ship/ship_content.h"
#include "launcher/ship/ship_core.h"
#include "launcher/ship/ship_place.h"
#include "rendezvous/agent_link/content_digest.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

class Reception {
 public:
  Reception(const std::vector<ShipFile>& files, const std::string& from, const std::vector<char>& here,
            const KeptFolder& folder, const ShipTalk& talk)
      : files_(files), from_(from), folder_(folder), talk_(talk), core_(files, here) {}

  // In their order: a file may be the same as an earlier one.
  Result<void> run() {
    for (std::size_t i = 0; i < files_.size(); ++i)
      if (auto done = take(i); !done)
        return done.error().in("the job's file cannot be put into " + printable(folder_.path(), kLongestShipPath));
    return {};
  }

 private:
  Result<void> take(std::size_t i) {
    auto made = make_ship_file(folder_.descriptor(), files_[i]);
    if (!made) return made.error();
    const auto source = core_.sources()[i];
    if (source.way == ShipCore::Way::sent) return receive(i, made->get());
    const std::string path = source.way == ShipCore::Way::copied_here
                                 ? from_ + "/" + files_[i].path
                                 : folder_.path() + "/" + files_[source.other].path;
    return copy_ship_file(path, files_[i], made->get());
  }

  Result<void> receive(std::size_t i, int into) {
    auto digest = ContentDigest::begin();
    if (!digest) return digest.error();
    for (std::uint64_t have = 0; have < files_[i].size;) {
      auto bytes = next_piece();
      if (!bytes) return bytes.error();
      digest->add(*bytes);
      if (auto done = write_content(into, *bytes, files_[i].path); !done) return done;
      have += bytes->size();
    }
    const auto got = digest->end();
    if (!got) return got.error();
    if (*got == files_[i].sha256) return {};
    return Error{ErrorKind::system,
                 printable(files_[i].path, kLongestShipPath) + " has changed while it was sent: start the job again"};
  }

  Result<std::string> next_piece() {
    const Error gone{ErrorKind::system, "whoever has submitted the job says no more"};
    for (const ShipPiece& ask : core_.take_asks())
      if (!talk_.tell(ship_ask_line(ask))) return gone;
    const auto line = talk_.line();
    if (!line) return gone;
    const auto piece = parse_ship_piece(*line);
    if (!piece) return piece.error();
    if (auto done = core_.got(*piece); !done) return done.error();
    auto bytes = talk_.bytes(piece->size + 1);
    if (!bytes) return gone;
    if (bytes->back() != '\n') return Error{ErrorKind::system, "a piece of a file has no end"};
    bytes->pop_back();
    return std::move(*bytes);
  }

  const std::vector<ShipFile>& files_;
  const std::string& from_;
  const KeptFolder& folder_;
  const ShipTalk& talk_;
  ShipCore core_;
};

}  // namespace

Result<std::optional<KeptFolder>> receive_ship(const std::vector<ShipFile>& files, const std::string& folder,
                                               const ShipTalk& talk) {
  std::vector<char> here;
  here.reserve(files.size());
  for (const ShipFile& file : files) here.push_back(is_ship_file(folder + "/" + file.path, file) ? 1 : 0);
  if (std::find(here.begin(), here.end(), 0) == here.end()) return std::optional<KeptFolder>();
  auto made = KeptFolder::make("ship");
  if (!made) return made.error();
  if (auto done = Reception(files, folder, here, *made, talk).run(); !done) return done.error();
  return std::optional(std::move(*made));
}

}  // namespace dtrain::launcher
