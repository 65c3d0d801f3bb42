#pragma once
// A file with the kept state of one worker, for the job's next run (--state-dir). Pure.
//
//      0   one line of JSON, filled up with blanks: whose state it is, and how many bytes it has
//   4096   the memory of the worker, as it was (StateMemory); its layout is a matter of the workers
//          4 bytes, little-endian: CRC-32C of all before
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

inline constexpr std::size_t kStateHeadBytes = 4096;
inline constexpr std::size_t kStateSumBytes = 4;
inline constexpr std::uint64_t kMostStateBytes = std::uint64_t{1} << 50;

// Whose state it is. It is that of a place in the job, so it does not matter on which host the place is the next time.
struct StateOwner {
  std::string job;              // StateFiles::key
  int node = 0, nodes = 1;      // the node's number, and how many there are
  int worker = 0, workers = 1;  // the worker's local rank, and how many the node has
  bool copy = false;            // it is not the worker's own state: it holds this copy for a worker of another node
  bool operator==(const StateOwner&) const = default;
};

struct StateHead {
  StateOwner owner;
  std::uint64_t bytes = 0;  // of the memory
  bool operator==(const StateHead&) const = default;
};

// kStateHeadBytes. The job's name as in the file's name.
std::string state_head_text(const StateHead& head);
// Of any kStateHeadBytes bytes. The error says what is wrong.
Result<StateHead> parse_state_head(std::string_view text);
// How large the file is.
std::uint64_t state_file_bytes(const StateHead& head);

std::string state_sum_text(std::uint32_t sum);
std::uint32_t parse_state_sum(std::string_view text);  // kStateSumBytes

// Why `wanted` cannot use what `found` owned; nothing: it can.
std::optional<std::string> why_not_its_state(const StateOwner& found, const StateOwner& wanted);

// "dtrain-state.4711.n0.w3", and with ".copy" at its end.
std::string state_file_name(const StateOwner& owner);
// While it is written.
std::string unfinished_name(const std::string& state_file_name);
// Whether a file of this name is one of the job, also an unfinished one; `node`: and of this node.
bool is_state_file(std::string_view name, const std::string& job, std::optional<int> node);

}  // namespace dtrain::launcher
