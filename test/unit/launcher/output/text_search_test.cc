// What one pass finds is what a search for each text finds.
#include "launcher/output/text_search.h"

#include <rapidcheck.h>

#include <algorithm>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using namespace std::string_literals;

using Texts = std::vector<std::string>;

bool found_one_by_one(const Texts& texts, std::string_view line) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return line.find(text) != std::string_view::npos; });
}

// Few letters, so that texts overlap, begin alike and are found.
rc::Gen<std::string> text_of_few_letters() {
  return rc::gen::container<std::string>(rc::gen::elementOf(std::string("aab\0\xff", 5)));
}

// Counts how often its bytes are read.
struct CountingLine {
  std::string bytes;
  mutable size_t reads = 0;

  size_t size() const { return bytes.size(); }
  char operator[](size_t i) const {
    ++reads;
    return bytes[i];
  }
};

}  // namespace

TEST_CASE("text search: texts of few letters, as one by one") {
  CHECK(rc::check([] {
    const auto texts = *rc::gen::container<Texts>(text_of_few_letters());
    const auto line = *text_of_few_letters();
    RC_ASSERT(TextSearch(texts).found_in(line) == found_one_by_one(texts, line));
  }));
}

TEST_CASE("text search: any bytes, as one by one") {
  CHECK(rc::check([](const Texts& texts, const std::string& line, unsigned from, unsigned size) {
    Texts more = texts;
    more.push_back(line.substr(line.empty() ? 0 : from % line.size(), 1 + size % 5));
    for (const Texts& some : {texts, more}) RC_ASSERT(TextSearch(some).found_in(line) == found_one_by_one(some, line));
  }));
}

TEST_CASE("text search: hundreds of texts that nearly match, in one pass") {
  Texts texts;
  for (int i = 1; i <= 300; ++i) texts.push_back(std::string(size_t(i), 'a') + "b");
  const TextSearch search(texts);
  const std::string line(1 << 16, 'a');
  CHECK_FALSE(search.found_in(line));
  CHECK(search.found_in(line + "b"));
  CHECK_FALSE(search.found_in("b" + line));
  const CountingLine counted{line};
  CHECK_FALSE(search.found_in(counted));
  CHECK(counted.reads == line.size());
}

TEST_CASE("text search: nothing, an empty text, every byte") {
  CHECK_FALSE(TextSearch({}).found_in("abc"s));
  CHECK_FALSE(TextSearch({"a"}).found_in(""s));
  CHECK(TextSearch({"x", ""}).found_in(""s));
  CHECK(TextSearch({"x", ""}).found_in("abc"s));
  std::string all;
  for (int c = 0; c < 256; ++c) all += char(c);
  const TextSearch search({all});
  CHECK(search.found_in("x" + all + "x"));
  CHECK_FALSE(search.found_in(all.substr(1) + all.substr(0, 255)));
}

}  // namespace dtrain::launcher
