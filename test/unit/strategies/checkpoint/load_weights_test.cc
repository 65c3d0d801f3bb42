// A module's weights from files, without a session.
#include <filesystem>
#include <fstream>

#include "dtrain/checkpoint.h"
#include "test/support/catch.h"
#include "test/support/error_of.h"
#include "test/support/golden.h"
#include "test/support/temp_folder.h"

using dtrain::test::error_of;
using dtrain::test::TempFolder;

namespace {

struct SmallNet : torch::nn::Module {
  SmallNet() {
    linear = register_module("linear", torch::nn::Linear(2, 3));
    turned = register_parameter("turned", torch::zeros({3, 2}).t());  // not contiguous
    seen = register_buffer("seen", torch::zeros({}, torch::kLong));
  }
  torch::nn::Linear linear{nullptr};
  torch::Tensor turned, seen;
};

void write_safetensors(const std::string& path, const std::string& more = {}) {
  const float values[] = {0, 1, 2, 3, 4, 5, 10, 11, 12, 20, 21, 22, 23, 24, 25};
  const std::int64_t seen = 77;
  const std::string header = R"({"linear.weight":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},
      "linear.bias":{"dtype":"F32","shape":[3],"data_offsets":[24,36]},
      "turned":{"dtype":"F32","shape":[2,3],"data_offsets":[36,60]},
      "seen":{"dtype":"I64","shape":[],"data_offsets":[60,68]})" +
                             more + "}";
  const std::uint64_t size = header.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header;
  file.write(reinterpret_cast<const char*>(values), sizeof values);
  file.write(reinterpret_cast<const char*>(&seen), sizeof seen);
}

}  // namespace

TEST_CASE("a module without a session gets its parameters and buffers from a file") {
  const TempFolder folder;
  const std::string path = folder / "model.safetensors";
  write_safetensors(path);
  SmallNet net;
  const std::string from = GENERATE(0, 1) == 0 ? path : folder.path().string();
  dtrain::load_weights(net, from);
  CHECK(net.linear->weight.equal(torch::arange(6.0F).view({3, 2})));
  CHECK(net.linear->bias.equal(torch::arange(10.0F, 13.0F)));
  CHECK(net.turned.equal(torch::arange(20.0F, 26.0F).view({2, 3})));
  CHECK_FALSE(net.turned.is_contiguous());
  CHECK(net.seen.item<std::int64_t>() == 77);
}

TEST_CASE("weights that do not fit are an error that names the file and the tensor") {
  const TempFolder folder;
  const std::string path = folder / "model.safetensors";
  SmallNet net;
  const auto error = [&](const dtrain::LoadOptions& options = {}) {
    return error_of<dtrain::CheckpointError>([&] { dtrain::load_weights(net, path, options); });
  };
  CHECK(error().starts_with("dtrain: " + path + " cannot be loaded: "));
  write_safetensors(path, R"(,"more":{"dtype":"F32","shape":[0],"data_offsets":[68,68]})");
  CHECK(error().find("more") != std::string::npos);
  CHECK(error({.allow_others = true}).empty());
  net.register_parameter("none", torch::zeros({1}));
  CHECK(error({.allow_others = true}).find("none") != std::string::npos);
}

namespace {

// The step that is a golden file, as the newest of a folder.
std::string golden_step(const TempFolder& folder) {
  const std::string step = folder / "run/step-00000007";
  std::filesystem::create_directories(step);
  for (const std::string name : {"dtrain.json", "model.safetensors"})
    folder.write("run/step-00000007/" + name, dtrain::test::read_golden("checkpoint/step-00000007/" + name));
  return step;
}

}  // namespace

TEST_CASE("the newest step of a folder that is complete") {
  const TempFolder folder;
  const std::string run = folder / "run";
  CHECK_FALSE(dtrain::newest_checkpoint(run).has_value());
  const std::string step = golden_step(folder);
  std::filesystem::create_directories(run + "/step-00000009");  // without dtrain.json
  CHECK(dtrain::newest_checkpoint(run) == step);
  std::filesystem::resize_file(step + "/model.safetensors", 10);
  const auto error = error_of<dtrain::CheckpointError>([&] { dtrain::newest_checkpoint(run); });
  CHECK(error.find("run has no checkpoint that can be loaded: ") != std::string::npos);
}

TEST_CASE("weights of a step are compared with its sums") {
  const TempFolder folder;
  const std::string step = golden_step(folder);
  torch::nn::Module module;
  const auto text = module.register_buffer("text", torch::zeros({11}, torch::kByte));
  module.register_buffer("greeting", torch::zeros({1, 5}, torch::kChar));
  dtrain::load_weights(module, step);
  CHECK(text[0].item<int>() == 'c');
  std::string file = folder.read("run/step-00000007/model.safetensors");
  file.replace(file.rfind("checkpoint"), 1, "C");
  folder.write("run/step-00000007/model.safetensors", file);
  const auto error = error_of<dtrain::CheckpointError>([&] { dtrain::load_weights(module, step); });
  CHECK(error.find("is damaged: the crc32c of text is ") != std::string::npos);
  dtrain::load_weights(module, step, {.verify = false});
  CHECK(text[0].item<int>() == 'C');
}
