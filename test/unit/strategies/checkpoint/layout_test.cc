// Where bytes lie, sums of parts, and what is refused of files that others wrote.
#include <limits>
#include <random>
#include <set>
#include <tuple>

#include "strategies/checkpoint/crc32c.h"
#include "strategies/checkpoint/layout_plan.h"
#include "strategies/checkpoint/load_plan.h"
#include "strategies/checkpoint/manifest_wire.h"
#include "strategies/checkpoint/sums_wire.h"
#include "test/support/catch.h"
#include "test/support/error_of.h"

using namespace dtrain::checkpoint;

namespace {

TensorSpec spec(const std::string& name, std::string_view type, std::vector<std::int64_t> shape) {
  return {name, stored_type(type), std::move(shape)};
}

std::string refusal(const std::function<void()>& call) { return dtrain::test::error_of<Refused>(call, "accepted"); }

std::string header_refusal(const std::string& json, std::uint64_t data) {
  return refusal([&] { parse_header(json, kLengthBytes + json.size() + data); });
}

std::vector<std::uint64_t> random_borders(std::uint64_t elements, int ranks, std::mt19937_64& random) {
  std::vector<std::uint64_t> at{0, elements};
  for (int r = 1; r < ranks; ++r) at.push_back(random() % (elements + 1));
  std::sort(at.begin(), at.end());
  return at;
}

}  // namespace

TEST_CASE("crc32c: the published values, the table and the instruction agree") {
  const std::string zeros(32, '\0'), ones(32, '\xff'), digits = "123456789";
  CHECK(crc32c(0, zeros.data(), 32) == 0x8A9136AAU);  // RFC 3720, B.4
  CHECK(crc32c(0, ones.data(), 32) == 0x62A8AB43U);
  CHECK(crc32c(0, digits.data(), 9) == 0xE3069283U);
  std::mt19937_64 random(7);
  std::string bytes(40'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  for (int i = 0; i < 200; ++i) {
    const std::size_t begin = random() % bytes.size(), count = random() % (bytes.size() - begin + 1);
    const auto before = static_cast<std::uint32_t>(random());
    CHECK(crc32c(before, bytes.data() + begin, count) == crc32c_by_table(before, bytes.data() + begin, count));
  }
}

TEST_CASE("crc32c: a copy has the bytes and the sum, at any place and of any length") {
  std::mt19937 random(5);
  std::vector<unsigned char> bytes(5000);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
  for (int trial = 0; trial < 500; ++trial) {
    const std::size_t begin = random() % 100, at = random() % 100, count = random() % 4800;
    const auto before = static_cast<std::uint32_t>(random());
    std::vector<unsigned char> copy(5000, 0xA5);
    CHECK(crc32c_copied(before, copy.data() + at, bytes.data() + begin, count) ==
          crc32c_by_table(before, bytes.data() + begin, count));
    CHECK(std::equal(copy.begin() + static_cast<long>(at), copy.begin() + static_cast<long>(at + count),
                     bytes.begin() + static_cast<long>(begin)));
    CHECK(std::count(copy.begin(), copy.begin() + static_cast<long>(at), 0xA5) == static_cast<long>(at));
    CHECK(std::count(copy.begin() + static_cast<long>(at + count), copy.end(), 0xA5) ==
          static_cast<long>(copy.size() - at - count));
  }
}

TEST_CASE("crc32c: sums of parts give the sum of the whole") {
  std::mt19937_64 random(8);
  std::string bytes(10'000, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  const std::uint32_t whole = crc32c(0, bytes.data(), bytes.size());
  for (int i = 0; i < 100; ++i) {
    const std::size_t middle = random() % (bytes.size() + 1);
    const std::uint32_t first = crc32c(0, bytes.data(), middle);
    const std::uint32_t second = crc32c(0, bytes.data() + middle, bytes.size() - middle);
    CHECK(crc32c_joined(first, second, bytes.size() - middle) == whole);
    CHECK(crc32c(first, bytes.data() + middle, bytes.size() - middle) == whole);
  }
}

TEST_CASE("checkpoint layout: tensors follow each other without gaps, at multiples of their elements") {
  const Layout layout = plan_layout({spec("b", "BOOL", {3}), spec("a", "F32", {2, 2}), spec("d", "F64", {}),
                                     spec("z", "F32", {0}), spec("c", "BF16", {5})},
                                    "model", 0);
  REQUIRE(layout.files.size() == 1);
  const PlannedFile& file = layout.files[0];
  CHECK(file.name == "model.safetensors");
  CHECK(file.head.size() % 64 == 0);
  CHECK(file.tensors == std::vector<std::size_t>{2, 1, 3, 4, 0});
  CHECK(file.bytes == file.head.size() + 8 + 16 + 0 + 10 + 3);
  for (std::size_t i = 0; i < layout.tensors.size(); ++i)
    CHECK(layout.begin_of[i] % layout.tensors[i].element_bytes() == 0);
  const auto parsed = parse_header(std::string_view(file.head).substr(kLengthBytes), file.bytes);
  REQUIRE(parsed.size() == 5);
  CHECK(header_length(std::string_view(file.head).substr(0, 8), file.bytes) == file.head.size() - 8);
  for (std::size_t k = 0; k < parsed.size(); ++k) {
    const std::size_t i = file.tensors[k];
    CHECK(parsed[k].shape == layout.tensors[i].shape);
    CHECK(parsed[k].bytes == layout.tensors[i].elements() * layout.tensors[i].element_bytes());
    if (parsed[k].bytes != 0) {
      CHECK(parsed[k].name == layout.tensors[i].name);
      CHECK(parsed[k].begin == layout.begin_of[i]);
    }
  }
}

TEST_CASE("checkpoint layout: a limit makes several files, and a larger tensor has one for itself") {
  const Layout layout = plan_layout({spec("a", "U8", {60}), spec("b", "U8", {40}), spec("c", "U8", {1}),
                                     spec("d", "U8", {500}), spec("e", "U8", {1})},
                                    "model", 100);
  std::vector<std::string> names;
  for (const PlannedFile& file : layout.files) names.push_back(file.name);
  CHECK(names == std::vector<std::string>{"model-00001-of-00004.safetensors", "model-00002-of-00004.safetensors",
                                          "model-00003-of-00004.safetensors", "model-00004-of-00004.safetensors"});
  CHECK(layout.file_of == std::vector<std::size_t>{0, 0, 1, 2, 3});
  CHECK(files_of_index(index_text(layout)) == names);
  CHECK(plan_layout({}, "model", 100).files.empty());
}

TEST_CASE("checkpoint layout: names and shapes that make no sense") {
  const auto plan = [](std::vector<TensorSpec> tensors) {
    return refusal([&] { plan_layout(std::move(tensors), "model", 0); });
  };
  CHECK(plan({spec("a", "U8", {1}), spec("a", "U8", {2})}) == "two tensors have the name a");
  CHECK(plan({spec("", "U8", {1})}) == "a tensor has the name '', which safetensors does not allow");
  CHECK(plan({spec("__metadata__", "U8", {1})}) ==
        "a tensor has the name '__metadata__', which safetensors does not allow");
  CHECK(plan({spec("a\xff", "U8", {1})}) == "the name a\xff is not UTF-8");
  CHECK(plan({spec("a", "U8", {2, -1})}) == "the shape [2, -1] has a size below 0");
  CHECK(plan({spec("a", "U8", {std::int64_t{1} << 62, 4})}) ==
        "the shape [4611686018427387904, 4] has too many elements");
  CHECK(plan({spec("a", "F64", {std::int64_t{1} << 62})}) == "tensor a is too large for a file");
  CHECK(fingerprint({spec("a", "U8", {1})}) != fingerprint({spec("a", "I8", {1})}));
  CHECK(fingerprint({spec("a", "U8", {1, 2})}) != fingerprint({spec("a", "U8", {2, 1})}));
}

TEST_CASE("checkpoint header: what is refused") {
  const auto tensor = [](const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  CHECK(header_refusal(tensor("[2]", "[0,2]"), 2) == "accepted");
  CHECK(header_refusal(tensor("[2]", "[0,2]"), 1) == "tensor a lies outside of the file");
  CHECK(header_refusal(tensor("[2]", "[0,2]"), 3).starts_with("its tensors end at byte "));
  CHECK(header_refusal(tensor("[3]", "[0,2]"), 2) == "tensor a has 2 bytes, which is not the size of U8 [3]");
  CHECK(header_refusal(tensor("[2]", "[2,0]"), 2) == "tensor a lies outside of the file");
  CHECK(header_refusal(tensor("[2]", "[1,3]"), 3) == "tensor a leaves a gap before it");
  CHECK(header_refusal(tensor("[-2]", "[0,2]"), 2) == "a size of tensor a is no number from 0 to 2^63 - 1");
  CHECK(header_refusal(tensor("[2.0]", "[0,2]"), 2) == "a size of tensor a is no number from 0 to 2^63 - 1");
  CHECK(header_refusal(tensor("[2]", "[0,18446744073709551615]"), 2) ==
        "an offset of tensor a is no number from 0 to 2^63 - 1");
  CHECK(header_refusal(tensor("[4294967296,4294967296,4294967296]", "[0,2]"), 2).ends_with("too many elements"));
  CHECK(header_refusal(tensor("[[[[[[2]]]]]]", "[0,2]"), 2) == "its JSON is deeper than 4 levels");
  CHECK(header_refusal(R"({"a":1,"a":2})", 0) == "its JSON has the name a twice");
  CHECK(header_refusal(R"({"a":{"dtype":"X9","shape":[],"data_offsets":[0,0]}})", 0) ==
        "tensor a has a dtype that is unknown");
  CHECK(header_refusal("{\"\xff\":1}", 0) == "its JSON is damaged");
  CHECK(header_refusal(" {}", 0) == "its header does not begin with {");
  CHECK(header_refusal("{} garbage", 0) == "its JSON is damaged");
  CHECK(header_refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                       3) == "tensor b overlaps the tensor before it");
  CHECK(header_refusal(R"({"__metadata__":{"a":1}})", 0) == "its __metadata__ is not an object of texts");
  CHECK(refusal([] { header_length(std::string(8, '\xff'), 1 << 20); }).find("more than the 100000000") !=
        std::string::npos);
  CHECK(refusal([] { header_length(std::string("\x10\0\0\0\0\0\0\0", 8), 20); }) ==
        "its header would have 16 bytes, but the file has 20");
  CHECK(refusal([] { header_length("abc", 3); }) == "it has 3 bytes, too few for a header");
}

TEST_CASE("checkpoint manifest: written and read") {
  const Manifest manifest{1200, 3, {{"model.safetensors", 77, {{"a", 1}, {"b", 0xFFFFFFFFU}}}}, R"({"z":[1]})"};
  const Manifest read = parse_manifest(manifest_text(manifest));
  CHECK(read.step == 1200);
  CHECK(read.world_size == 3);
  REQUIRE(read.files.size() == 1);
  CHECK(read.files[0].name == "model.safetensors");
  CHECK(read.files[0].bytes == 77);
  CHECK(read.files[0].sums == manifest.files[0].sums);
  CHECK(read.extra == R"({"z":[1]})");
  CHECK(refusal([&] { manifest_text({1, 1, {}, "{"}); }) == "'extra' is no JSON, or deeper than 63 levels");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = manifest_text(manifest);
    return refusal([&] { parse_manifest(text.replace(text.find(from), from.size(), to)); });
  };
  CHECK(changed("\"version\": 1", "\"version\": 2") ==
        "it has version 2 of the format, and this dtrain reads version 1");
  CHECK(changed("model.safetensors", "../x") == "'../x' is no name of a file in this folder");
  CHECK(changed("1200", "-1") == "'step' is no number from 0 to 9223372036854775807");
  CHECK(changed("00000001", "0000000G") == "the crc32c of a is not eight hexadecimal digits");
  CHECK(changed("\"extra\"", "\"Extra\"") == "Extra is no key of it");
  CHECK(changed("[\n   1", "[\n   2").starts_with("it is damaged: its crc32c is "));
  // One without a sum, as another program may write it.
  std::string text = manifest_text(manifest);
  const auto sum = text.find(" \"crc32c\""), extra = text.find(" \"extra\"");
  REQUIRE(sum < extra);
  CHECK(parse_manifest(text.erase(sum, extra - sum)).step == 1200);
}

TEST_CASE("checkpoint manifest: no bit of it can be another one") {
  const std::string text =
      manifest_text({1200, 3, {{"model.safetensors", 77, {{"a", 1}, {"b", 0xFFFFFFFFU}}}}, R"({"z":[1, 2.5, "x"]})"});
  std::vector<std::size_t> taken;
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string other = text;
    other[bit / 8] = static_cast<char>(static_cast<unsigned char>(other[bit / 8]) ^ (1U << (bit % 8)));
    if (refusal([&] { parse_manifest(other); }) == "accepted") taken.push_back(bit);
  }
  CHECK(taken.empty());
}

TEST_CASE("checkpoint sums: parts of ranks are the whole, or the gap is told") {
  const std::vector<TensorSpec> one{spec("a", "U8", {10})};
  const auto told = [&](std::vector<std::vector<PartSum>> parts) {
    const auto whole = whole_sums(one, parts);
    return whole[0].covered ? "covered" : whole[0].why;
  };
  CHECK(told({{{0, 0, 4, 1}}, {{0, 4, 6, 2}}}) == "covered");
  CHECK(told({{{0, 4, 6, 2}}, {{0, 0, 4, 1}}}) == "covered");
  CHECK(told({{{0, 0, 10, 5}}, {{0, 0, 10, 5}}}) == "covered");
  CHECK(told({{{0, 0, 10, 5}}, {{0, 0, 10, 6}}}) == "rank 0 and rank 1 have different values of it");
  CHECK(told({{{0, 0, 5, 5}}, {{0, 4, 6, 6}}}) == "rank 0 and rank 1 both have its element 4");
  CHECK(told({{{0, 0, 5, 5}}, {{0, 6, 4, 6}}}) == "no rank has its element 5");
  CHECK(told({{}, {}}) == "no rank has its element 0");
  CHECK(refusal([] { parse_sums("1 2 3\n"); }) == "what another rank tells of its parts makes no sense");
}

TEST_CASE("checkpoint: what W ranks write is what V ranks read, for uneven and empty parts") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    std::mt19937_64 random(seed);
    INFO("seed " << seed);
    std::vector<TensorSpec> tensors;
    for (int i = 0; i < 6; ++i)
      tensors.push_back(spec("t" + std::to_string(i), i % 2 == 0 ? "U8" : "I16",
                             {static_cast<std::int64_t>(random() % 40), static_cast<std::int64_t>(random() % 4)}));
    const Layout layout = plan_layout(tensors, "model", random() % 3 == 0 ? 60 : 0);
    std::vector<std::string> files, whole(tensors.size());
    for (const PlannedFile& file : layout.files)
      files.push_back(file.head + std::string(file.bytes - file.head.size(), '\0'));
    for (std::size_t i = 0; i < tensors.size(); ++i)
      for (std::uint64_t k = 0; k < tensors[i].elements() * tensors[i].element_bytes(); ++k)
        whole[i] += static_cast<char>(random());
    const int writers = 1 + static_cast<int>(random() % 4), readers = 1 + static_cast<int>(random() % 4);
    std::vector<std::vector<PartSum>> sums(static_cast<std::size_t>(writers));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto at = random_borders(tensors[i].elements(), writers, random);
      for (std::size_t r = 0; r + 1 < at.size(); ++r) {
        const std::uint64_t element = tensors[i].element_bytes();
        const std::string part = whole[i].substr(at[r] * element, (at[r + 1] - at[r]) * element);
        files[layout.file_of[i]].replace(layout.begin_of[i] + at[r] * element, part.size(), part);
        sums[r].push_back({i, at[r], at[r + 1] - at[r], crc32c(0, part.data(), part.size())});
      }
    }
    for (auto& of_rank : sums) of_rank = parse_sums(sums_text(of_rank));
    const auto joined = whole_sums(tensors, sums);
    StoredTensors stored;
    for (std::size_t f = 0; f < files.size(); ++f)
      stored.add(layout.files[f].name,
                 parse_header(std::string_view(files[f]).substr(8, layout.files[f].head.size() - 8), files[f].size()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      CHECK(joined[i].covered);
      CHECK(joined[i].sum == crc32c(0, whole[i].data(), whole[i].size()));
    }
    std::vector<std::string> got(tensors.size());
    std::vector<std::vector<std::uint64_t>> borders;
    for (const TensorSpec& tensor : tensors) borders.push_back(random_borders(tensor.elements(), readers, random));
    for (std::size_t r = 0; r < static_cast<std::size_t>(readers); ++r) {
      std::vector<Wanted> wanted;
      for (std::size_t i = 0; i < tensors.size(); ++i)
        wanted.push_back({tensors[i], borders[i][r], borders[i][r + 1] - borders[i][r]});
      for (const PlannedRead& read : plan_reads(stored, wanted, {}))
        got[read.wanted] += files[read.file].substr(read.begin, read.bytes);
    }
    CHECK(got == whole);
  }
}

TEST_CASE("checkpoint load: what does not fit is told") {
  StoredTensors stored;
  stored.add("f", {{"a", stored_type("F32"), {2}, 8, 8}, {"b", stored_type("F32"), {1}, 16, 4}});
  const auto told = [&](std::vector<Wanted> wanted, const LoadRules& rules = {}) {
    return refusal([&] { plan_reads(stored, wanted, rules); });
  };
  const Wanted a{spec("a", "F32", {2}), 0, 2}, b{spec("b", "F32", {1}), 0, 1};
  CHECK(told({a, b}) == "accepted");
  CHECK(told({a}) == "the files have b, for which nobody asks (allow_others permits this)");
  CHECK(told({a}, {.allow_others = true}) == "accepted");
  CHECK(told({a, b, {spec("c", "F32", {1}), 0, 1}}) == "the files lack c");
  CHECK(told({{spec("a", "F32", {1, 2}), 0, 2}, b}) == "a has the shape [2] in the files, and [1, 2] in the program");
  CHECK(told({{spec("a", "BF16", {2}), 0, 2}, b}) ==
        "a is F32 in the files, and BF16 in the program (convert permits this)");
  CHECK(told({{spec("a", "BF16", {2}), 0, 2}, b}, {.convert = true}) == "accepted");
  CHECK(told({{spec("a", "F32", {2}), 1, 2}, b}) == "the elements 1 to 3 of a are asked for, which has 2");
  CHECK(refusal([&] {
          stored.add("g", {{"a", stored_type("F32"), {}, 8, 4}});
        }) == "tensor a is in an earlier file too");
}

TEST_CASE("checkpoint load: rows of ranks in files of torch") {
  const auto part = [](std::vector<std::int64_t> shape, std::uint64_t begin, std::vector<std::int64_t> offsets) {
    return HeaderTensor{"a", stored_type("I16"), shape, begin, 2 * elements_of(shape), std::move(offsets)};
  };
  const auto stored_of = [](const std::vector<HeaderTensor>& parts) {
    StoredTensors stored;
    for (std::size_t i = 0; i < parts.size(); ++i) stored.add_rows("file " + std::to_string(i), {parts[i]});
    stored.check_whole();
    return stored;
  };
  const StoredTensors stored =
      stored_of({part({2, 3}, 100, {2, 0}), part({0, 3}, 40, {4, 0}), part({2, 3}, 8, {0, 0})});
  CHECK(stored.by_name.at("a").tensor.shape == std::vector<std::int64_t>{4, 3});
  // Elements 4 to 9: two of the last file, four of the first.
  const auto reads = plan_reads(stored, {{spec("a", "I16", {4, 3}), 4, 6}}, {});
  REQUIRE(reads.size() == 2);
  CHECK(std::tie(reads[0].file, reads[0].first, reads[0].begin, reads[0].bytes) == std::tuple(0U, 2U, 100U, 8U));
  CHECK(std::tie(reads[1].file, reads[1].first, reads[1].begin, reads[1].bytes) == std::tuple(2U, 0U, 16U, 4U));

  const auto told = [&](const std::vector<HeaderTensor>& parts) { return refusal([&] { stored_of(parts); }); };
  CHECK(told({part({}, 8, {})}) == "accepted");
  CHECK(told({part({2}, 8, {0}), part({2}, 8, {3})}) == "the parts of tensor a leave a gap at element 2");
  CHECK(told({part({2}, 8, {0}), part({2}, 8, {1})}) == "the parts of tensor a overlap at element 2");
  CHECK(told({part({2}, 8, {1})}) == "the parts of tensor a leave a gap at element 0");
  const std::string not_rows = " and loads only parts by rows; consolidate the files with Python";
  CHECK(told({part({2, 2}, 8, {0, 1})}) == "file 0 has a part of tensor a with the shape [2, 2] at [0, 1]," + not_rows);
  CHECK(told({part({2, 2}, 8, {0, 0}), part({2, 3}, 8, {2, 0})}) ==
        "file 1 has a part of tensor a with the shape [2, 3] at [2, 0]," + not_rows);
  CHECK(told({part({2}, 8, {0, 0})}) == "file 0 has a part of tensor a with the shape [2] at [0, 0]," + not_rows);
  const auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(told({part({2}, 8, {most})}).ends_with(not_rows));
  CHECK(told({part({2, 2}, 8, {most - 2, 0})}).ends_with("has too many elements"));
}

TEST_CASE("checkpoint load: a prefix, and what may be lacking") {
  StoredTensors stored;
  stored.add("f", {{"optim.a", stored_type("F32"), {2}, 8, 8}, {"model.a", stored_type("F32"), {1}, 16, 4}});
  stored.strip("model.");
  Wanted a{spec("a", "F64", {1}), 0, 1}, b{spec("b", "F32", {1}), 0, 1};
  const auto told = [&] { return refusal([&] { plan_reads(stored, {a, b}, {}); }); };
  CHECK(told() == "the files lack b");
  b.optional = true;
  CHECK(told() == "a is F32 in the files, and F64 in the program (convert permits this)");
  a.convert = true;
  CHECK(told() == "accepted");
  CHECK(plan_reads(stored, {a, b}, {}).size() == 1);
}

TEST_CASE("checkpoint header: where torch says that a tensor begins in a larger one") {
  const auto header = [](const std::string& info) {
    return R"({"__metadata__":{"DCP_SHARDING_INFO":")" + info +
           R"("},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  };
  const auto parsed = [&](const std::string& info) {
    const std::string text = header(info);
    return parse_header(text, 8 + text.size() + 2);
  };
  CHECK(parsed(R"({\"a\": {\"saved_offsets\": [7]}})").at(0).offsets == std::vector<std::int64_t>{7});
  CHECK(parsed(R"({\"b\": {\"saved_offsets\": [7]}})").at(0).offsets.empty());
  const auto told = [&](const std::string& info) { return refusal([&] { parsed(info); }); };
  CHECK(told("[]") == "its DCP_SHARDING_INFO is no object");
  CHECK(told("{") == "its JSON is damaged");
  CHECK(told(R"({\"a\": 3})") == "tensor a has no saved_offsets in DCP_SHARDING_INFO");
  CHECK(told(R"({\"a\": {\"saved_offsets\": [-1]}})") == "an offset of tensor a is no number from 0 to 2^63 - 1");
}
