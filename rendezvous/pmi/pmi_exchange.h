#pragma once
// What the processes that an MPI launcher has started can tell each other by it: values by name, once, and a fence.
// Over PMI-1, or over PMIx, whose client library is loaded. Calls block as long as other processes do not come, so a
// process with a deadline makes them in a child. One thread.
#include <map>
#include <memory>
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain {

class PmiExchange {
 public:
  struct Facts {
    std::string job{};  // its name among those of the launcher
    int rank = 0, size = 1;
    int local_rank = 0, local_size = 1;  // on this host
    std::string host{};                  // as the launcher calls it
    bool bound = false;                  // to CPUs, by the launcher's own choice, as far as it says so here
  };

  virtual ~PmiExchange() = default;
  const Facts& facts() const { return facts_; }
  // Values have no blanks and are below 1024 bytes.
  virtual Result<void> put(const std::string& name, const std::string& value) = 0;
  // All processes of the job must call.
  virtual Result<void> fence() = 0;
  // What that process has put before the last fence.
  virtual Result<std::string> get(int rank, const std::string& name) = 0;
  // Before the process ends; the launcher takes it for a failure else.
  virtual Result<void> finish() = 0;

 protected:
  Facts facts_;
};

using PmiVariables = std::map<std::string, std::string>;

// By the launcher's variables (launcher/engines/mpi_plan.h knows whether they are there).
Result<std::unique_ptr<PmiExchange>> exchange_by_pmi1(const PmiVariables& env);
Result<std::unique_ptr<PmiExchange>> exchange_by_pmix();
// Whether PMIx's library can be loaded here.
Result<void> find_pmix();

}  // namespace dtrain
