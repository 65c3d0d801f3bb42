#pragma once
// What `--ship` adds to the words of an engine and an agent (agent_wire.h). A task may list files. An agent that lacks
// some of them asks for their bytes, piece by piece, before it gives its answer:
//
//   agent   dtrain-agent {"wants":3,"from":65536}           a ShipPiece without its size
//   engine  {"file":3,"from":65536,"size":1024}             and then these bytes, and the end of a line
//
// A file is known by its content. Whoever has the content could answer. Pure.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

inline constexpr std::size_t kMostShipFiles = 8192;
inline constexpr std::size_t kLongestShipPath = 1024;
// Of the paths together: the list is a part of a line (kLongestAgentLine).
inline constexpr std::size_t kMostShipPathBytes = std::size_t{1} << 20;
inline constexpr std::uint64_t kMostShipBytes = std::uint64_t{1} << 40;
inline constexpr std::size_t kShipPieceBytes = std::size_t{64} << 10;

struct ShipFile {
  std::string path{};  // below the job's folder: is_ship_path()
  std::uint64_t size = 0;
  std::string sha256{};  // 64 hexadecimal digits
  bool executable = false;
  bool operator==(const ShipFile&) const = default;
};

// A part of a file: of the size of a piece, or the rest.
struct ShipPiece {
  std::size_t file = 0;  // its place in the list
  std::uint64_t from = 0;
  std::size_t size = 0;
  bool operator==(const ShipPiece&) const = default;
};

// Whether this is a path that stays below the folder that it is put in, and that a file system takes.
bool is_ship_path(std::string_view path);
// Why a list cannot be: a path that leads elsewhere, is there twice, or is a file's and a folder's; a digest that is
// none; too much of it.
Result<void> check_ship_files(const std::vector<ShipFile>& files);
// The piece of a file that begins there. `from` is less than its size.
ShipPiece ship_piece(const std::vector<ShipFile>& files, std::size_t file, std::uint64_t from);

nlohmann::json ship_json(const std::vector<ShipFile>& files);
// Only lists that check_ship_files() takes.
Result<std::vector<ShipFile>> parse_ship_files(const nlohmann::json& json);

// Lines without their end.
std::string ship_ask_line(const ShipPiece& piece);
// Nothing: the line asks for nothing. Error: it asks for what is not in the list.
Result<std::optional<ShipPiece>> parse_ship_ask(std::string_view line, const std::vector<ShipFile>& files);
std::string ship_piece_line(const ShipPiece& piece);
Result<ShipPiece> parse_ship_piece(std::string_view line);

}  // namespace dtrain::launcher
