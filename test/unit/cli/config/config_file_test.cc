// What each key of a config says of the job, and what is refused.
#include "cli/config/config_file.h"

#include "cli/config/config_keys.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;
using Catch::Contains;

namespace {

ConfigFile config(const std::string& text) {
  auto read = read_config(text, "job.yaml");
  INFO((read ? "" : read.error().message));
  REQUIRE(read.ok());
  return *read;
}

std::string refused_config(const std::string& text) {
  const auto read = read_config(text, "job.yaml");
  return read ? "fine" : read.error().message;
}

std::string value_of(const ConfigFile& file, FlagId id) {
  const auto& value = file.values[static_cast<std::size_t>(id)];
  if (!value) return "<none>";
  CHECK(value->origin == Origin::file);
  return value->text;
}

std::string value_in(const std::string& text, FlagId id) { return value_of(config(text), id); }

}  // namespace

TEST_CASE("flags have their names in a config, with - or _") {
  struct Row {
    const char* text;
    FlagId id;
    const char* value;
  };
  const Row row = GENERATE(
      Row{"nproc: 4", FlagId::nproc, "4"}, Row{"nproc-per-node: gpu", FlagId::nproc, "gpu"},
      Row{"nproc_per_node: 'auto'", FlagId::nproc, "auto"}, Row{"max_restarts: 3", FlagId::max_restarts, "3"},
      Row{"nnodes: 2:4", FlagId::nnodes, "2:4"}, Row{"quiet: true", FlagId::quiet, "1"},
      Row{"quiet: off", FlagId::quiet, "<none>"}, Row{"quiet: ~", FlagId::quiet, "<none>"},
      Row{"hosts: [a:2, 'b[1-2]:4']", FlagId::hosts, "a:2,b[1-2]:4"}, Row{"hosts: a,b", FlagId::hosts, "a,b"},
      Row{"resources-per-worker: {CPU: 2, GPU: 1}", FlagId::resources, "CPU=2,GPU=1"},
      Row{"rdzv_conf: {timeout: 9}", FlagId::rdzv_conf, "timeout=9"},
      Row{"ship-files: ['a,b', c]", FlagId::ship_files, "a,,b,c"},
      Row{"pass_signals: [USR1, USR2]", FlagId::pass_signals, "USR1,USR2"}, Row{"tee: 3", FlagId::tee, "3"},
      Row{"tee: ['0:3', '1:2']", FlagId::tee, "0:3,1:2"}, Row{"use_gpu: true", FlagId::use_gpu, "yes"},
      Row{"use-gpu: no", FlagId::use_gpu, "no"}, Row{"use_gpu: auto", FlagId::use_gpu, "auto"},
      Row{"strategy: ddp", FlagId::strategy, "ddp"},
      Row{"strategy: {type: fsdp, prefetch: 2}", FlagId::strategy, R"({"type":"fsdp","prefetch":2})"},
      Row{"local_mode: true", FlagId::engine, "local"}, Row{"local_mode: false", FlagId::engine, "<none>"},
      Row{"backend: ray", FlagId::engine, "ray"}, Row{"backend: {type: horovod}", FlagId::engine, "auto"},
      Row{"backend: {trainer: {logdir: /logs}}", FlagId::log_dir, "/logs"},
      Row{"backend: {trainer: {max_retries: 3}}", FlagId::max_restarts, "3"},
      Row{"backend: {trainer: {resources-per-worker: {CPU: 2}}}", FlagId::resources, "CPU=2"},
      Row{"backend: {trainer: {strategy: fsdp}}", FlagId::strategy, "fsdp"},
      Row{"backend: {trainer: {strategy: deepspeed}}", FlagId::strategy, R"({"trainer":{"strategy":"deepspeed"}})"},
      Row{"backend: {trainer: {strategy: {type: fsdp}}}", FlagId::strategy,
          R"({"trainer":{"strategy":{"type":"fsdp"}}})"},
      Row{"backend: {trainer: {use_gpu: true}}", FlagId::use_gpu, "yes"},
      // Where nobody says how many workers there are, the nodes do.
      Row{"backend: {trainer: {use_gpu: true}}", FlagId::num_proc, "auto"},
      Row{"backend: ray", FlagId::num_proc, "auto"},
      Row{"backend: {trainer: {num_workers: auto}}", FlagId::num_proc, "auto"},
      Row{"backend: {trainer: {num_workers: 2}}", FlagId::num_proc, "2"},
      Row{"backend: ray\nnproc: 2", FlagId::num_proc, "<none>"},
      Row{"backend: {}\nuse_gpu: true", FlagId::num_proc, "<none>"});
  INFO(row.text);
  CHECK(value_in(row.text, row.id) == row.value);
}

TEST_CASE("each type of a backend is an engine, and horovod is that of MPI or none") {
  for (const char* type : {"auto", "local", "slurm", "ray", "spark", "mpi", "ssh"})
    CHECK(value_in(std::string("backend: {type: ") + type + "}", FlagId::engine) == type);
  CHECK(value_in("backend: {type: ~}", FlagId::engine) == "<none>");
}

TEST_CASE("the blocks of Ludwig's page are carried out, or refused by name") {
  CHECK_THAT(refused_config("backend:\n  type: ray\n  cache_dir: s3://my_bucket/cache\n"
                            "  cache_credentials: /home/user/.credentials.json\n  processor:\n    type: dask\n"
                            "  trainer:\n    strategy: horovod\n  loader: {}\n"),
             Contains("job.yaml:8: backend.trainer.strategy: horovod is the program's choice"));
  for (const char* processor : {"dask\n    parallelism: 100\n    persist: true\n", "modin\n"}) {
    const auto file = config(std::string("backend:\n  type: ray\n  processor:\n    type: ") + processor);
    REQUIRE(file.notes.size() == 1);
    CHECK_THAT(file.notes[0], Contains("no effect: job.yaml:4: backend.processor.type is for a section `dataset`"));
  }
  CHECK_THAT(refused_config("backend:\n  type: ray\n  trainer:\n    strategy: horovod\n    use_gpu: true\n"
                            "    num_workers: 4\n    resources_per_worker:\n        CPU: 2\n        GPU: 1\n"),
             Contains("job.yaml:4: backend.trainer.strategy: horovod is the program's choice"));
  CHECK(value_of(config("backend:\n  type: ray\n  loader:\n    fully_executed: false\n"
                        "    window_size_bytes: 500000000\n"),
                 FlagId::loader) == R"({"fully_executed":false,"window_size_bytes":500000000})");
  for (const char* strategy : {"ddp", "fsdp"}) {
    const auto file = config(std::string("backend:\n  type: ray\n  trainer:\n    strategy: ") + strategy + "\n");
    CHECK(value_of(file, FlagId::strategy) == strategy);
    CHECK(value_of(file, FlagId::engine) == "ray");
    CHECK(file.notes.empty());
  }
  const auto file = config(
      "backend:\n  type: ray\n  loader: {}\n  processor: ~\n  trainer:\n    use_gpu: true\n"
      "    num_workers: 4\n    resources_per_worker:\n        CPU: 2\n        GPU: 1\n");
  CHECK(value_of(file, FlagId::resources) == "CPU=2,GPU=1");
  CHECK(value_of(file, FlagId::num_proc) == "4");
  CHECK(file.values[static_cast<std::size_t>(FlagId::num_proc)]->where == "job.yaml:7: backend.trainer.num_workers");
}

TEST_CASE("the loader has two keys") {
  const auto loader = [](const std::string& keys) {
    return value_of(config("backend: {loader: " + keys + "}"), FlagId::loader);
  };
  CHECK(loader("{window-size-bytes: auto}") == R"({"window_size_bytes":"auto"})");
  CHECK(loader("{window_size_bytes: ~, fully_executed: yes}") == R"({"fully_executed":true,"window_size_bytes":null})");
  CHECK_FALSE(config("backend: {loader: {}}").values[static_cast<std::size_t>(FlagId::loader)]);
  CHECK_FALSE(config("backend: {loader: {fully_executed: ~}}").values[static_cast<std::size_t>(FlagId::loader)]);
  CHECK(loader("{window_size_bytes: 1, fully_executed: {}}") == R"({"window_size_bytes":1})");
  const auto why = [](const std::string& keys) { return refused_config("backend:\n  loader:\n    " + keys + "\n"); };
  CHECK(why("window_size_bytes: 0") ==
        "job.yaml:3: backend.loader.window_size_bytes: expected a number of bytes from 1, null or auto");
  CHECK(why("fully_executed: 1") == "job.yaml:3: backend.loader.fully_executed: expected true or false");
  CHECK(why("window_size: 1") ==
        "job.yaml:3: backend.loader.window_size: unknown key; did you mean window_size_bytes?");
  CHECK(why("{window_size_bytes: 1, window-size-bytes: 2}") ==
        "job.yaml:3: backend.loader.window-size-bytes: window_size_bytes is there twice");
  CHECK(refused_config("backend: {loader: 5}") == "job.yaml:1: backend.loader: expected a map of keys");
}

TEST_CASE("what a secret's key has is in no error") {
  CHECK_THAT(refused_config("backend:\n  cache_credentials: {a: hunter2, a: hunter2}\n"), !Contains("hunter2"));
  CHECK_THAT(refused_config("backend:\n  cache_credentials: {a: 'hunter2}\n"), !Contains("hunter2"));
}

TEST_CASE("Ludwig's other sections are named once, and only stand beside backend") {
  const auto file = config("input_features: [{name: x}]\nbackend: {type: local}\ntrainer: {epochs: 3}\n");
  REQUIRE(file.notes.size() == 1);
  CHECK(file.notes[0] ==
        "job.yaml: dtrain reads `backend`, and leaves these sections of Ludwig's to the program: "
        "input_features, trainer");
  for (const std::string_view section : ludwig_sections()) {
    const std::string entry = std::string(section) + ": 1\n";
    CHECK(config("backend: {}\n" + entry).notes.size() == 1);
    CHECK_THAT(refused_config(entry), Contains("may only stand beside `backend`"));
  }
}

TEST_CASE("an unknown key is refused with the nearest one") {
  CHECK(refused_config("nprox: 2\n") == "job.yaml:1: nprox: unknown key; did you mean nproc?");
  CHECK(refused_config("restarts: 2\n") == "job.yaml:1: restarts: unknown key; did you mean max-restarts?");
  CHECK(refused_config("backnd: ray\n") == "job.yaml:1: backnd: unknown key; did you mean backend?");
  CHECK(refused_config("backend:\n  typ: ray\n") == "job.yaml:2: backend.typ: unknown key; did you mean type?");
  CHECK(refused_config("backend: {trainer: {num_worker: 1}}\n") ==
        "job.yaml:1: backend.trainer.num_worker: unknown key; did you mean num_workers?");
  CHECK(refused_config("backend: {trainer: {zzz: 1}}\n") ==
        "job.yaml:1: backend.trainer.zzz: unknown key; the keys here are strategy, use_gpu, num_workers, "
        "resources_per_worker, logdir, max_retries");
  CHECK(refused_config("type: ray\n") == "job.yaml:1: type: unknown key; did you mean backend.type?");
  CHECK_THAT(refused_config("zzzzzz: 1\n"), Contains("unknown key; keys are the flags that"));
  CHECK_THAT(refused_config("x: &x {}\n<<: *x\n"), Contains("job.yaml:1: x: unknown key"));
  CHECK_THAT(refused_config("<<: {nproc: 2}\n"), Contains("job.yaml:1: <<: dtrain merges no keys; write them out"));
  CHECK(refused_config("- nproc\n") == "job.yaml: expected keys with values, such as nproc: 2");
  CHECK(refused_config("") == "job.yaml: expected keys with values, such as nproc: 2");
}

TEST_CASE("configs of others belong to --strategy") {
  CHECK(refused_config(R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}})") ==
        "job.yaml: this is a config of DeepSpeed, which says how workers share a model: give it, as JSON, to "
        "--strategy");
  CHECK_THAT(refused_config("distributed_type: FSDP\nfsdp_config: {}\n"), Contains("a config of Accelerate"));
}

TEST_CASE("what is only for the command line is refused") {
  for (const char* key : {"config: x", "dry-run: true", "help: true", "version: true", "print_config: json",
                          "print-completion: bash", "insecure: true"})
    CHECK_THAT(refused_config(key), Contains("this is only for the command line; remove the key, and type --"));
}

TEST_CASE("a value of the wrong kind is refused, and not shown") {
  CHECK(refused_config("quiet: 2") == "job.yaml:1: quiet: expected true or false");
  CHECK(refused_config("quiet: 'true'") == "job.yaml:1: quiet: expected true or false");
  CHECK(refused_config("nproc: [2]") == "job.yaml:1: nproc: expected one word or number");
  CHECK(refused_config("nproc: {a: 2}") == "job.yaml:1: nproc: expected one word or number");
  CHECK(refused_config("hosts: {a: 2}") == "job.yaml:1: hosts: expected a word or a list of words");
  CHECK(refused_config("hosts: [[a]]") == "job.yaml:1: hosts: expected a word or a list of words");
  CHECK_THAT(refused_config("rdzv-conf: [a]"), Contains("expected a word NAME=VALUE,... or a map of words"));
  CHECK(refused_config("strategy: [a]") == "job.yaml:1: strategy: expected a word or a map");
  CHECK(refused_config("backend: [ray]") == "job.yaml:1: backend: expected a map of keys");
  CHECK(refused_config("backend: {trainer: 4}") == "job.yaml:1: backend.trainer: expected a map of keys");
  CHECK(refused_config("backend: {type: [ray]}") == "job.yaml:1: backend.type: expected one word, such as local");
  CHECK_THAT(refused_config("backend: {type: rai}"), Contains("backend.type: expected one of auto, local, slurm, ray"));
  CHECK_THAT(refused_config("backend: {type: rai}"), Contains("did you mean ray?"));
  CHECK_THAT(refused_config("backend: {trainer: {num_workers: 0}}"), Contains("num_workers: expected a whole number"));
  CHECK_THAT(refused_config("num_processes: [2]"), Contains("num_processes: expected a whole number"));
  CHECK_THAT(refused_config("local_mode: 1"), Contains("local_mode: expected true or false"));
}

TEST_CASE("a key with nothing asks for nothing") {
  for (const char* nothing : {"~", "{}", "[]"})
    for (const char* key : {"nproc: ", "hosts: ", "strategy: ", "rdzv-conf: ", "num_processes: ", "local_mode: ",
                            "backend: ", "dataset: "}) {
      INFO(key << nothing);
      const ConfigFile file = config(std::string(key) + nothing);
      CHECK(std::none_of(file.values.begin(), file.values.end(), [](const auto& value) { return value.has_value(); }));
      CHECK_FALSE(file.data);
    }
  CHECK(value_in("backend: {trainer: {resources_per_worker: {}, strategy: {}, use_gpu: {}}}", FlagId::resources) ==
        "<none>");
  CHECK(value_in("backend: {trainer: {resources_per_worker: {GPU: ~, CPU: 2, x: ~}}}", FlagId::resources) == "CPU=2");
}

TEST_CASE("a path that only a shell would understand is refused") {
  for (const char* key : {"log-dir: ", "hostfile: ", "backend: {trainer: {logdir: ", "backend: {cache_dir: ",
                          "backend: {cache_credentials: ", "backend: {cache_credentials: {gs: {token: ",
                          "dataset: {input: ", "dataset: {input: [a, ", "backend: {processor: {script: "}) {
    std::string text = std::string(key) + "~/x";
    for (auto open = text.find_last_of("{["); open != text.npos;
         open = open == 0 ? text.npos : text.find_last_of("{[", open - 1))
      text += text[open] == '{' ? '}' : ']';
    INFO(text);
    CHECK_THAT(refused_config(text), Contains("in a file ~ is no folder; write the whole path"));
  }
  CHECK(value_in("role: ~/x", FlagId::role) == "~/x");
  CHECK(value_in("log-dir: ./~", FlagId::log_dir) == "./~");
}

TEST_CASE("two keys that contradict each other are both named") {
  CHECK(refused_config("max-restarts: 2\nbackend:\n  trainer:\n    max_retries: 3\n") ==
        "job.yaml:4: backend.trainer.max_retries: it contradicts job.yaml:1: max-restarts; remove one of the two");
  CHECK(refused_config("max-restarts: 2\nmax_restarts: 2\n") == "fine");
  CHECK_THAT(refused_config("max-restarts: 2\nmax_restarts: 3\n"), Contains("job.yaml:1: max-restarts; remove one"));
  CHECK_THAT(refused_config("local_mode: true\nbackend: {type: ray}\n"),
             Contains("contradicts job.yaml:1: local_mode"));
  CHECK(refused_config("local_mode: false\nbackend:\n  type: local\n") ==
        "job.yaml:1: local_mode: false contradicts job.yaml:3: backend.type, which says local; remove one of the two");
  CHECK_THAT(refused_config("num_processes: 2\nbackend: {trainer: {num_workers: 4}}\n"),
             Contains("contradicts job.yaml:1: num_processes"));
  CHECK(config("local_mode: true\nengine: local\n").notes.empty());
}
