// `dtrain ckpt consolidate` and `convert`: numbers, the plan of the new files, and the files themselves.
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <random>

#include "cli/base/parse_value.h"
#include "cli/ckpt/ckpt_numbers.h"
#include "cli/ckpt/ckpt_words.h"
#include "cli/ckpt/ckpt_write.h"
#include "test/support/catch.h"
#include "test/support/golden.h"
#include "test/support/temp_folder.h"

namespace dtrain::cli {
namespace {

template <class T>
std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> from_raw(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class To, class From>
std::vector<To> converted(CkptFloat from, CkptFloat to, const std::vector<From>& values, std::uint64_t overflows = 0) {
  std::string out;
  CHECK(convert_elements(from, to, raw(values), out) == overflows);
  return from_raw<To>(out);
}

std::string with_header(const std::string& json, const std::string& data) {
  std::string head(8, '\0');
  head[0] = static_cast<char>(json.size() & 0xFF);
  head[1] = static_cast<char>(json.size() >> 8);
  return head + json + data;
}

// Two files with an index, as another program may have written them.
struct Divided {
  Divided() {
    folder.write("model-1.safetensors", with_header(R"({"module.b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                                                    R"("ids":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})",
                                                    raw<float>({1.5F, -2.0F}) + raw<std::int64_t>({7})));
    folder.write("model-2.safetensors", with_header(R"({"module.a":{"dtype":"F64","shape":[3],"data_offsets":[0,24]}})",
                                                    raw<double>({0.25, 1e300, 3})));
    folder.write("model.safetensors.index.json",
                 R"({"weight_map":{"module.b":"model-1.safetensors","module.a":"model-2.safetensors"}})");
  }
  Ckpt open() const {
    auto ckpt = open_ckpt(folder.path().string());
    REQUIRE(ckpt);
    REQUIRE(ckpt->first_damage().empty());
    return std::move(*ckpt);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& each : std::filesystem::directory_iterator(folder.path()))
      found.push_back(each.path().filename().string());
    return found;
  }
  test::TempFolder folder;
};

std::string why_not(const Ckpt& ckpt, const CkptRewrite& rewrite) {
  auto plan = plan_ckpt(ckpt, rewrite);
  return plan ? "planned" : plan.error().message;
}

std::string refused(const std::vector<std::string>& words) {
  auto asked = parse_ckpt(words);
  return asked ? "understood" : asked.error().message;
}

}  // namespace

TEST_CASE("ckpt: every number of two bytes becomes a double and comes back") {
  for (const CkptFloat type : {CkptFloat::f16, CkptFloat::bf16}) {
    std::vector<std::uint16_t> all;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) all.push_back(static_cast<std::uint16_t>(bits));
    const auto doubles = converted<double>(type, CkptFloat::f64, all);
    const auto back = converted<std::uint16_t>(CkptFloat::f64, type, doubles);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool is_nan = std::isnan(doubles[i]);
      const std::uint16_t infinity = type == CkptFloat::f16 ? 0x7C00 : 0x7F80;
      if (is_nan != ((all[i] & 0x7FFFU) > infinity)) ++wrong;
      if (is_nan ? (back[i] & 0x7FFFU) <= infinity || ((back[i] ^ all[i]) & 0x8000U) != 0 : back[i] != all[i]) ++wrong;
      if (i > 0 && i < infinity && !(doubles[i] > doubles[i - 1])) ++wrong;
    }
    CHECK(wrong == 0);
  }
  CHECK(converted<double, std::uint16_t>(CkptFloat::f16, CkptFloat::f64, {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x0400}) ==
        std::vector<double>{1, -2, 65504, std::ldexp(1, -24), std::ldexp(1, -14)});
  CHECK(converted<double, std::uint16_t>(CkptFloat::bf16, CkptFloat::f64, {0x3F80, 0x4049, 0x0001}) ==
        std::vector<double>{1, 3.140625, std::ldexp(1, -133)});
}

TEST_CASE("ckpt: numbers are rounded to the nearest, and to the even one of two") {
  std::mt19937_64 random(4);
  std::vector<float> floats;
  for (int i = 0; i < 200'000; ++i) floats.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  // The upper half of a float, and the well-known rule for its lower half.
  std::size_t wrong = 0;
  std::string out;
  convert_elements(CkptFloat::f32, CkptFloat::bf16, raw(floats), out);
  const auto brains = from_raw<std::uint16_t>(out);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(floats[i]);
    const auto expected = static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
    if (!std::isnan(floats[i]) && brains[i] != expected) ++wrong;
  }
  CHECK(wrong == 0);
  // Halfway between two halves, and a little to its sides: between any two neighbours, also below the normal numbers.
  std::vector<double> halfway, below, above;
  std::vector<std::uint16_t> even, lower, upper;
  for (std::uint16_t bits = 0; bits < 0x7BFF; bits = static_cast<std::uint16_t>(bits + 7)) {
    const auto pair =
        converted<double, std::uint16_t>(CkptFloat::f16, CkptFloat::f64, {bits, static_cast<std::uint16_t>(bits + 1)});
    halfway.push_back((pair[0] + pair[1]) / 2);
    below.push_back(std::nextafter(halfway.back(), 0));
    above.push_back(std::nextafter(halfway.back(), 1e9));
    lower.push_back(bits);
    upper.push_back(static_cast<std::uint16_t>(bits + 1));
    even.push_back((bits & 1U) == 0 ? lower.back() : upper.back());
  }
  CHECK(converted<std::uint16_t>(CkptFloat::f64, CkptFloat::f16, halfway) == even);
  CHECK(converted<std::uint16_t>(CkptFloat::f64, CkptFloat::f16, below) == lower);
  CHECK(converted<std::uint16_t>(CkptFloat::f64, CkptFloat::f16, above) == upper);
  // Twice: first to a float, this would become 1 + 2^-7. It lies just below the middle.
  CHECK(
      converted<std::uint16_t, double>(CkptFloat::f64, CkptFloat::bf16, {1 + std::ldexp(1, -8) - std::ldexp(1, -40)}) ==
      std::vector<std::uint16_t>{0x3F80});
}

TEST_CASE("ckpt: numbers that become infinite are counted") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(converted<std::uint16_t, double>(CkptFloat::f64, CkptFloat::f16, {65519, 65520, -1e9, kInfinity, -kInfinity},
                                         2) == std::vector<std::uint16_t>{0x7BFF, 0x7C00, 0xFC00, 0x7C00, 0xFC00});
  CHECK(converted<float, double>(CkptFloat::f64, CkptFloat::f32, {1e300, kInfinity, 0.1}, 1) ==
        std::vector<float>{std::numeric_limits<float>::infinity(), std::numeric_limits<float>::infinity(), 0.1F});
  CHECK(converted<std::uint16_t, double>(CkptFloat::f64, CkptFloat::bf16, {1e39, -1e-300, -0.0}, 1) ==
        std::vector<std::uint16_t>{0x7F80, 0x8000, 0x8000});
}

TEST_CASE("ckpt: the files that a checkpoint becomes") {
  const Divided divided;
  const Ckpt ckpt = divided.open();
  const auto one = plan_ckpt(ckpt, {});
  REQUIRE(one);
  REQUIRE(one->files.size() == 1);
  CHECK(one->index.empty());
  const auto several = plan_ckpt(ckpt, {.type = "BF16", .renames = {{"module.", ""}}, .max_bytes = 12});
  REQUIRE(several);
  std::string text;
  for (const auto* plan : {&*one, &*several}) {
    for (const CkptNewFile& file : plan->files) {
      CHECK(file.head.size() % 64 == 0);
      text += file.name + " " + file.head.substr(8, file.head.rfind('}') - 7) + "\n";
    }
  }
  test::check_golden("checkpoint/rewrite.txt", text + several->index);
}

TEST_CASE("ckpt: a plan that cannot be") {
  const Divided divided;
  const Ckpt ckpt = divided.open();
  CHECK(why_not(ckpt, {.renames = {{"module.a", "ids"}}}) == "two tensors would have the name ids");
  CHECK(why_not(ckpt, {.renames = {{"ids", ""}}}).starts_with("tensor ids would have the name ''"));
  CHECK(why_not(ckpt, {.renames = {{"module.", "m."}, {"module.a", "x"}}})
            .starts_with("--rename module.a=x: no tensor's name begins with 'module.a', or an earlier"));
  Ckpt empty;
  empty.path = "run";
  CHECK(why_not(empty, {}) == "run has no tensors of a model");
}

TEST_CASE("ckpt: what is written is read again, and nothing is left of what fails") {
  const Divided divided;
  const Ckpt ckpt = divided.open();
  const auto plan = plan_ckpt(ckpt, {.type = "BF16", .max_bytes = 12});
  REQUIRE(plan);
  const std::size_t before = divided.names().size();
  const std::string out = divided.folder / "out";
  SECTION("bfloat16 has the exponent of a float, and 1e300 is none") {
    auto written = write_ckpt(ckpt, *plan, out);
    REQUIRE_FALSE(written);
    CHECK(written.error().message ==
          "tensor module.a has 1 numbers that are too large for BF16; choose another --dtype");
  }
  SECTION("a folder that exists") {
    std::filesystem::create_directory(out);
    CHECK(write_ckpt(ckpt, *plan, out + "/").error().message == out + " exists; name a folder that does not");
    std::filesystem::remove(out);
  }
  SECTION("a folder that cannot be made") {
    CHECK(write_ckpt(ckpt, *plan, out + "/x/y").error().message.find("cannot be made: No such file") !=
          std::string::npos);
  }
  CHECK(divided.names().size() == before);
  const auto same = plan_ckpt(ckpt, {.max_bytes = 16});
  auto written = write_ckpt(ckpt, *same, out);
  REQUIRE(written);
  auto again = open_ckpt(out);
  REQUIRE(again);
  CHECK(again->first_damage().empty());
  REQUIRE(again->files.size() == 2);
  const std::string second = divided.folder.read("out/model-00002-of-00002.safetensors");
  CHECK(second.ends_with(raw<double>({0.25, 1e300, 3})));
  CHECK(written->bytes == second.size() + divided.folder.read("out/model-00001-of-00002.safetensors").size());
  CHECK(divided.names().size() == before + 1);
}

TEST_CASE("ckpt: a source that is cut while it is read leaves nothing") {
  const Divided divided;
  const Ckpt ckpt = divided.open();
  const std::size_t before = divided.names().size();
  std::filesystem::resize_file(divided.folder / "model-1.safetensors", 100);
  auto written = write_ckpt(ckpt, *plan_ckpt(ckpt, {}), divided.folder / "out");
  REQUIRE(written);
  CHECK(written->damage == divided.folder / "model-1.safetensors" + ": it was cut while it was read");
  CHECK(divided.names().size() == before);
}

TEST_CASE("ckpt: the library's own file is written to the byte, and a damaged tensor is not") {
  test::TempFolder folder;
  for (const std::string name : {"dtrain.json", "model.safetensors"})
    folder.write(name, test::read_golden("checkpoint/step-00000007/" + name));
  auto ckpt = open_ckpt(folder.path().string());
  REQUIRE(ckpt);
  const auto plan = plan_ckpt(*ckpt, {});
  REQUIRE(plan);
  REQUIRE(write_ckpt(*ckpt, *plan, folder / "out"));
  std::string model = folder.read("model.safetensors");
  CHECK(folder.read("out/model.safetensors") == model);
  model.back() = static_cast<char>(model.back() + 1);
  folder.write("model.safetensors", model);
  auto written = write_ckpt(*ckpt, *plan, folder / "other");
  REQUIRE(written);
  CHECK(written->damage.find(" is damaged: its crc32c is ") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "other"));
}

TEST_CASE("ckpt: words") {
  const auto asked = parse_ckpt(
      {"convert", "a", "--rename=module.=", "b", "--dtype", "float16", "--rename", "x=y=z", "--max-size=5GB"});
  REQUIRE(asked);
  CHECK(asked->path == "a");
  CHECK(asked->folder == "b");
  CHECK(asked->rewrite.type == "F16");
  CHECK(asked->rewrite.max_bytes == 5'000'000'000);
  CHECK(asked->rewrite.renames == std::vector<std::pair<std::string, std::string>>{{"module.", ""}, {"x", "y=z"}});
  CHECK(refused({"consolidate", "a", "b", "--max-size", "2KiB"}) == "understood");
  CHECK(refused({}).starts_with("say what to do: dtrain ckpt inspect PATH"));
  CHECK(refused({"look", "a"}).starts_with("say what to do"));
  CHECK(refused({"consolidate", "a"}).starts_with("name two paths: dtrain ckpt consolidate PATH FOLDER"));
  CHECK(refused({"verify", "a", "b"}).starts_with("name one path"));
  CHECK(refused({"verify", "a", "--json"}) == "dtrain ckpt verify has no --json");
  CHECK(refused({"inspect", "a", "--max-size=1"}) == "dtrain ckpt inspect has no --max-size");
  CHECK(refused({"consolidate", "a", "b", "--dtype=float32"}) == "dtrain ckpt consolidate has no --dtype");
  CHECK(refused({"convert", "a", "b"}).starts_with("dtrain ckpt convert needs --dtype or --rename"));
  CHECK(refused({"convert", "a", "b", "--dtype"}) == "--dtype needs a value: TYPE");
  CHECK(refused({"convert", "a", "b", "--dtype=int8"}).ends_with("expected float32, bfloat16 or float16"));
  CHECK(refused({"convert", "a", "b", "--rename=x"}).find("expected FROM=TO") != std::string::npos);
  CHECK(refused({"convert", "a", "b", "--rename=a=\xff"}).ends_with("names are UTF-8, and this is not"));
  CHECK(refused({"convert", "a", "b", "--rename=\xc3=b"}).ends_with("names are UTF-8, and this is not"));
  CHECK(refused({"convert", "a", "b", "--rename=\xc3\xa9=b"}) == "understood");
  CHECK(refused({"consolidate", "a", ""}) == "FOLDER is empty; name the folder to be made");
  CHECK(refused({"inspect", "a", "--json=1"}) == "--json takes no value");
  for (const char* size : {"", "0", "GB", "5 GB", "-1", "5gb", "99999999999TB", "1.5GB"}) CHECK_FALSE(parse_size(size));
  CHECK(*parse_size("1TB") == 1'000'000'000'000);
}

}  // namespace dtrain::cli
