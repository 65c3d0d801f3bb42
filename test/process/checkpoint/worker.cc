// Saves and loads a state of which each element's value is known: worker COMMAND FOLDER [WORD=VALUE...]. The commands
// are in checkpoint_test.py.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "dtrain/dtrain.h"

namespace {

using Words = std::map<std::string, std::string>;

std::int64_t number(const Words& words, const std::string& name, std::int64_t otherwise) {
  const auto at = words.find(name);
  return at == words.end() ? otherwise : std::stoll(at->second);
}

// The borders of the ranks' parts: even, or by the seed, so that some parts are empty.
std::vector<std::int64_t> borders(std::int64_t elements, int ranks, std::int64_t seed, std::size_t tensor) {
  std::vector<std::int64_t> at{0};
  std::mt19937_64 random(static_cast<std::uint64_t>(seed) * 1000 + tensor);
  for (int r = 1; r < ranks; ++r)
    at.push_back(seed == 0 ? elements * r / ranks : static_cast<std::int64_t>(random() % (elements + 1)));
  at.push_back(elements);
  std::sort(at.begin(), at.end());
  return at;
}

// The values of the elements from `begin` on, at a step.
at::Tensor values(at::ScalarType type, std::int64_t begin, std::int64_t count, std::int64_t step, std::size_t tensor) {
  const auto salt = static_cast<std::int64_t>(tensor) * 7 + step * 13;
  return torch::arange(begin, begin + count, at::kLong).add_(salt).remainder_(type == at::kBool ? 2 : 101).to(type);
}

struct Tensor {
  std::string name;
  at::ScalarType type;
  std::vector<std::int64_t> shape;
};

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

const std::vector<Tensor> kModel = {
    {"embed.weight", at::kFloat, {61, 7}},
    {"blocks.0.weight", at::kBFloat16, {33, 5}},
    {"blocks.0.bias", at::kHalf, {33}},
    {"blocks.1.scale", at::kDouble, {}},
    {"blocks.1.empty", at::kFloat, {0, 3}},
    {"ids", at::kLong, {11}},
    {"small", at::kInt, {3, 1, 2}},
    {"short", at::kShort, {9}},
    {"signed", at::kChar, {5}},
    {"bytes", at::kByte, {13}},
    {"mask", at::kBool, {17}},
    {"n\xc3\xa4me \"quoted\"", at::kFloat, {4}},
};
const std::vector<Tensor> kOptimizer = {{"embed.weight.exp_avg", at::kFloat, {61, 7}},
                                        {"embed.weight.exp_avg_sq", at::kFloat, {61, 7}},
                                        {"blocks.1.scale.step", at::kLong, {}}};

// `filled`: with the values of the step; else with others.
std::vector<dtrain::StatePiece> pieces(const std::vector<Tensor>& tensors, const dtrain::Session& session,
                                       const Words& words, std::int64_t step, bool filled) {
  std::vector<dtrain::StatePiece> out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    const auto at = borders(elements_of(tensor.shape), session.world_size(), number(words, "seed", 0), i);
    const auto r = static_cast<std::size_t>(session.rank());
    dtrain::StatePiece piece{tensor.name, tensor.type, tensor.shape, at[r], {}};
    const std::int64_t count = at[r + 1] - at[r];
    if (count != 0) {
      piece.values = values(tensor.type, at[r], count, step, i);
      if (!filled) piece.values.zero_();
    }
    out.push_back(piece);
  }
  return out;
}

std::vector<Tensor> big_tensors(std::int64_t mib) {
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < mib; ++i)
    tensors.push_back({fmt::format("layers.{}.weight", i), at::kFloat, {512, 512}});
  return tensors;
}

dtrain::CheckpointState state_of(const dtrain::Session& session, const Words& words, bool filled) {
  const std::int64_t step = number(words, "step", 1);
  const std::int64_t mib = number(words, "mib", 0);
  dtrain::CheckpointState state;
  state.step = step;
  state.model = pieces(mib != 0 ? big_tensors(mib) : kModel, session, words, step, filled);
  if (mib == 0) state.optimizer = pieces(kOptimizer, session, words, step, filled);
  state.extra = fmt::format(R"({{"at":{}}})", step * 10);
  return state;
}

// "" or the name of a tensor with wrong values.
std::string wrong(const std::vector<Tensor>& tensors, const std::vector<dtrain::StatePiece>& got, std::int64_t step) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!got[i].values.defined()) continue;
    const auto want = values(tensors[i].type, got[i].begin, got[i].values.numel(), step, i).to(got[i].dtype);
    if (!torch::equal(want, got[i].values)) return got[i].name;
  }
  return "";
}

void report(const dtrain::Session& session, const std::string& line) {
  std::printf("rank %d: %s\n", session.rank(), line.c_str());
  std::fflush(stdout);
}

std::string load(dtrain::Session& session, dtrain::Checkpoints& checkpoints, const Words& words) {
  auto state = state_of(session, words, false);
  if (words.contains("convert"))
    for (auto& piece : state.model)
      if (piece.dtype == at::kFloat) {
        piece.dtype = at::kBFloat16;
        if (piece.values.defined()) piece.values = piece.values.to(at::kBFloat16);
      }
  if (words.contains("shape")) state.model[0].shape = {7, 61};
  if (words.contains("rename")) state.model[0].name = "other";
  dtrain::LoadOptions options;
  options.verify = !words.contains("unverified");
  options.convert = words.contains("convert");
  options.fall_back = !words.contains("strict");
  const auto loaded = checkpoints.load(state, options);
  const bool big = number(words, "mib", 0) != 0;
  std::string bad = wrong(big ? big_tensors(number(words, "mib", 0)) : kModel, state.model, loaded.step);
  if (bad.empty() && !big) bad = wrong(kOptimizer, state.optimizer, loaded.step);
  return bad.empty() ? fmt::format("loaded {} {} of {} skipped {}", loaded.step, loaded.extra, loaded.world_size,
                                   fmt::join(loaded.skipped, " | "))
                     : fmt::format("wrong values of {}", bad);
}

// Each folder of the folder, and one that does not exist: what latest(), latest_undamaged() and load() say of it.
void load_each(dtrain::Session& session, const std::string& folder, const Words& words) {
  std::set<std::string> names{"none"};
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  for (const std::string& name : names) {
    dtrain::Checkpoints checkpoints(session.world(), folder + "/" + name);
    const auto tell = [&](const char* what, const std::function<std::string()>& call) {
      std::string said;
      try {
        said = call();
      } catch (const dtrain::CheckpointError& error) {
        said = error.what();
      }
      report(session, fmt::format("{} {}: {}", name, what, said));
    };
    tell("latest", [&] { return std::to_string(checkpoints.latest().value_or(-1)); });
    tell("undamaged", [&] { return std::to_string(checkpoints.latest_undamaged().value_or(-1)); });
    tell("load", [&] { return load(session, checkpoints, words); });
  }
}

void save_many(dtrain::Session& session, dtrain::Checkpoints& checkpoints, Words words) {
  const bool async = words.contains("async");
  for (std::int64_t step = number(words, "step", 1); step < number(words, "until", 1'000'000); ++step) {
    words["step"] = std::to_string(step);
    const auto state = state_of(session, words, true);
    if (async)
      checkpoints.save_async(state);
    else
      checkpoints.save(state);
    report(session, fmt::format("saved {}", step));
  }
  checkpoints.wait();
}

// The values may change as soon as save_async() has returned.
void save_and_change(dtrain::Session& session, dtrain::Checkpoints& checkpoints, const Words& words) {
  auto state = state_of(session, words, true);
  checkpoints.save_async(state);
  for (auto& piece : state.model)
    if (piece.values.defined()) piece.values.zero_();
  while (!checkpoints.poll()) {
  }
  report(session, fmt::format("polled {}", checkpoints.latest().value_or(-1)));
}

void load_plain(dtrain::Session& session, const std::string& path, const Words& words) {
  auto model = pieces(kModel, session, words, 5, false);
  dtrain::load_safetensors(session.world(), path, model);
  const std::string bad = wrong(kModel, model, 5);
  report(session, bad.empty() ? "loaded" : "wrong values of " + bad);
}

void carry_out(dtrain::Session& session, const std::string& command, const std::string& folder, const Words& words) {
  dtrain::CheckpointOptions options;
  options.keep_last = static_cast<int>(number(words, "keep", 0));
  options.max_file_bytes = number(words, "most", 0);
  dtrain::Checkpoints checkpoints(session.world(), folder, options);
  if (command == "save") {
    auto state = state_of(session, words, true);
    const bool odd = session.rank() == session.world_size() - 1;
    if (words.contains("hole") && odd) state.model[0].values = state.model[0].values.narrow(0, 1, 5);
    if (words.contains("differ") && odd) state.model[0].name = "another";
    if (words.contains("fp8")) state.model[0].dtype = at::kFloat8_e4m3fn;
    checkpoints.save(state);
    report(session, fmt::format("saved {}", checkpoints.latest().value_or(-1)));
  } else if (command == "load") {
    report(session, load(session, checkpoints, words));
  } else if (command == "load-each") {
    load_each(session, folder, words);
  } else if (command == "save-many") {
    save_many(session, checkpoints, words);
  } else if (command == "save-and-change") {
    save_and_change(session, checkpoints, words);
  } else if (command == "load-plain") {
    load_plain(session, folder, words);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto session = dtrain::init();
  Words words;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t middle = std::min(word.find('='), word.size());
    words[word.substr(0, middle)] = middle == word.size() ? "" : word.substr(middle + 1);
  }
  int code = 0;
  try {
    carry_out(session, argv[1], argv[2], words);
  } catch (const dtrain::CheckpointError& error) {
    report(session, error.what());
    code = 3;
  }
  session.shutdown();  // the group goes on working after such an error
  return code;
}
