// Tested by test/unit/launcher/engine_wire/ship_wire_test.cc.
#include "launcher/engine_wire/ship_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "launcher/engine_wire/json_line.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

constexpr std::size_t kLongestShipName = 255, kDigestDigits = 64, kLongestShipShown = 200;

Error wrong_ship(std::string what) { return {ErrorKind::usage, std::move(what)}; }

std::string shown_path(std::string_view path) { return printable(path.substr(0, kLongestShipShown)); }

bool is_digest(const std::string& text) {
  return text.size() == kDigestDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The folders that a path is in: "a", "a/b" of "a/b/c".
template <class Take>
void each_folder(const std::string& path, Take take) {
  for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
    take(path.substr(0, slash));
}

// JSON's numbers with a sign or a point are no sizes.
std::optional<std::uint64_t> whole_number(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

}  // namespace

bool is_ship_path(std::string_view path) {
  if (path.empty() || path.size() > kLongestShipPath || path.find('\0') != std::string_view::npos) return false;
  for (;;) {
    const std::string_view name = path.substr(0, path.find('/'));
    if (name.empty() || name == "." || name == ".." || name.size() > kLongestShipName) return false;
    if (name.size() == path.size()) return true;
    path.remove_prefix(name.size() + 1);
  }
}

Result<void> check_ship_files(const std::vector<ShipFile>& files) {
  if (files.size() > kMostShipFiles)
    return wrong_ship(fmt::format("{} files, and at most {} can be shipped", files.size(), kMostShipFiles));
  std::set<std::string> names, folders;
  std::uint64_t bytes = 0;
  std::size_t text = 0;
  for (const ShipFile& file : files) {
    if (!is_ship_path(file.path))
      return wrong_ship(fmt::format("'{}' is no path below a folder", shown_path(file.path)));
    if (!is_digest(file.sha256)) return wrong_ship(fmt::format("{} has no SHA-256", shown_path(file.path)));
    if (!names.insert(file.path).second) return wrong_ship(fmt::format("{} is there twice", shown_path(file.path)));
    if (file.size > kMostShipBytes || (bytes += file.size) > kMostShipBytes)
      return wrong_ship(fmt::format("{} makes it more than {} GiB", shown_path(file.path), kMostShipBytes >> 30));
    if ((text += file.path.size()) > kMostShipPathBytes)
      return wrong_ship(fmt::format("the paths have more than {} KiB", kMostShipPathBytes >> 10));
    each_folder(file.path, [&](std::string folder) { folders.insert(std::move(folder)); });
  }
  for (const std::string& folder : folders)
    if (names.contains(folder)) return wrong_ship(fmt::format("{} is a file and a folder", shown_path(folder)));
  return {};
}

ShipPiece ship_piece(const std::vector<ShipFile>& files, std::size_t file, std::uint64_t from) {
  const std::uint64_t left = files[file].size - from;
  return {file, from, static_cast<std::size_t>(std::min<std::uint64_t>(left, kShipPieceBytes))};
}

Json ship_json(const std::vector<ShipFile>& files) {
  Json list = Json::array();
  for (const ShipFile& file : files)
    list.push_back(
        {{"path", file.path}, {"size", file.size}, {"sha256", file.sha256}, {"executable", file.executable}});
  return list;
}

Result<std::vector<ShipFile>> parse_ship_files(const Json& json) {
  const Error odd = wrong_ship("the list of files has members of wrong types");
  if (!json.is_array()) return odd;
  std::vector<ShipFile> files;
  for (const Json& each : json) {
    if (!each.is_object() || files.size() > kMostShipFiles) return odd;
    const auto size = whole_number(each, "size");
    const auto executable = typed_member<bool>(each, "executable");
    if (!size || !executable) return odd;
    files.push_back({text_member(each, "path"), *size, text_member(each, "sha256"), *executable});
  }
  if (auto done = check_ship_files(files); !done) return done.error();
  return files;
}

std::string ship_ask_line(const ShipPiece& piece) { return agent_line({{"wants", piece.file}, {"from", piece.from}}); }

Result<std::optional<ShipPiece>> parse_ship_ask(std::string_view line, const std::vector<ShipFile>& files) {
  const auto json = agent_json(line);
  if (!json || !json->contains("wants")) return std::optional<ShipPiece>();
  const auto file = whole_number(*json, "wants"), from = whole_number(*json, "from");
  if (!file || *file >= files.size() || !from || *from >= files[static_cast<std::size_t>(*file)].size)
    return Error{ErrorKind::system, "it asks for what is not on the list of files"};
  return std::optional(ship_piece(files, static_cast<std::size_t>(*file), *from));
}

std::string ship_piece_line(const ShipPiece& piece) {
  return one_line({{"file", piece.file}, {"from", piece.from}, {"size", piece.size}});
}

Result<ShipPiece> parse_ship_piece(std::string_view line) {
  const auto json = json_object(line);
  const auto file = json ? whole_number(*json, "file") : std::nullopt;
  const auto from = json ? whole_number(*json, "from") : std::nullopt;
  const auto size = json ? whole_number(*json, "size") : std::nullopt;
  if (!file || !from || !size || *file >= kMostShipFiles || *from >= kMostShipBytes || *size > kShipPieceBytes)
    return Error{ErrorKind::system, "what came is no piece of a file"};
  return ShipPiece{static_cast<std::size_t>(*file), *from, static_cast<std::size_t>(*size)};
}

}  // namespace dtrain::launcher
