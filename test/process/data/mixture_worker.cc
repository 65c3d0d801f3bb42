// A MixtureLoader with the sources that the arguments name, each a folder and a weight, and with a window of so many
// bytes. Prints a line for each batch of two epochs, and for the first batch of epoch 7. The weights are turned round
// after the first epoch. A second loader goes on from the state after the first batch with them.
//
//   mixture_worker WINDOW FOLDER WEIGHT...
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "dtrain/mixture_loader.h"

namespace {

using Json = nlohmann::json;

std::vector<std::int64_t> numbers(const torch::Tensor& tensor) {
  const auto* begin = tensor.data_ptr<std::int64_t>();
  return {begin, begin + tensor.numel()};
}

void tell(dtrain::MixtureLoader& loader, const dtrain::LoadedBatch& batch) {
  Json told{{"sources", numbers(batch.at("mixture.source"))},
            {"ids", numbers(batch.at("id"))},
            {"state", loader.state()},
            {"epoch", loader.epoch()}};
  for (const dtrain::MixtureSourceInfo& source : loader.sources()) {
    told["of"].push_back({source.name, source.weight, source.rows, source.taken});
  }
  std::cout << told.dump() << '\n';
}

dtrain::MixtureLoaderOptions options_of(int count, char** arguments) {
  dtrain::MixtureLoaderOptions options{.epoch_ends = dtrain::MixtureEnd::all,
                                       .columns = {"id"},
                                       .batch_size = 64,
                                       .window_size_bytes = std::atoll(arguments[1])};
  for (int i = 2; i + 1 < count; i += 2) {
    const std::string folder = arguments[i];
    options.sources.push_back({.name = folder.substr(folder.rfind('/') + 1),
                               .paths = {folder},
                               .weight = std::strtod(arguments[i + 1], nullptr)});
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  const dtrain::MixtureLoaderOptions options = options_of(count, arguments);
  dtrain::MixtureLoader loader(options);
  while (const auto batch = loader.next()) tell(loader, *batch);
  std::map<std::string, double> turned;
  for (std::size_t i = 0; i < options.sources.size(); ++i) {
    turned[options.sources[i].name] = options.sources[options.sources.size() - 1 - i].weight;
  }
  loader.set_weights(turned);
  tell(loader, loader.next().value());
  dtrain::MixtureLoader after(options);
  after.load_state(loader.state());
  while (const auto batch = after.next()) tell(after, *batch);
  after.set_epoch(7);
  tell(after, after.next().value());
}
