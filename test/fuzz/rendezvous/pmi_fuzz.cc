// Fuzzes what an MPI launcher says, and what other processes of an MPI job say by it. The first byte says what the rest
// is.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/pmi/mpi_cards.h"
#include "rendezvous/pmi/pmi_wire.h"

using namespace dtrain;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Error& error) { require(!error.message.empty() && error.message.find('\n') == std::string::npos); }

void read_line(std::string_view text) {
  const auto line = parse_pmi_line(text);
  if (!line) return check(line.error());
  require(!line->command.empty());
}

// What is a card is the same card when it is written again.
void read_card(std::string_view text) {
  const auto card = parse_card(text);
  if (!card) return check(card.error());
  require(card->local_rank >= 0 && card->local_rank < card->local_size);
  const auto again = card_text(*card);
  require(again.ok() && *parse_card(*again) == *card);
}

void read_seat(std::string_view text) {
  const auto seat = parse_seat(text);
  if (!seat) return check(seat.error());
  require(seat->node_rank >= -1 && seat->node_rank < seat->nodes && seat->workers > 0);
  require(*parse_seat(seat_text(*seat)) == *seat);
}

// Cards of any hosts: each process has a seat, and one of each host is its agent; or they are refused.
void sit(std::string_view bytes) {
  std::vector<MpiCard> cards;
  for (std::size_t i = 0; i + 2 < bytes.size() && cards.size() < 64; i += 3) {
    const auto number = [&](std::size_t at) { return static_cast<unsigned char>(bytes[i + at]); };
    MpiCard card{.host = std::string(1, static_cast<char>('a' + number(0) % 8)), .cpus = {number(2)}};
    card.local_size = 1 + number(2) % 8;
    card.local_rank = number(1) % card.local_size;
    cards.push_back(card);
  }
  const auto seats = seats_for(cards);
  if (!seats) return check(seats.error());
  require(seats->size() == cards.size() && seats->front().node_rank == 0);
  int agents = 0;
  for (const MpiSeat& seat : *seats)
    if (seat.node_rank >= 0) require(seat.node_rank == agents++);
  require(agents == seats->front().nodes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 4) {
    case 0:
      read_line(bytes);
      break;
    case 1:
      read_card(bytes);
      break;
    case 2:
      read_seat(bytes);
      break;
    default:
      sit(bytes);
  }
  return 0;
}
