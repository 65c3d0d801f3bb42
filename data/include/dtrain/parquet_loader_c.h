#pragma once
/* ParquetLoader for C, and for all languages that can call it: libdtrain_data.so. Batches are tensors of DLPack, whose
   memory the caller takes over, so no value is copied. parquet_loader.h says what a loader does; dtrain.ParquetLoader
   is it in Python.

     dtrain_parquet_loader* loader;
     if (dtrain_parquet_loader_open("{\"paths\": [\"clicks/\"], \"batch_size\": 1024}", &loader) != DTRAIN_DATA_OK)
       fail(dtrain_data_error());
     DLManagedTensor** tensors = calloc(dtrain_parquet_loader_tensors(loader), sizeof *tensors);
     dtrain_batch_rows rows;
     while ((status = dtrain_parquet_loader_next(loader, -1, tensors, &rows)) == DTRAIN_DATA_OK) ...
     dtrain_parquet_loader_close(loader);

   One thread at a time may use a loader. A loader does not survive fork(). */
#include <stddef.h>
#include <stdint.h>

#define DTRAIN_DATA_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor; /* of dlpack.h */
typedef struct dtrain_parquet_loader dtrain_parquet_loader;

enum {
  DTRAIN_DATA_OK = 0,
  DTRAIN_DATA_END = 1,          /* the epoch is over; the next batch is of the next one */
  DTRAIN_DATA_WAITING = 2,      /* no batch was ready in time */
  DTRAIN_DATA_CONFIG_ERROR = 3, /* ConfigError: an option or a state makes no sense */
  DTRAIN_DATA_DATA_ERROR = 4,   /* DataError: a file cannot be read, or is not what it should be */
  DTRAIN_DATA_OTHER_ERROR = 5   /* for example no memory */
};

typedef struct {
  int64_t rows, repeated, global_rows; /* LoadedBatch's */
} dtrain_batch_rows;

/* One line about the last error of this thread. It is valid until the thread's next call. */
DTRAIN_DATA_API const char* dtrain_data_error(void);

/* `options`: a JSON object whose keys are the names of ParquetLoaderOptions' members, without pin_memory.
   window_size_bytes is a number, null for all rows at once, or "auto". What it does not name is from_environment()'s.
   */
DTRAIN_DATA_API int dtrain_parquet_loader_open(const char* options, dtrain_parquet_loader** loader);
/* Where the memory of batches comes from, for example if it is to be page-locked. Both are called by any thread, those
   of the library included, and at the same time. They must work until the loader has been closed and the last of its
   tensors freed. */
typedef struct {
  void* (*allocate)(void* context, size_t bytes); /* aligned as malloc()'s. NULL: there is none, and next() fails */
  void (*deallocate)(void* context, void* memory);
  void* context;
} dtrain_data_allocator;
/* The same with an allocator, which is copied. NULL: the library's own. */
DTRAIN_DATA_API int dtrain_parquet_loader_open_in(const char* options, const dtrain_data_allocator* allocator,
                                                  dtrain_parquet_loader** loader);
/* Ends the thread that reads. Tensors stay. NULL does nothing. */
DTRAIN_DATA_API void dtrain_parquet_loader_close(dtrain_parquet_loader* loader);

/* How many tensors a batch has, and their names, which are the loader's. */
DTRAIN_DATA_API size_t dtrain_parquet_loader_tensors(const dtrain_parquet_loader* loader);
DTRAIN_DATA_API const char* dtrain_parquet_loader_tensor_name(const dtrain_parquet_loader* loader, size_t number);

/* With DTRAIN_DATA_OK the tensors of the next batch are the caller's, who calls the deleter of each. Otherwise there
   are none. Waits for `timeout_ms` at most; less than 0: for as long as it takes. */
DTRAIN_DATA_API int dtrain_parquet_loader_next(dtrain_parquet_loader* loader, int64_t timeout_ms,
                                               struct DLManagedTensor** tensors, dtrain_batch_rows* rows);

/* The members of ParquetLoader with these names. */
DTRAIN_DATA_API uint64_t dtrain_parquet_loader_epoch(const dtrain_parquet_loader* loader);
DTRAIN_DATA_API void dtrain_parquet_loader_set_epoch(dtrain_parquet_loader* loader, uint64_t epoch);
DTRAIN_DATA_API int64_t dtrain_parquet_loader_rows(const dtrain_parquet_loader* loader);
DTRAIN_DATA_API int64_t dtrain_parquet_loader_batches(const dtrain_parquet_loader* loader);
typedef struct {
  int64_t batches;
  double seconds, waited, disk, decode, copy, ahead; /* LoaderTimes' */
} dtrain_loader_times;
DTRAIN_DATA_API void dtrain_parquet_loader_times(const dtrain_parquet_loader* loader, dtrain_loader_times* times);
/* A text of at most 100 bytes, and a 0 behind it. */
enum { DTRAIN_DATA_STATE_SIZE = 101 };
DTRAIN_DATA_API int dtrain_parquet_loader_state(const dtrain_parquet_loader* loader, char text[DTRAIN_DATA_STATE_SIZE]);
DTRAIN_DATA_API int dtrain_parquet_loader_load_state(dtrain_parquet_loader* loader, const char* text);

#ifdef __cplusplus
}
#endif
