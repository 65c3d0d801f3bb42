// `dtrain ckpt`: the files that strategies/checkpoint writes (golden), and files that somebody else has written.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/ckpt/ckpt_files.h"
#include "cli/ckpt/ckpt_sum.h"
#include "cli/ckpt/ckpt_text.h"
#include "test/support/catch.h"
#include "test/support/golden.h"
#include "test/support/temp_folder.h"

namespace dtrain::cli {
namespace {

std::string file_of(const std::string& json, const std::string& data) {
  std::string head(8, '\0');
  head[0] = static_cast<char>(json.size() & 0xFF);
  head[1] = static_cast<char>(json.size() >> 8);
  return head + json + data;
}

std::string refusal(const std::string& json, std::uint64_t data) {
  auto tensors = read_ckpt_header(json, 8 + json.size() + data);
  return tensors ? "accepted" : tensors.error().message;
}

std::string tensor(const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

// The golden step, in a folder where it may be changed.
struct Run {
  Run() {
    std::filesystem::create_directories(folder / step());
    for (const std::string name : {"dtrain.json", "model.safetensors"})
      folder.write(step() + "/" + name, test::read_golden("checkpoint/step-00000007/" + name));
  }
  static std::string step() { return "step-00000007"; }
  std::string verdict() const {
    auto ckpt = open_ckpt(folder.path().string());
    REQUIRE(ckpt);
    verify_ckpt(*ckpt);
    std::string text = ckpt_verdict(*ckpt);
    const std::string path = folder.path().string();
    for (auto at = text.find(path); at != std::string::npos; at = text.find(path)) text.replace(at, path.size(), "RUN");
    return text;
  }
  void change(const std::string& name, std::size_t at, char c) const {
    std::string text = folder.read(step() + "/" + name);
    text[at < text.size() ? at : text.size() - 1] = c;
    folder.write(step() + "/" + name, text);
  }

  test::TempFolder folder;
};

}  // namespace

TEST_CASE("ckpt: what the library writes is shown, for people and as JSON") {
  Run run;
  auto ckpt = open_ckpt(run.folder.path().string());
  REQUIRE(ckpt);
  CHECK(ckpt->first_damage().empty());
  ckpt->path = "run/step-00000007";
  test::check_golden("checkpoint/inspect.txt", ckpt_text(*ckpt));
  test::check_golden("checkpoint/inspect.json", ckpt_json(*ckpt));
  CHECK(nlohmann::json::accept(ckpt_json(*ckpt)));
  CHECK(run.verdict().starts_with("RUN/step-00000007: step 7 is intact: 1 file with 2 tensors, "));
}

TEST_CASE("ckpt: what is damaged is named") {
  Run run;
  SECTION("a byte of a tensor") {
    run.change("model.safetensors", 100'000, 'x');
    CHECK(
        run.verdict().starts_with("damaged: RUN/step-00000007/model.safetensors: tensor text is damaged: its crc32c"));
  }
  SECTION("the header") {
    run.change("model.safetensors", 8, '[');
    CHECK(run.verdict() == "damaged: RUN/step-00000007/model.safetensors: its header does not begin with {\n");
  }
  SECTION("the length") {
    run.change("model.safetensors", 7, '\x7f');
    CHECK(run.verdict().starts_with("damaged: RUN/step-00000007/model.safetensors: its header would have "));
  }
  SECTION("the size") {
    std::filesystem::resize_file(run.folder / Run::step() + "/model.safetensors", 100);
    CHECK(run.verdict().find("it has 100 bytes, and should have ") != std::string::npos);
  }
  SECTION("dtrain.json") {
    run.change("dtrain.json", 0, '[');
    CHECK(run.verdict() == "damaged: RUN/step-00000007/dtrain.json: its JSON is damaged\n");
  }
  SECTION("extra in dtrain.json") {
    const std::string text = run.folder.read(Run::step() + "/dtrain.json");
    run.change("dtrain.json", text.find(" 3") + 1, '2');
    CHECK(run.verdict().starts_with("damaged: RUN/step-00000007/dtrain.json: it is damaged: its crc32c is "));
    run.change("dtrain.json", text.find("extra"), 'E');
    CHECK(run.verdict() == "damaged: RUN/step-00000007/dtrain.json: Extra is no key of it\n");
  }
  SECTION("dtrain.json is gone") {
    std::filesystem::remove(run.folder / Run::step() + "/dtrain.json");
    CHECK(run.verdict().starts_with("damaged: RUN/step-00000007/dtrain.json: "));
  }
  SECTION("a file is gone") {
    std::filesystem::remove(run.folder / Run::step() + "/model.safetensors");
    CHECK(run.verdict().find("it cannot be opened: No such file or directory") != std::string::npos);
  }
}

TEST_CASE("ckpt: a file or a folder of other programs") {
  test::TempFolder folder;
  folder.write("model.safetensors", file_of(tensor("[2]", "[0,2]"), "ab"));
  for (const std::string& path : {folder.path().string(), folder / "model.safetensors"}) {
    auto ckpt = open_ckpt(path);
    REQUIRE(ckpt);
    CHECK(ckpt->files.at(0).tensors.size() == 1);
    CHECK(ckpt_verdict(*ckpt).ends_with("headers are in order; without dtrain.json there are no sums to compare\n"));
  }
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"model.safetensors","b":"gone.safetensors"}})");
  auto ckpt = open_ckpt(folder.path().string());
  REQUIRE(ckpt);
  CHECK(ckpt->files.size() == 2);
  CHECK(ckpt->first_damage() == folder / "gone.safetensors" + ": it cannot be opened: No such file or directory");
  test::TempFolder empty;
  CHECK_FALSE(open_ckpt(empty.path().string()));
  CHECK_FALSE(open_ckpt(empty / "none"));
  std::filesystem::create_symlink("loop", empty / "loop");
  CHECK(open_ckpt(empty / "loop").error().message.starts_with(empty / "loop" + " cannot be examined: Too many levels"));
}

TEST_CASE("ckpt: an index is read by its own name, and a file that lacks its tensors is damaged") {
  test::TempFolder folder;
  folder.write("one.safetensors", file_of(tensor("[2]", "[0,2]"), "ab"));
  folder.write("model.safetensors", file_of(tensor("[1]", "[0,1]"), "a"));
  const std::string index = folder / "other.safetensors.index.json";
  folder.write("other.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors"}})");
  auto ckpt = open_ckpt(index);
  REQUIRE(ckpt);
  CHECK(ckpt->first_damage().empty());
  CHECK(ckpt->files.at(0).name == "one.safetensors");
  folder.write("other.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})");
  CHECK(open_ckpt(index)->first_damage() == folder / "one.safetensors" + ": it lacks tensor b, which the index has");
}

TEST_CASE("ckpt: the newest step has the name that the library gives it") {
  Run run;
  for (const std::string name : {"step-0000000100", "step-99999999999999999999", "step-100"}) {
    std::filesystem::create_directories(run.folder / name);
    run.folder.write(name + "/dtrain.json", "{}");
  }
  CHECK(open_ckpt(run.folder.path().string())->path == run.folder / Run::step());
}

TEST_CASE("ckpt: headers that are refused") {
  CHECK(refusal(tensor("[2]", "[0,2]"), 2) == "accepted");
  CHECK(refusal("{}", 0) == "accepted");
  CHECK(refusal(tensor("[2]", "[0,2]"), 1) == "tensor a lies outside of the file");
  CHECK(refusal(tensor("[2]", "[0,2]"), 3).starts_with("its tensors end at byte "));
  CHECK(refusal(tensor("[3]", "[0,2]"), 2) == "tensor a has 2 bytes, which is not the size of U8 [3]");
  CHECK(refusal(tensor("[4294967296,4294967296,4294967296]", "[0,0]"), 0).find("is not the size") != std::string::npos);
  CHECK(refusal(tensor("[2]", "[1,3]"), 3) == "tensor a leaves a gap before it");
  CHECK(refusal(tensor("[-2]", "[0,2]"), 2) == "'shape' is no number from 0 to 9223372036854775807");
  CHECK(refusal(tensor("[[[[[[2]]]]]]", "[0,2]"), 2) == "its JSON is deeper than 4 levels");
  CHECK(refusal(R"({"a":1,"a":2})", 0) == "its JSON has the name a twice");
  CHECK(refusal("{\"\xff\":1}", 0) == "its JSON is damaged");
  CHECK(refusal(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                3) == "tensor b overlaps the tensor before it");
  CHECK(ckpt_header_length("abc", 3).error().message == "it has 3 bytes, too few for a header");
  CHECK_FALSE(ckpt_header_length(std::string(8, '\xff'), 1 << 20));
}

TEST_CASE("ckpt: CRC-32C has the published values") {
  CHECK(ckpt_sum(0, "123456789") == 0xE3069283U);
  CHECK(ckpt_sum(0, std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(ckpt_sum(ckpt_sum(0, "1234"), "56789") == 0xE3069283U);
}

}  // namespace dtrain::cli
