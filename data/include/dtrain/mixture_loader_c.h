#pragma once
/* MixtureLoader for C, and for all languages that can call it: libdtrain_data.so. mixture_loader.h says what it does;
   dtrain.MixtureLoader is it in Python. Its functions work as those with the same names in parquet_loader_c.h, which
   has the statuses and dtrain_data_error(). */
#include "dtrain/parquet_loader_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dtrain_mixture_loader dtrain_mixture_loader;

/* `options`: a JSON object whose keys are the names of MixtureLoaderOptions' members. `sources` is an array of objects
   with the names of MixtureSource's members, `epoch_ends` is "first", "all" or "never", and a window_size_bytes is a
   number or null for all rows at once. What it does not name is from_environment()'s. */
DTRAIN_DATA_API int dtrain_mixture_loader_open(const char* options, dtrain_mixture_loader** loader);
DTRAIN_DATA_API int dtrain_mixture_loader_open_in(const char* options, const dtrain_data_allocator* allocator,
                                                  dtrain_mixture_loader** loader);
DTRAIN_DATA_API void dtrain_mixture_loader_close(dtrain_mixture_loader* loader);

DTRAIN_DATA_API size_t dtrain_mixture_loader_tensors(const dtrain_mixture_loader* loader);
DTRAIN_DATA_API const char* dtrain_mixture_loader_tensor_name(const dtrain_mixture_loader* loader, size_t number);
DTRAIN_DATA_API int dtrain_mixture_loader_next(dtrain_mixture_loader* loader, int64_t timeout_ms,
                                               struct DLManagedTensor** tensors, dtrain_batch_rows* rows);

/* A weight for each source, in the order of the options. */
DTRAIN_DATA_API int dtrain_mixture_loader_set_weights(dtrain_mixture_loader* loader, const double* weights,
                                                      size_t count);
typedef struct {
  const char* name; /* the loader's */
  double weight;
  int64_t rows, taken; /* MixtureSourceInfo's */
} dtrain_mixture_source;
DTRAIN_DATA_API size_t dtrain_mixture_loader_sources(const dtrain_mixture_loader* loader);
DTRAIN_DATA_API void dtrain_mixture_loader_source(const dtrain_mixture_loader* loader, size_t number,
                                                  dtrain_mixture_source* source);

DTRAIN_DATA_API uint64_t dtrain_mixture_loader_epoch(const dtrain_mixture_loader* loader);
DTRAIN_DATA_API int dtrain_mixture_loader_set_epoch(dtrain_mixture_loader* loader, uint64_t epoch);
DTRAIN_DATA_API void dtrain_mixture_loader_times(const dtrain_mixture_loader* loader, dtrain_loader_times* times);
/* A text that is valid until the next call of this function for the loader. NULL if there is no memory. */
DTRAIN_DATA_API const char* dtrain_mixture_loader_state(dtrain_mixture_loader* loader);
DTRAIN_DATA_API int dtrain_mixture_loader_load_state(dtrain_mixture_loader* loader, const char* text);

#ifdef __cplusplus
}
#endif
