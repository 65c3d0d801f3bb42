#include "rendezvous/base/printable.h"

#include <fmt/format.h>

namespace dtrain {

std::string_view first_characters(std::string_view text, std::size_t longest) {
  if (text.size() <= longest) return text;
  constexpr std::size_t kMoreBytesOfACharacter = 3;
  std::size_t end = longest;
  const auto within = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  while (end > 0 && longest - end < kMoreBytesOfACharacter && within(end)) --end;
  return text.substr(0, within(end) ? longest : end);  // the latter: it is no UTF-8
}

std::string printable(std::string_view text, std::size_t longest) {
  const std::string_view shown = first_characters(text, longest);
  std::string out;
  unsigned char before = 0;
  for (char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    const bool c1 = before == 0xc2 && byte >= 0x80 && byte < 0xa0;  // U+0080 to U+009F, "\x9b" is "ESC [" to some
    if (c1) out.replace(out.size() - 1, 1, "\\xc2");
    if ((byte < 0x20 && c != '\t') || byte == 0x7f || c1)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
    before = byte;
  }
  return shown.size() < text.size() ? out + "..." : out;
}

}  // namespace dtrain
