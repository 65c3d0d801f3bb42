#include "rendezvous/pmi/mpi_meeting.h"

#include <fmt/format.h>

#include <utility>

namespace dtrain {
namespace {

constexpr const char* kCard = "card";

std::string seat_name(int rank) { return fmt::format("seat-{}", rank); }
// What the secret is sealed for.
std::string purpose_of(const std::string& job, int rank) { return fmt::format("{} {}", job, rank); }

Result<MpiCard> card_of(PmiExchange& exchange, int rank) {
  auto text = exchange.get(rank, kCard);
  if (!text) return text.error();
  return parse_card(*text);
}

// Rank 0: reads all cards and answers them.
// Rank 0: reads all cards, and has a seat for each process.
Result<std::vector<MpiSeat>> read_cards(PmiExchange& exchange, std::vector<MpiCard>& cards) {
  for (int rank = 0; rank < exchange.facts().size; ++rank) {
    auto card = card_of(exchange, rank);
    if (!card) return card.error();
    cards.push_back(std::move(*card));
  }
  return seats_for(cards);
}

Result<std::string> seat_of(int rank, MpiSeat seat, const MpiCard& card, const std::optional<JobSecret>& secret,
                            const std::optional<SealingKeys>& keys, const std::string& job) {
  if (seat.node_rank > 0 && secret && keys) {
    auto sealed = keys->seal(*secret, card.key, purpose_of(job, rank));
    if (!sealed) return sealed.error();
    seat.secret = std::move(*sealed);
  }
  return seat_text(seat);
}

// Rank 0 answers all, whatever it has found: the others wait for the second fence.
Result<MpiMeeting> preside(PmiExchange& exchange, const std::optional<SealingKeys>& keys) {
  const PmiExchange::Facts& facts = exchange.facts();
  std::vector<MpiCard> cards;
  auto seats = read_cards(exchange, cards);
  std::optional<JobSecret> secret;
  if (seats && seats->front().nodes > 1) {
    auto made = JobSecret::generate();
    if (made) secret = std::move(*made);
    if (!made) seats = made.error();
  }
  for (int rank = 1; rank < facts.size; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    auto text = seats ? seat_of(rank, (*seats)[at], cards[at], secret, keys, facts.job) : seats.error();
    if (auto put = exchange.put(seat_name(rank), text ? *text : no_seat_text(text.error())); !put) return put.error();
  }
  if (!seats) return seats.error();
  return MpiMeeting{facts.job, seats->front(), cards.front().addresses, hosts_of_agents(cards), std::move(secret)};
}

Result<MpiMeeting> take_seat(PmiExchange& exchange, const std::optional<SealingKeys>& keys) {
  const PmiExchange::Facts& facts = exchange.facts();
  auto first = card_of(exchange, 0);
  if (!first) return first.error();
  auto text = exchange.get(0, seat_name(facts.rank));
  if (!text) return text.error();
  auto seat = parse_seat(*text);
  if (!seat) return seat.error();
  MpiMeeting meeting{facts.job, std::move(*seat), first->addresses, {}, std::nullopt};
  if (meeting.seat.node_rank > 0 && keys) {
    auto secret = keys->open(meeting.seat.secret, first->key, purpose_of(facts.job, facts.rank));
    if (!secret) return secret.error();
    meeting.secret = std::move(*secret);
  }
  return meeting;
}

}  // namespace

Result<MpiMeeting> meet(PmiExchange& exchange, const MpiSelf& self) {
  const PmiExchange::Facts& facts = exchange.facts();
  MpiCard card{.host = facts.host,
               .local_rank = facts.local_rank,
               .local_size = facts.local_size,
               .command = self.command,
               .credential = self.credential,
               .failure = self.failure,
               .failure_kind = self.failure_kind};
  if (facts.rank == 0) card.addresses = self.addresses;
  if (facts.local_size > 1) card.cpus = self.cpus;
  // A job on one host has no secret, and needs no OpenSSL.
  std::optional<SealingKeys> keys;
  if (facts.size > facts.local_size) {
    auto made = SealingKeys::generate();
    if (made) {
      card.key = made->shown();
      keys = std::move(*made);
    } else if (card.failure.empty()) {
      card.failure = made.error().message;
    }
  }
  auto text = card_text(card);
  if (!text) return text.error();
  if (auto put = exchange.put(kCard, *text); !put) return put.error();
  if (auto all = exchange.fence(); !all) return all.error();
  auto meeting = facts.rank == 0 ? preside(exchange, keys) : Result<MpiMeeting>(MpiMeeting{});
  if (auto all = exchange.fence(); !all) return all.error();
  if (facts.rank != 0) meeting = take_seat(exchange, keys);
  if (auto ended = exchange.finish(); meeting && !ended) return ended.error();
  if (meeting) meeting->bound = facts.bound;
  return meeting;
}

}  // namespace dtrain
