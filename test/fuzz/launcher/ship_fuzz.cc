// Fuzzes what --ship adds to the words of an engine and an agent: the list of files, requests for pieces, the heads of
// pieces. The first byte chooses. What a parser takes keeps its promises, and comes through as it is.
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/engine_wire/ship_wire.h"
#include "launcher/ship/ship_core.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Error& error) { require(!error.message.empty() && error.message.find('\n') == std::string::npos); }

void list(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) return;
  const auto files = parse_ship_files(json);
  if (!files) return check(files.error());
  require(files->size() <= kMostShipFiles);
  for (const ShipFile& file : *files) {
    require(is_ship_path(file.path) && file.size <= kMostShipBytes);
    require(file.path[0] != '/' && ("/" + file.path + "/").find("/../") == std::string::npos);
  }
  try {
    require(*parse_ship_files(ship_json(*files)) == *files);
  } catch (const nlohmann::json::exception&) {
    std::abort();
  }
}

void asks(const std::string& text) {
  const std::vector<ShipFile> files{{"a", 3 * kShipPieceBytes - 1, std::string(64, 'a'), false},
                                    {"b", 0, std::string(64, 'b'), true}};
  const auto ask = parse_ship_ask(text, files);
  if (!ask) return check(ask.error());
  if (!*ask) return;
  require((*ask)->file < files.size() && (*ask)->size > 0 && (*ask)->size <= kShipPieceBytes);
  require((*ask)->from + (*ask)->size <= files[(*ask)->file].size);
  require(**parse_ship_ask(ship_ask_line(**ask), files) == **ask);
}

// An agent that gets these lines, whatever they are, takes no more than it has asked for.
void pieces(std::string text) {
  ShipCore core({{"a", 2 * kShipPieceBytes, std::string(64, 'a'), false}, {"b", 1, std::string(64, 'b'), false}},
                {0, 0});
  (void)core.take_asks();
  std::size_t taken = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto piece = parse_ship_piece(text.substr(0, end));
    text.erase(0, end + 1);
    if (!piece) {
      check(piece.error());
      continue;
    }
    require(piece->size <= kShipPieceBytes && *parse_ship_piece(ship_piece_line(*piece)) == *piece);
    if (core.got(*piece)) taken += piece->size;
  }
  require(taken <= 2 * kShipPieceBytes + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 3 == 0)
    list(text);
  else if (data[0] % 3 == 1)
    asks(text);
  else
    pieces(text);
  return 0;
}
