// Fuzzes TailBuffer: the lines that reports show of a stream are lines of it, few, the same for any chunks.
#include <cstdint>
#include <string>

#include "launcher/base/tail_buffer.h"
#include "rendezvous/base/check.h"

using namespace dtrain;
using namespace dtrain::launcher;

// Byte 0: how often the rest is written, so that it outgrows the buffer; byte 1: drives the lengths of the chunks.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string part(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::string all;
  for (int i = 0; i <= data[0]; ++i) all += part;

  TailBuffer whole, cut;
  whole.add(all);
  std::uint32_t seed = data[1];
  for (std::size_t at = 0; at < all.size();) {
    seed = seed * 1664525U + 1013904223U;
    const std::string chunk = all.substr(at, 1 + (seed >> 16) % 9000);
    cut.add(chunk);
    at += chunk.size();
  }
  const auto lines = cut.lines();
  DT_CHECK(lines == whole.lines(), "chunks change nothing");
  DT_CHECK(lines.size() <= TailBuffer::kLines, "some lines");
  std::size_t bytes = 0;
  for (const std::string& line : lines) {
    bytes += line.size();
    const bool folded = line.starts_with("... (") && line.ends_with(" lines of torch's list)");
    DT_CHECK((folded || all.find(line) != std::string::npos) && line.find('\n') == std::string::npos,
             "lines of the stream");
  }
  DT_CHECK(bytes <= TailBuffer::kBytes, "no more than is kept");
  return 0;
}
