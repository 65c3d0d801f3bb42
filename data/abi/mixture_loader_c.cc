// The C interface to MixtureBatches; see include/dtrain/mixture_loader_c.h.
#include "dtrain/mixture_loader_c.h"

#include <string>
#include <utility>
#include <vector>

#include "data/abi/abi_calls.h"
#include "data/mixture/mixture_batches.h"
#include "data/options/mixture_json.h"

struct dtrain_mixture_loader {
  dtrain::data::MixtureBatches loader;
  std::string state = {};
};

namespace {

template <typename Call>
int mixture_status(const Call& call) {
  return dtrain::data::status_of("MixtureLoader", call);
}

}  // namespace

int dtrain_mixture_loader_open(const char* options, dtrain_mixture_loader** loader) {
  return dtrain_mixture_loader_open_in(options, nullptr, loader);
}

int dtrain_mixture_loader_open_in(const char* options, const dtrain_data_allocator* allocator,
                                  dtrain_mixture_loader** loader) {
  return mixture_status([&] {
    auto all = dtrain::MixtureLoaderOptions::from_environment();
    dtrain::data::set_options("MixtureLoader", options, all);
    *loader =
        new dtrain_mixture_loader{dtrain::data::MixtureBatches(std::move(all), dtrain::data::allocator_of(allocator))};
    return DTRAIN_DATA_OK;
  });
}

void dtrain_mixture_loader_close(dtrain_mixture_loader* loader) { delete loader; }

size_t dtrain_mixture_loader_tensors(const dtrain_mixture_loader* loader) { return loader->loader.names().size(); }

const char* dtrain_mixture_loader_tensor_name(const dtrain_mixture_loader* loader, size_t number) {
  return loader->loader.names()[number].c_str();
}

int dtrain_mixture_loader_next(dtrain_mixture_loader* loader, int64_t timeout_ms, DLManagedTensor** tensors,
                               dtrain_batch_rows* rows) {
  return mixture_status([&] { return dtrain::data::next_batch(loader->loader, timeout_ms, tensors, rows); });
}

int dtrain_mixture_loader_set_weights(dtrain_mixture_loader* loader, const double* weights, size_t count) {
  return mixture_status([&] {
    loader->loader.set_weights(std::vector<double>(weights, weights + count));
    return DTRAIN_DATA_OK;
  });
}

size_t dtrain_mixture_loader_sources(const dtrain_mixture_loader* loader) { return loader->loader.sources(); }

void dtrain_mixture_loader_source(const dtrain_mixture_loader* loader, size_t number, dtrain_mixture_source* source) {
  const dtrain::data::MixtureBatches& of = loader->loader;
  *source = {of.name(number).c_str(), of.weight(number), of.rows(number), of.taken(number)};
}

uint64_t dtrain_mixture_loader_epoch(const dtrain_mixture_loader* loader) { return loader->loader.epoch(); }

int dtrain_mixture_loader_set_epoch(dtrain_mixture_loader* loader, uint64_t epoch) {
  return mixture_status([&] {
    loader->loader.set_epoch(epoch);
    return DTRAIN_DATA_OK;
  });
}

void dtrain_mixture_loader_times(const dtrain_mixture_loader* loader, dtrain_loader_times* times) {
  *times = dtrain::data::times_of(loader->loader.times());
}

const char* dtrain_mixture_loader_state(dtrain_mixture_loader* loader) {
  const int status = mixture_status([&] {
    loader->state = loader->loader.state();
    return DTRAIN_DATA_OK;
  });
  return status == DTRAIN_DATA_OK ? loader->state.c_str() : nullptr;
}

int dtrain_mixture_loader_load_state(dtrain_mixture_loader* loader, const char* text) {
  return mixture_status([&] {
    loader->loader.load_state(text);
    return DTRAIN_DATA_OK;
  });
}
