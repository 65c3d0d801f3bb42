#include "cli/base/parse_value.h"

#include <clocale>
#include <csignal>
#include <random>

#include "test/support/catch.h"

namespace dtrain::cli {

using launcher::Streams;
using std::chrono::milliseconds;

TEST_CASE("whether Python's int() takes it") {
  for (const char* good : {"0", "-5", " +1_000 ", "99999999999999999999"}) CHECK(is_python_int(good));
  for (const char* bad : {"", "-", "x", "1.0", "0x1", "1_", "1__0", "- 1"}) CHECK_FALSE(is_python_int(bad));
}

TEST_CASE("whole numbers are plain digits within their range") {
  CHECK(*parse_number("1", 1, 16384) == 1);
  CHECK(*parse_number("16384", 1, 16384) == 16384);
  CHECK(*parse_number("007", 1, 16384) == 7);
  for (const char* bad : {"", "0", "-1", "+1", "1e3", "0x10", " 1", "1 ", "1.0", "16385", "99999999999",
                          "99999999999999999999999999", "١", "one", "1\n"})
    CHECK_FALSE(parse_number(bad, 1, 16384).ok());
  CHECK(parse_number("0", 1, 16384).error().message == "expected a whole number from 1 to 16384");
  CHECK_FALSE(parse_number(std::string_view("1\0", 2), 0, 9).ok());
}

TEST_CASE("torchrun's numbers are read as Python's int() does") {
  for (const char* three : {"3", "+3", " 3\n", "0_3", "003"}) CHECK(*parse_python_int(three, 0, 9) == 3);
  CHECK(*parse_python_int("1_0", 0, 10) == 10);
  CHECK(*parse_python_int("-0", 0, 10) == 0);
  CHECK(*parse_python_int("0000000000000000001", 0, 10) == 1);
  for (const char* bad : {"", " ", "+", "-1", "1__0", "_1", "1_", "+-1", "+ 1", "1 0", "0x1", "1.0", "11"})
    CHECK_FALSE(parse_python_int(bad, 0, 10).ok());
}

TEST_CASE("torchrun's fractions are read as Python's float() does, if they are finite") {
  for (const char* half : {"0.5", ".5", "+.5", " 0.5\n", "5e-1", "5E-1", "0.5_0", "00.5", "0_0.5e0_0"})
    CHECK(*parse_python_float(half) == 0.5);
  CHECK(*parse_python_float("5.") == 5);
  CHECK(*parse_python_float("-1_0") == -10);
  for (const char* bad : {"",      " ",   "+",    "-",  ".",  "e1",   "1e",   "0x1", "0x1p-1", "inf", "-inf", "nan",
                          "1e999", "1,5", "1__0", "_1", "1_", "1_.5", "1._5", "+-1", "--1",    "1 2", "1s",   "١"})
    CHECK_FALSE(parse_python_float(bad).ok());
  CHECK_FALSE(parse_python_float(std::string_view("1\0", 2)).ok());
}

TEST_CASE("no locale changes what a number is") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* comma : {"de_DE.UTF-8", "fr_FR.UTF-8", "C"}) {
    std::setlocale(LC_ALL, comma);  // one that is not installed changes nothing
    CHECK(*parse_python_float("0.5") == 0.5);
    CHECK(*parse_seconds("0.5") == milliseconds(500));
    CHECK_FALSE(parse_python_float("0,5").ok());
  }
  std::setlocale(LC_ALL, before.c_str());
}

TEST_CASE("seconds may have a fraction") {
  CHECK(*parse_seconds("30") == milliseconds(30000));
  CHECK(*parse_seconds("0") == milliseconds(0));
  CHECK(*parse_seconds("0.5") == milliseconds(500));
  CHECK(*parse_seconds("1.0625") == milliseconds(1062));
  CHECK(*parse_seconds("2.05") == milliseconds(2050));
  for (const char* bad :
       {"", "-1", "1e3", ".5", "5.", ".", "1.2.3", "1.-2", "99999999999", "inf", "nan", "1s", "31536001"})
    CHECK_FALSE(parse_seconds(bad).ok());
}

TEST_CASE("the syntax of switches in the environment") {
  for (const char* on : {"1", "2", "true", "yes", "on", " 1 ", "+1"}) CHECK(*parse_switch(on));
  for (const char* off : {"0", "00", "false", "no", "off"}) CHECK_FALSE(*parse_switch(off));
  for (const char* bad : {"", "-1", "maybe", "TRUE ", "1.5"}) CHECK_FALSE(parse_switch(bad).ok());
}

TEST_CASE("stream maps are torchrun's, with ranks of any number of digits") {
  CHECK(parse_streams("0", 2)->any() == false);
  CHECK(parse_streams("3", 2)->of(1) == Streams::all);
  auto map = parse_streams("0:3,12:2,1:0", 16);
  REQUIRE(map.ok());
  CHECK(map->of(0) == Streams::all);
  CHECK(map->of(12) == Streams::err);
  CHECK(map->of(1) == Streams::none);
  CHECK(map->of(5) == Streams::none);
  for (const char* bad :
       {"",      "4",    "-1",   "01",      "0:",      ":1",  "0:4",           "0:1,",  ",0:1", "0:1,,1:1", "0:1 ,1:1",
        "1-0:3", "0-:3", "-1:3", "0-1-1:3", "0:1,0:2", "2:1", "99999999999:1", "0:1:2", "a:1",  "3,0:1"})
    CHECK_FALSE(parse_streams(bad, 2).ok());
  CHECK(parse_streams("2:1", 2).error().message == "there is no local rank 2: they go from 0 to 1");
  CHECK(parse_streams("0-7:1", 4).error().message == "there is no local rank 4: they go from 0 to 3");
  CHECK(parse_streams("1:1", 1).error().message == "there is no local rank 1, only 0");
  CHECK(parse_streams("0:1,0:1", 2).error().message == "local rank 0 is named twice");
  CHECK(parse_streams("0-2:1,2:3", 4).error().message == "local rank 2 is named twice");
}

TEST_CASE("stream maps take ranges of ranks") {
  auto map = parse_streams("0-3:1,12:3", 16);
  REQUIRE(map.ok());
  CHECK(map->of(0) == Streams::out);
  CHECK(map->of(3) == Streams::out);
  CHECK(map->of(4) == Streams::none);
  CHECK(map->of(12) == Streams::all);
}

TEST_CASE("as torchrun, stream maps may name ranks that do not exist, and the last word counts") {
  auto map = parse_streams("0:1,0:2,9:3,0-999999999:2", 2, OddRanks::as_torchrun);
  REQUIRE(map.ok());
  CHECK(map->by_local_rank.size() == 2);
  CHECK(map->of(0) == Streams::err);
  auto nobody = parse_streams("9:3", 2, OddRanks::as_torchrun);
  REQUIRE(nobody.ok());
  CHECK_FALSE(nobody->any());
}

TEST_CASE("ranks and ranges of ranks") {
  CHECK(parse_ranks("0,5-7", 7)->text() == "0,5-7");
  CHECK(parse_ranks("3-3,2,2", 7)->text() == "2-3");
  CHECK(parse_ranks(" 0, 5-7 ", 7)->text() == "0,5-7");
  CHECK(parse_ranks("0-999999999", kMostRank)->contains(123456789));
  for (const char* bad : {"", ",", "0,", "-1", "1-", "-", "2-1", "0,,1", "a", "0 1", "1-2-3", "99999999999"})
    CHECK(parse_ranks(bad, 7).error().message == "expected ranks and ranges of ranks such as 0,5-7");
  CHECK(parse_ranks("0,8", 7).error().message == "there is no rank 8: they go from 0 to 7");
  CHECK(parse_ranks("6-12", 7).error().message == "there is no rank 8: they go from 0 to 7");
  CHECK(parse_ranks("10-12", 7).error().message == "there is no rank 10: they go from 0 to 7");
}

TEST_CASE("texts are separated by commas, two of which are one") {
  using Texts = std::vector<std::string>;
  CHECK(parse_texts("apple,orange") == Texts{"apple", "orange"});
  CHECK(parse_texts("a,,b,c") == Texts{"a,b", "c"});
  CHECK(parse_texts("a,,,b") == Texts{"a,", "b"});
  CHECK(parse_texts(",,") == Texts{","});
  CHECK(parse_texts("").empty());
  CHECK(parse_texts("a,") == Texts{"a"});
}

TEST_CASE("signals are named with or without SIG, or numbered") {
  using Signals = std::vector<int>;
  CHECK(*parse_signals("SIGTERM,SIGINT,SIGHUP,SIGQUIT") == Signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  CHECK(*parse_signals("USR1,usr2,10") == Signals{SIGUSR1, SIGUSR2});
  CHECK(*parse_signals("none") == Signals{});
  CHECK(*parse_signals("") == Signals{});
  CHECK(*parse_signals("34") == Signals{34});
  CHECK(parse_signals("SIGTRM").error().message == "there is no signal SIGTRM; did you mean TERM?");
  CHECK(parse_signals("TERM,").error().message == "there is no signal ''; `kill -l` lists them");
  for (const char* bad : {"KILL", "SIGSTOP", "9", "CHLD", "TSTP", "0", "65", "-1", "TERM INT", "99999999999"})
    CHECK_FALSE(parse_signals(bad).ok());
}

TEST_CASE("any bytes at all are a value or an error") {
  std::mt19937 random(20261121);
  const std::string alphabet("0123:,.-SIGTERMx \n\0\xff", 21);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t length = random() % 12; text.size() < length;) text += alphabet[random() % alphabet.size()];
    if (auto number = parse_number(text, 1, 100); number.ok()) CHECK((*number >= 1 && *number <= 100));
    if (auto seconds = parse_seconds(text); seconds.ok()) CHECK(seconds->count() >= 0);
    if (auto map = parse_streams(text, 4); map.ok())
      for (const auto& [rank, streams] : map->by_local_rank) CHECK((rank >= 0 && rank < 4 && unsigned(streams) < 4));
    if (auto signals = parse_signals(text); signals.ok())
      for (int signal : *signals) CHECK((signal > 0 && signal <= SIGRTMAX && signal != SIGKILL));
  }
}

}  // namespace dtrain::cli
