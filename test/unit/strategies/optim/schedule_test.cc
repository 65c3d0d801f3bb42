// The corners of schedules. That they have torch's rates is shown by test/parity/optim_parity.py.
#include "dtrain/schedule.h"

#include <cmath>

#include "test/support/catch.h"

using namespace dtrain;
using Catch::Matchers::Contains;

TEST_CASE("schedule: begins and ends where it should, and stays there") {
  CHECK(constant(0.5)(7) == 0.5);
  CHECK(linear(10, 0, 1)(0) == 0);
  CHECK(linear(10, 0, 1)(5) == Approx(0.5));
  CHECK(linear(10, 1, 0.25)(10) == Approx(0.25));
  CHECK(linear(10, 1, 0.25)(1000) == Approx(0.25));
  CHECK(cosine(10)(0) == 1);
  CHECK(cosine(10)(5) == Approx(0.5));
  CHECK(cosine(10, 0.1)(10) == Approx(0.1));
  CHECK(cosine(10, 0.1)(1000) == Approx(0.1));
  CHECK(step_decay(10)(9) == 1);
  CHECK(step_decay(10)(20) == Approx(0.01));
  CHECK(exponential(0.5)(3) == Approx(0.125));
}

TEST_CASE("schedule: one cycle rises to 1 and falls to the end") {
  const auto schedule = one_cycle({.steps = 100, .rising_part = 0.3, .start_divisor = 10, .end_divisor = 100});
  CHECK(schedule(0) == Approx(0.1));
  CHECK(schedule(29) == Approx(1));
  CHECK(schedule(99) == Approx(0.001));
  CHECK(schedule(1000) == Approx(0.001));
  for (int step = 1; step <= 29; ++step) CHECK(schedule(step) > schedule(step - 1));
  for (int step = 30; step < 100; ++step) CHECK(schedule(step) < schedule(step - 1));
}

TEST_CASE("schedule: after a warm-up the next one begins with its own step 0") {
  const auto schedule = after_warmup(4, cosine(10), 0.2);
  CHECK(schedule(0) == Approx(0.2));
  CHECK(schedule(2) == Approx(0.6));
  CHECK(schedule(4) == 1);
  CHECK(schedule(9) == Approx(0.5));
  CHECK(after_warmup(0, cosine(10))(5) == Approx(0.5));
  const auto three = chained({constant(1), constant(2), constant(3)}, {5, 5});
  CHECK(three(4) == 1);
  CHECK(three(5) == 3);
}

TEST_CASE("schedule: a plateau's state is a few numbers, and a NaN is no improvement") {
  Plateau plateau({.factor = 0.5, .patience = 1, .cooldown = 1, .min_factor = 0.2});
  CHECK(plateau.step(std::nan("")) == 1);
  CHECK_FALSE(plateau.state().best);
  CHECK(plateau.step(3) == 1);
  CHECK(plateau.step(3) == 1);
  Plateau other({.factor = 0.5, .patience = 1, .cooldown = 1, .min_factor = 0.2});
  other.load(plateau.state());
  CHECK(other.step(3) == 0.5);
  CHECK(plateau.step(3) == 0.5);
  for (int i = 0; i < 20; ++i) CHECK(other.step(4) == plateau.step(4));
  CHECK(plateau.factor() == 0.2);
  CHECK(plateau.step(1) == 0.2);
  CHECK(plateau.state().best == 1);
}

TEST_CASE("schedule: the text of a plateau is pinned, and it goes on from it") {
  const PlateauOptions options{.factor = 0.3, .patience = 1, .cooldown = 2};
  Plateau plateau(options), other(options);
  CHECK(plateau.save_into() == R"({"plateau":{"bad_evaluations":0,"best":null,"cooldown_left":0,"factor":1.0}})");
  for (const double metric : {0.1, 0.2, 0.2}) plateau.step(metric);
  const std::string saved = plateau.save_into(R"({"step": 3})");
  CHECK(saved == R"({"plateau":{"bad_evaluations":0,"best":0.1,"cooldown_left":2,"factor":0.3},"step":3})");
  other.restore(saved);
  CHECK(other.factor() == 0.3);
  for (int i = 0; i < 20; ++i) CHECK(other.step(0.2) == plateau.step(0.2));
  CHECK(plateau.factor() < 0.01);
  CHECK(other.save_into({}, "second") == plateau.save_into({}, "second"));
  other.restore(R"({"plateau":{"bad_evaluations":0,"best":null,"cooldown_left":0,"factor":0.5}})");
  CHECK_FALSE(other.state().best);
}

TEST_CASE("schedule: a plateau whose best metric is infinite comes back so") {
  Plateau plateau({.factor = 0.5, .patience = 1}), other({.factor = 0.5, .patience = 1});
  plateau.step(HUGE_VAL);
  other.restore(plateau.save_into());
  CHECK(other.state().best == HUGE_VAL);
}

TEST_CASE("schedule: a damaged text changes nothing of a plateau") {
  Plateau plateau;
  plateau.step(7);
  for (const char* text : {"", "{", R"({"plateau": 1})", R"({"plateau": {"factor": 0.5}})",
                           R"({"plateau":{"bad_evaluations":0,"best":1.0,"cooldown_left":0,"factor":-0.5}})",
                           R"({"plateau":{"bad_evaluations":-1,"best":1.0,"cooldown_left":0,"factor":0.5}})",
                           R"({"plateau":{"bad_evaluations":0,"best":"low","cooldown_left":0,"factor":0.5}})",
                           R"({"plateau":{"bad_evaluations":0,"best":1.0,"cooldown_left":0,"factor":0.5,"more":1}})"}) {
    INFO(text);
    CHECK_THROWS_WITH(plateau.restore(text), Contains("dtrain: Plateau: the checkpoint's extra"));
  }
  CHECK_THROWS_WITH(plateau.restore(plateau.save_into(), "second"), Contains("no object \"second\""));
  CHECK_THROWS_AS(plateau.save_into("[1]"), ConfigError);
  CHECK(plateau.factor() == 1);
  CHECK(plateau.state().best == 7);
}

TEST_CASE("schedule: what makes no sense is named") {
  CHECK_THROWS_WITH(linear(0, 0, 1), Contains("linear"));
  CHECK_THROWS_WITH(cosine(0), Contains("cosine"));
  CHECK_THROWS_WITH(step_decay(0), Contains("step_decay"));
  CHECK_THROWS_WITH(one_cycle({.steps = 1}), Contains("one_cycle"));
  CHECK_THROWS_WITH(one_cycle({.steps = 10, .rising_part = 2}), Contains("rising_part"));
  CHECK_THROWS_WITH(chained({constant()}, {3}), Contains("chained"));
  CHECK_THROWS_WITH(chained({constant(), constant(), constant()}, {3, 2}), Contains("increase"));
  CHECK_THROWS_WITH(Plateau({.factor = 1}), Contains("Plateau"));
}
