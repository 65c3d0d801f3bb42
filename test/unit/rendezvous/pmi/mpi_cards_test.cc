// What processes of an MPI job tell each other, and who of them becomes an agent.
#include "rendezvous/pmi/mpi_cards.h"

#include <numeric>

#include "test/support/catch.h"

using namespace dtrain;
using Catch::Contains;

namespace {

MpiCard card(const std::string& host, int local_rank = 0, int local_size = 1, std::vector<int> cpus = {0}) {
  MpiCard one{host, local_rank, local_size, {}, {"10.0.0.1", "fd00::1"}, std::move(cpus), "00ff", "token 1a2b", {}};
  std::iota(one.key.begin(), one.key.end(), std::uint8_t{7});
  return one;
}

std::string why(const std::vector<MpiCard>& cards) {
  const auto seats = seats_for(cards);
  return seats ? "seats" : seats.error().message;
}

}  // namespace

TEST_CASE("a card and a seat are what they were when they arrive") {
  for (const MpiCard& each :
       {card("node7"), card("gpu-1.site.org", 3, 8, {0, 1, 2, 3, 8, 10, 11}),
        MpiCard{.host = "a", .failure = "./train: no such file", .failure_kind = ErrorKind::not_found}}) {
    const auto text = card_text(each);
    REQUIRE(text.ok());
    CHECK(text->find_first_of(" \n") == std::string::npos);
    const auto back = parse_card(*text);
    REQUIRE(back.ok());
    CHECK(*back == each);
  }
  CHECK_THAT(*card_text(card("n", 0, 1, {0, 1, 2, 3, 8})), Contains(";0-3,8;"));
  const MpiSeat seat{3, 1, 4, {4, 5}, std::string("\0\xff seal", 7)};
  CHECK(*parse_seat(seat_text(seat)) == seat);
  CHECK(*parse_seat(seat_text({1, -1, 2, {}, {}})) == MpiSeat{1, -1, 2, {}, {}});
}

TEST_CASE("a card that no launcher could carry is an error") {
  CHECK_THAT(card_text(card("a b")).error().message, Contains("calls this host 'a b', which is no name"));
  CHECK_THAT(card_text(card("")).error().message, Contains("is no name"));
}

TEST_CASE("of many addresses and CPUs those stay that fit") {
  MpiCard long_one = card("a");
  long_one.addresses.assign(100, "10.100.200.1");
  const auto fewer = parse_card(*card_text(long_one));
  CHECK((fewer->addresses.size() > 30 && fewer->addresses.size() < 100 && fewer->cpus == long_one.cpus));
  long_one.cpus.clear();
  for (int cpu = 0; cpu < 1024; cpu += 2) long_one.cpus.push_back(cpu);
  CHECK(parse_card(*card_text(long_one))->cpus.empty());
  long_one.failure.assign(5000, 'x');
  CHECK(parse_card(*card_text(long_one))->failure == std::string(200, 'x'));
}

TEST_CASE("a text that is no card or seat is one of another version, or of none") {
  const std::string good = *card_text(card("a"));
  for (const std::string& text :
       {std::string(), std::string("1") + good.substr(1), good + ";", good + "-", good + "x",
        std::string("2;a;1;1;;;;;;"), std::string("2;a;0;1;AAAA;;0;;;"), std::string(2000, '1')}) {
    INFO(text);
    REQUIRE_FALSE(parse_card(text).ok());
    CHECK_THAT(parse_card(text).error().message, Contains("another version of dtrain, or none"));
  }
  for (const char* text : {"", "2;0;0;1;;", "2;2;2;1;;", "2;2;-2;1;;", "2;2;0;0;;", "2;2;0;1;3-1;", "2;2;0;1;;?",
                           "2;2;0;1;0,0;", "1;2;0;1;;", "none;", "none;NWE=", "none;MA=="})
    CHECK_FALSE(parse_seat(text).ok());
}

TEST_CASE("one process of each host is its agent, and the others are its workers") {
  const auto one_each = seats_for({card("a"), card("b"), card("c")});
  REQUIRE(one_each.ok());
  for (int rank = 0; rank < 3; ++rank)
    CHECK((*one_each)[static_cast<std::size_t>(rank)] == MpiSeat{3, rank, 1, {0}, {}});
  // As mpirun places them by slots, and by nodes.
  const auto by_slot =
      seats_for({card("a", 0, 2, {0}), card("a", 1, 2, {1}), card("b", 0, 2, {0}), card("b", 1, 2, {2})});
  REQUIRE(by_slot.ok());
  CHECK((*by_slot)[0] == MpiSeat{2, 0, 2, {0, 1}, {}});
  CHECK((*by_slot)[1] == MpiSeat{2, -1, 2, {0, 1}, {}});
  CHECK((*by_slot)[2] == MpiSeat{2, 1, 2, {0, 2}, {}});
  const std::vector<MpiCard> by_node{card("a", 0, 2), card("b"), card("a", 1, 2)};
  CHECK((*seats_for(by_node))[2].node_rank == -1);
  CHECK((*seats_for(by_node))[1].node_rank == 1);
  CHECK(hosts_of_agents(by_node) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("cards that contradict each other are an error") {
  CHECK_THAT(why({card("a"), card("a")}), Contains("says that a has 1 processes, and 2 came, 2 of them the first"));
  CHECK_THAT(why({card("a", 0, 2), card("b")}), Contains("says that a has 2 processes, and 1 came"));
  CHECK_THAT(why({card("a", 1, 2), card("a", 0, 2)}), Contains("rank 0 is not the first process of its host"));
  CHECK_THAT(why({}), Contains("rank 0"));
}

TEST_CASE("a process that cannot start ends all, by name") {
  std::vector<MpiCard> cards{card("a"), card("b")};
  cards[1].failure = "./train: no such file";
  cards[1].failure_kind = ErrorKind::not_found;
  CHECK(why(cards) == "process 1 (on b) of this MPI job cannot start: ./train: no such file");
  const auto told = parse_seat(no_seat_text(seats_for(cards).error()));
  REQUIRE_FALSE(told.ok());
  CHECK(told.error().message == why(cards));
  CHECK(told.error().kind == ErrorKind::not_found);
}

TEST_CASE("processes of one host have one command, and agents one credential") {
  std::vector<MpiCard> cards{card("a", 0, 2), card("a", 1, 2), card("b")};
  cards[2].command = "another";  // a host of another kind
  CHECK(why(cards) == "seats");
  cards[1].command = "another";
  CHECK_THAT(why(cards), Contains("process 0 (on a) and process 1 (on a) have different commands, and a host has one"));
  cards = {card("a"), card("b")};
  cards[1].credential.clear();
  CHECK_THAT(why(cards), Contains("process 0 (on a) has token 1a2b, and process 1 (on b) has none. Open MPI hands"));
}

TEST_CASE("PRRTE's own choice of CPUs is told from one that was typed") {
  CHECK(is_own_choice("CORE:IF-SUPPORTED", "BYCORE:NOOVERSUBSCRIBE"));
  CHECK(is_own_choice("PACKAGE:IF-SUPPORTED", "BYSLOT:NOOVERSUBSCRIBE"));
  CHECK_FALSE(is_own_choice("CORE", "BYCORE:NOOVERSUBSCRIBE"));                // --bind-to core
  CHECK_FALSE(is_own_choice("NONE", "BYSLOT:NOOVERSUBSCRIBE"));                // --bind-to none
  CHECK_FALSE(is_own_choice("CORE:IF-SUPPORTED", "PE-LIST:NOOVERSUBSCRIBE"));  // --cpu-list
  CHECK_FALSE(is_own_choice("CORE:IF-SUPPORTED", "BYUSER:NOOVERSUBSCRIBE"));   // a rankfile
  CHECK_FALSE(is_own_choice("", ""));                                          // Open MPI 4
}
