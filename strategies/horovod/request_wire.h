#pragma once
// What a rank tells the others of the tensors it wants reduced. Pure.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dtrain::hvd {

struct Request {
  std::string name;
  std::string type;    // of the elements while they are reduced
  std::string device;  // cpu, cuda
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;
  std::string op;            // with what it is scaled by: ranks must agree on that too
  std::string group = {};    // tensors of one group are reduced together; empty: none
  std::int64_t members = 0;  // of the group

  bool operator==(const Request&) const = default;
};

struct Asked {
  Request request;
  std::chrono::milliseconds waited{0};  // at its rank
};

// For people: "Float [3, 4] on cpu, average".
std::string describe(const Request& request);

std::string serialize(const std::vector<Asked>& asked);
// Throws std::exception where the bytes are not those of serialize().
std::vector<Asked> parse_requests(std::string_view bytes);

}  // namespace dtrain::hvd
