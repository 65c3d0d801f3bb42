// PMIx by its client library, of which the few functions and types that are used are declared here: the standard keeps
// their layout (PMIx 4.1, chapter 3; it is that of version 3 and 5 too).
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "rendezvous/pmi/mpi_cards.h"
#include "rendezvous/pmi/pmi_exchange.h"

namespace dtrain {
namespace {

constexpr const char* kPmixLibrary = "libpmix.so.2";
constexpr std::uint32_t kWholeJob = UINT32_MAX - 1;  // PMIX_RANK_WILDCARD
constexpr std::uint8_t kToAll = 3;                   // PMIX_GLOBAL

enum PmixType : std::uint16_t { kBool = 1, kString = 3, kUint16 = 13, kUint32 = 14 };

struct PmixProcess {
  char job[256];
  std::uint32_t rank;
};

struct PmixValue {
  std::uint16_t type;
  union {
    bool flag;
    char* string;
    std::uint16_t uint16;
    std::uint32_t uint32;
    std::uint64_t room[4];
  };
};

struct PmixInfo {
  char key[512];
  std::uint32_t flags;
  PmixValue value;
};

Error pmix_failed(const std::string& why) { return {ErrorKind::system, "PMIx: " + why}; }

struct PmixLibrary {
  int (*init)(PmixProcess*, PmixInfo*, std::size_t) = nullptr;
  int (*put)(std::uint8_t, const char*, PmixValue*) = nullptr;
  int (*commit)() = nullptr;
  int (*fence)(const PmixProcess*, std::size_t, const PmixInfo*, std::size_t) = nullptr;
  int (*get)(const PmixProcess*, const char*, const PmixInfo*, std::size_t, PmixValue**) = nullptr;
  int (*finalize)(const PmixInfo*, std::size_t) = nullptr;
  const char* (*why)(int) = nullptr;

  // The launcher's own, if it says where that is: the wheel of Open MPI has one in a place that no linker knows.
  static void* open() {
    if (const char* prefix = std::getenv("PMIX_PREFIX"); prefix != nullptr && *prefix == '/')
      for (const char* folder : {"lib", "lib64", "lib/openmpi"})
        if (void* library =
                ::dlopen(fmt::format("{}/{}/{}", prefix, folder, kPmixLibrary).c_str(), RTLD_NOW | RTLD_LOCAL))
          return library;
    return ::dlopen(kPmixLibrary, RTLD_NOW | RTLD_LOCAL);
  }

  Result<void> load() {
    void* library = open();
    if (library == nullptr)
      return Error{ErrorKind::usage,
                   fmt::format("the processes of mpirun find each other by PMIx, and this host has no {} that can be "
                               "loaded (Debian, Ubuntu: apt install libpmix2). Install it, or say where the nodes meet "
                               "with --nnodes, --node-rank and --rdzv-endpoint",
                               kPmixLibrary)};
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    if (!find("PMIx_Init", init) || !find("PMIx_Put", put) || !find("PMIx_Commit", commit) ||
        !find("PMIx_Fence", fence) || !find("PMIx_Get", get) || !find("PMIx_Finalize", finalize) ||
        !find("PMIx_Error_string", why))
      return pmix_failed(fmt::format("{} lacks a function that dtrain needs", kPmixLibrary));
    return {};
  }
};

class PmixExchange final : public PmiExchange {
 public:
  Result<void> begin() {
    if (auto loaded = library_.load(); !loaded) return loaded;
    if (auto begun = done("PMIx_Init", library_.init(&self_, nullptr, 0)); !begun) return begun;
    facts_.job = self_.job;
    facts_.rank = static_cast<int>(self_.rank);
    const auto size = number(kWholeJob, "pmix.job.size"), local_size = number(kWholeJob, "pmix.local.size"),
               local_rank = number(self_.rank, "pmix.lrank");
    for (const auto* each : {&size, &local_size, &local_rank})
      if (!*each) return each->error();
    facts_.size = *size;
    facts_.local_size = *local_size;
    facts_.local_rank = *local_rank;
    auto host = text(self_.rank, "pmix.hname");
    if (!host) return host.error();
    facts_.host = *host;
    facts_.bound = is_own_choice(policy("pmix.bindto"), policy("pmix.mapby"));
    return {};
  }

  Result<void> put(const std::string& name, const std::string& value) override {
    // Later versions of the server let a process come twice. Others would then read what it said the first time.
    if (at_once(self_.rank, key_of(name)) != nullptr) return pmix_failed("this process has met the others before");
    PmixValue shown{.type = kString, .room = {}};
    shown.string = const_cast<char*>(value.c_str());
    return done("PMIx_Put", library_.put(kToAll, key_of(name).c_str(), &shown));
  }

  Result<void> fence() override {
    if (auto shown = done("PMIx_Commit", library_.commit()); !shown) return shown;
    const PmixInfo collect = switched_on("pmix.collect");
    return done("PMIx_Fence", library_.fence(nullptr, 0, &collect, 1));
  }

  Result<std::string> get(int rank, const std::string& name) override {
    return text(static_cast<std::uint32_t>(rank), key_of(name));
  }

  Result<void> finish() override { return done("PMIx_Finalize", library_.finalize(nullptr, 0)); }

 private:
  static std::string key_of(const std::string& name) { return "dtrain." + name; }

  Result<void> done(const char* call, int code) const {
    if (code == 0) return {};
    const char* why = library_.why(code);
    return pmix_failed(fmt::format("{}: {}", call, why != nullptr ? why : std::to_string(code)));
  }

  // The library's own, which this process keeps: it ends soon.
  Result<const PmixValue*> value(std::uint32_t rank, const std::string& key) {
    PmixProcess process = self_;
    process.rank = rank;
    PmixValue* found = nullptr;
    if (auto got = done("PMIx_Get", library_.get(&process, key.c_str(), nullptr, 0, &found)); !got) return got.error();
    return found;
  }

  // Without waiting for it; nullptr if nobody has said it yet.
  const PmixValue* at_once(std::uint32_t rank, const std::string& key) {
    PmixProcess process = self_;
    process.rank = rank;
    const PmixInfo immediate = switched_on("pmix.immediate");
    PmixValue* found = nullptr;
    return library_.get(&process, key.c_str(), &immediate, 1, &found) == 0 ? found : nullptr;
  }

  // Of the whole job; empty if the launcher does not say.
  std::string policy(const char* key) {
    const PmixValue* found = at_once(kWholeJob, key);
    return found != nullptr && found->type == kString && found->string != nullptr ? found->string : "";
  }

  static PmixInfo switched_on(std::string_view key) {
    PmixInfo info{};
    key.copy(info.key, sizeof info.key - 1);
    info.value.type = kBool;
    info.value.flag = true;
    return info;
  }

  Result<int> number(std::uint32_t rank, const std::string& key) {
    auto found = value(rank, key);
    if (!found) return found.error();
    if ((*found)->type == kUint16) return static_cast<int>((*found)->uint16);
    if ((*found)->type == kUint32) return static_cast<int>((*found)->uint32);
    return pmix_failed(fmt::format("{} is no number", key));
  }

  Result<std::string> text(std::uint32_t rank, const std::string& key) {
    auto found = value(rank, key);
    if (!found) return found.error();
    if ((*found)->type != kString || (*found)->string == nullptr) return pmix_failed(fmt::format("{} is no text", key));
    return std::string((*found)->string);
  }

  PmixLibrary library_;
  PmixProcess self_{};
};

}  // namespace

Result<void> find_pmix() { return PmixLibrary().load(); }

Result<std::unique_ptr<PmiExchange>> exchange_by_pmix() {
  auto exchange = std::make_unique<PmixExchange>();
  if (auto begun = exchange->begin(); !begun) return begun.error();
  return std::unique_ptr<PmiExchange>(std::move(exchange));
}

}  // namespace dtrain
