#pragma once
// Several processes that write whole lines to one console take turns, so that no line of one is within a line of
// another: a pipe takes up to 4096 bytes at once, and more only piece by piece. A line of more than 64 KiB is passed on
// in pieces (LineSplitter), each in a turn of its own. A process that dies gives its turn back, and the next one ends
// its line.
// Tested by test/process/launcher/replicas_test.py.
#include <pthread.h>

#include <chrono>

#include "rendezvous/base/result.h"

namespace dtrain::launcher {

class ConsoleTurns {
 public:
  // For this process and those that it forks from now on. Lives as long as they do. `one_file`: stdout and stderr are.
  static Result<ConsoleTurns*> make(bool one_file);

  // From here on this thread writes there, until the end of the object. `turns` null: there is nobody else.
  class Turn {
   public:
    Turn(ConsoleTurns* turns, int fd);
    // Waits no longer than that: whoever has the turn may be stuck, and then a line may be torn.
    Turn(ConsoleTurns& turns, int fd, std::chrono::seconds patience);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    pthread_mutex_t* mutex_ = nullptr;
  };

 private:
  ConsoleTurns() = default;

  pthread_mutex_t* of(int fd);

  pthread_mutex_t out_, err_;
  bool one_file_ = false;
};

}  // namespace dtrain::launcher
