// Runs a ParquetLoader as each line of standard input says, and answers with a line: what came, or the error. A job is
//
//   {"options": {...}, "state": TEXT, "batches": N, "epochs": N, "values": true, "break": FILE, "at": N, "wait": true,
//    "env": {...}, "memory": true}
//
// With "memory" the answer has the batches of one epoch in memory of torch's, and which of their tensors torch knows.
//
// The answer has for each epoch its batches, each with the ids of its rows and the numbers of the batch, and the state
// after it; with "values" all tensors. With "wait" it says that the loader is made, and reads another line before the
// first batch. "env": variables that are set, or taken away if they are empty. "break": 100 bytes of that file, from
// "at" on, are overwritten after each batch. With "twin" a second loader with the same options reads its epoch after
// the first batch; the answer says how many batches that had. With "fork" a child is forked after the first batch. It
// has all descriptors until the next job. With "mixture", a map of folders and weights, it is a MixtureLoader that
// takes "steps", each {"weights": {...}, "batches": N}: new weights, if there are any, and so many batches, or all to
// the end of the epoch. "ends" is "all" or "first"; "wait" is at the end of the steps. With "limits", which are
// NodeLimits, either loader takes its epochs with these, and waits for a line after "pause" batches of each.
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/loader/batch_loader.h"
#include "data/mixture/mixture_batches.h"
#include "data/torch/loaded_batch.h"
#include "data/torch/torch_memory.h"
#include "dtrain/mixture_loader.h"
#include "dtrain/parquet_loader.h"

namespace {

using Json = nlohmann::json;

// What both loaders have.
template <typename Options>
Options common_options(const Json& job) {
  Options options;
  options.columns = job.value("columns", std::vector<std::string>());
  options.matrices = job.value("matrices", options.matrices);
  options.batch_size = job.value("batch_size", std::int64_t{64});
  options.rank = job.value("rank", 0);
  options.world_size = job.value("world_size", 1);
  options.shuffle = job.value("shuffle", true);
  options.seed = job.value("seed", std::uint64_t{0});
  options.window_size_bytes = job.value("window", std::int64_t{0});
  options.fully_executed = job.value("fully_executed", false);
  options.one_reader = job.value("one_reader", true);
  options.drop_last = job.value("drop_last", false);
  options.prefetch = job.value("prefetch", 2);
  const std::string pin = job.value("pin_memory", "no");
  options.pin_memory = pin == "yes"         ? dtrain::PinMemory::yes
                       : pin == "automatic" ? dtrain::PinMemory::automatic
                                            : dtrain::PinMemory::no;
  return options;
}

dtrain::ParquetLoaderOptions options_of(const Json& job) {
  auto options = common_options<dtrain::ParquetLoaderOptions>(job);
  options.paths = job.at("paths").get<std::vector<std::string>>();
  return options;
}

dtrain::MixtureLoaderOptions mixture_of(const Json& job) {
  auto options = common_options<dtrain::MixtureLoaderOptions>(job.at("options"));
  options.epoch_ends = job.value("ends", "all") == "all" ? dtrain::MixtureEnd::all : dtrain::MixtureEnd::first;
  for (const auto& [folder, weight] : job.at("mixture").items()) {
    options.sources.push_back({.name = folder, .paths = {folder}, .weight = weight.get<double>()});
  }
  return options;
}

Json values_of(const torch::Tensor& tensor) {
  const torch::Tensor numbers = tensor.to(at::kDouble).contiguous();
  const double* begin = numbers.data_ptr<double>();
  Json shape = tensor.sizes().vec();
  return {{"type", c10::toString(tensor.scalar_type())},
          {"shape", shape},
          {"values", std::vector<double>(begin, begin + numbers.numel())}};
}

Json told(const dtrain::LoadedBatch& batch, const std::string& state, bool values) {
  Json answer{{"rows", batch.rows}, {"repeated", batch.repeated}, {"global_rows", batch.global_rows}, {"state", state}};
  if (const auto id = batch.tensors.find("id"); id != batch.tensors.end()) {
    const auto* begin = id->second.data_ptr<std::int64_t>();
    answer["ids"] = std::vector<std::int64_t>(begin, begin + id->second.numel());
  }
  if (const auto source = batch.tensors.find("mixture.source"); source != batch.tensors.end()) {
    const auto* begin = source->second.data_ptr<std::int64_t>();
    answer["sources"] = std::vector<std::int64_t>(begin, begin + source->second.numel());
  }
  for (const auto& [name, tensor] : batch.tensors) {
    if (values) answer["tensors"][name] = values_of(tensor);
  }
  return answer;
}

void overwrite(const std::string& file, std::int64_t at) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(at);
  bytes << std::string(100, '\x7f');
}

Json own_memory(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(std::string(key).size())) * 1024;
  }
  return nullptr;
}

// One that waits for its end.
pid_t fork_child() {
  const pid_t child = fork();
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) pause();
}

void end_child(pid_t& child) {
  if (child <= 0) return;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  child = 0;
}

void await_line() {
  std::cout << R"({"ready": true})" << std::endl;  // tidy: allow endl, because somebody waits for it
  std::string line;
  std::getline(std::cin, line);
}

void run_mixture(const Json& job, Json& answer) {
  dtrain::MixtureLoader loader(mixture_of(job));
  if (job.contains("state")) loader.load_state(job["state"]);
  for (const Json& step : job.at("steps")) {
    if (step.contains("weights")) loader.set_weights(step["weights"].get<std::map<std::string, double>>());
    Json& batches = answer["epochs"].emplace_back(Json::array());
    for (std::int64_t left = step.value("batches", std::int64_t{1} << 40); left > 0; --left) {
      const auto batch = loader.next();
      if (!batch) break;
      if (!job.value("quiet", false)) batches.push_back(told(*batch, loader.state(), job.value("values", false)));
    }
  }
  answer["state"] = loader.state();
  answer["epoch"] = loader.epoch();
  if (job.value("wait", false)) await_line();
}

void run(const Json& job, Json& answer, pid_t& child) {
  const Json env = job.value("env", Json::object());
  for (const auto& [name, value] : env.items()) {
    const auto text = value.get<std::string>();
    text.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), text.c_str(), 1);
  }
  const Json before = own_memory("VmRSS:");
  std::int64_t most = 0;
  std::chrono::steady_clock::time_point end;
  {
    dtrain::ParquetLoader loader(options_of(job.at("options")));
    answer["loader"] = {{"rows", loader.rows()}, {"batches", loader.batches()}};
    if (job.value("wait", false)) await_line();
    if (job.contains("state")) loader.load_state(job["state"]);
    std::optional<dtrain::ParquetLoader> twin;
    if (job.value("twin", false)) twin.emplace(options_of(job.at("options")));
    std::int64_t left = job.value("batches", std::int64_t{1} << 40);
    for (int epoch = 0; epoch < job.value("epochs", 1) && left > 0; ++epoch) {
      Json& batches = answer["epochs"].emplace_back(Json::array());
      for (; left > 0; --left) {
        const auto batch = loader.next();
        if (!batch) break;
        if (job.value("quiet", false)) {
          most = std::max(most, own_memory("VmRSS:").get<std::int64_t>());
        } else {
          batches.push_back(told(*batch, loader.state(), job.value("values", false)));
        }
        if (twin && !answer.contains("twin")) {
          std::int64_t count = 0;
          while (twin->next()) ++count;
          answer["twin"] = count;
        }
        if (job.value("fork", false) && child <= 0) child = fork_child();
        if (job.contains("break")) overwrite(job["break"], job.at("at"));
      }
    }
    answer["state"] = loader.state();
    answer["epoch"] = loader.epoch();
    end = std::chrono::steady_clock::now();
  }
  answer["end_s"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - end).count();
  answer["memory"] = most - before.get<std::int64_t>();
}

// In torch's memory that is not page-locked, for which no GPU is needed.
void run_in_memory_of_torch(const Json& job, Json& answer) {
  dtrain::data::BatchLoader loader(options_of(job.at("options")),
                                   dtrain::data::torch_allocator("ParquetLoader", at::dtype(at::kByte)));
  const auto of_torch = at::empty({1}).storage().data_ptr().get_deleter();
  while (auto host = loader.next()) {
    const auto batch = dtrain::data::loaded_batch(std::move(*host), loader.names());
    Json& told_now = answer["batches"].emplace_back(told(batch, loader.state(), true));
    for (const auto& [name, tensor] : batch.tensors) {
      told_now["of_torch"][name] = tensor.storage().data_ptr().get_deleter() == of_torch;
    }
  }
}

// By the layer below torch: programs cannot set limits.
template <typename Loader, typename Options>
void run_limited(const Options& options, const Json& job, Json& answer) {
  const Json& given = job.at("limits");
  dtrain::data::NodeLimits limits;
  limits.reader = std::chrono::seconds(given.value("reader", limits.reader.count()));
  limits.tails_min = given.value("tails_min", limits.tails_min);
  Loader loader(options, dtrain::data::new_block, limits);
  for (int epoch = 0; epoch < job.value("epochs", 1); ++epoch) {
    Json& batches = answer["epochs"].emplace_back(Json::array());
    while (auto host = loader.next()) {
      const auto batch = dtrain::data::loaded_batch(std::move(*host), loader.names());
      batches.push_back(told(batch, loader.state(), job.value("values", false)));
      if (batches.size() == job.value("pause", std::size_t{0})) await_line();
    }
  }
  answer["state"] = loader.state();
  answer["epoch"] = loader.epoch();
}

void run_job(const Json& job, Json& answer, pid_t& child) {
  if (job.value("memory", false)) {
    run_in_memory_of_torch(job, answer);
  } else if (job.contains("limits") && job.contains("mixture")) {
    run_limited<dtrain::data::MixtureBatches>(mixture_of(job), job, answer);
  } else if (job.contains("limits")) {
    run_limited<dtrain::data::BatchLoader>(options_of(job.at("options")), job, answer);
  } else if (job.contains("mixture")) {
    run_mixture(job, answer);
  } else {
    run(job, answer, child);
  }
}

}  // namespace

int main() {
  at::empty({1});
  pid_t child = 0;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    end_child(child);
    try {
      run_job(Json::parse(line), answer, child);
    } catch (const dtrain::ConfigError& error) {
      answer["config_error"] = error.what();
    } catch (const dtrain::DataError& error) {
      answer["data_error"] = error.what();
    }
    std::cout << answer.dump() << std::endl;  // tidy: allow endl, because the answer must be there before the next line
  }
  end_child(child);
}
