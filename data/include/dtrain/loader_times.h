#pragma once
// Where a loader's time has gone: whether training waits for data, and for which part of the reading.
#include <cstdint>

namespace dtrain {

struct LoaderTimes {
  std::int64_t batches = 0;  // that next() has returned
  double seconds = 0;        // from the return of one batch to that of the next; the first one is not counted
  double waited = 0;         // of these: in next()

  // The thread that reads, in seconds.
  double disk = 0;    // reading bytes of the files, from the disk or from the kernel's memory
  double decode = 0;  // making columns of them
  double copy = 0;    // shuffling rows, and writing batches
  double ahead = 0;   // waiting, because `prefetch` batches are ready

  LoaderTimes& operator+=(const LoaderTimes& more) {
    batches += more.batches;
    seconds += more.seconds;
    waited += more.waited;
    disk += more.disk;
    decode += more.decode;
    copy += more.copy;
    ahead += more.ahead;
    return *this;
  }
};

}  // namespace dtrain
