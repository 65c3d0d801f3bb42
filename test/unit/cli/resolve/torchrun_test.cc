// torchrun's flags that have no work to do here, and torch.distributed.launch.
#include "cli/resolve/torchrun.h"

#include "cli/resolve/resolve.h"
#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

namespace dtrain::cli {
namespace {

using Words = std::vector<std::string>;

Result<Plan> resolved(Words words, CalledAs called = CalledAs::dtrain, Host host = test_host()) {
  words.push_back("true");
  auto raw = parse(words, called);
  REQUIRE(raw.ok());
  return resolve(*raw, host);
}

Words notes(const Words& words, CalledAs called = CalledAs::dtrain, const Host& host = test_host()) {
  auto plan = resolved(words, called, host);
  INFO((plan.ok() ? "" : plan.error().message));
  REQUIRE(plan.ok());
  return plan->notes;
}

std::string torchrun_error(const Words& words, CalledAs called = CalledAs::dtrain, const Host& host = test_host()) {
  auto plan = resolved(words, called, host);
  if (plan.ok()) return "<none>";
  CHECK(plan.error().kind == ErrorKind::usage);
  CHECK(plan.error().message.find('\n') == std::string::npos);
  return plan.error().message;
}

Host host_with(const std::string& name, const std::string& value) {
  Host host = test_host();
  host.env[name] = value;
  return host;
}

}  // namespace

TEST_CASE("flags without use here are judged as torchrun judges them, and said once") {
  CHECK(notes({"--start-method=fork", "--monitor_interval", "1e-1"}) ==
        Words{"no effect: --monitor_interval, --start-method"});
  CHECK(notes({"--logs-specs=default", "--event-log-handler=null"}).empty());
  CHECK(torchrun_error({"--start-method=thread"}) == "--start-method 'thread': expected spawn, fork or forkserver");
  for (const char* bad : {"0", "-1", "", "x", "1x", "nan", "inf", "0x1", "1_"})
    CHECK(torchrun_error({std::string("--monitor-interval=") + bad}) ==
          std::string("--monitor-interval '") + bad + "': expected seconds above 0");
}

TEST_CASE("a choice that torchrun does not check in the environment is not checked there") {
  Host host = host_with("PET_START_METHOD", "thread");
  CHECK(torchrun_error({}, CalledAs::torchrun, host) == "<none>");
  CHECK(torchrun_error({}, CalledAs::dtrain, host) == "PET_START_METHOD='thread': expected spawn, fork or forkserver");
}

TEST_CASE("plugins written in Python are refused by name, with what to do instead") {
  CHECK(torchrun_error({"--logs-specs=mine"})
            .starts_with("--logs-specs 'mine': expected default: other names are plugins"));
  CHECK(torchrun_error({"--event-log-handler=mine"}).find("plugins written in Python") != std::string::npos);
  CHECK(resolved({"--event-log-handler=console"})->spec.event_log);
  CHECK_FALSE(resolved({"--event-log-handler=null"})->spec.event_log);
  CHECK_FALSE(resolved({})->spec.event_log);
  CHECK(resolved({}, CalledAs::dtrain, host_with("PET_EVENT_LOG_HANDLER", "console"))->spec.event_log);
}

TEST_CASE("launch passes the local rank as an argument, unless told not to") {
  auto argv = [](const Words& words, CalledAs called) { return resolved(words, called)->spec.argv; };
  CHECK(argv({}, CalledAs::launch) == Words{"true", "--local-rank=${local_rank}"});
  CHECK(argv({"--use_env"}, CalledAs::launch) == Words{"true"});
  CHECK(argv({"--no-python", "--use-env"}, CalledAs::launch) == Words{"true"});
  CHECK(argv({}, CalledAs::torchrun) == Words{"true"});
  CHECK(argv({"-m"}, CalledAs::launch) == Words{"/usr/bin/python3", "-u", "-m", "true", "--local-rank=${local_rank}"});
  CHECK(torchrun_error({"--no-python"}, CalledAs::launch).starts_with("--no-python needs --use-env here"));
  CHECK(torchrun_error({"--no-python"}, CalledAs::torchrun) == "<none>");
  CHECK(notes({}, CalledAs::launch).size() == 1);
  CHECK(notes({"--use-env"}, CalledAs::launch).empty());
  CHECK(notes({"--use-env"}) == Words{"no effect: --use-env"});
}

TEST_CASE("signals that do not exist: torchrun goes on without them") {
  CHECK(resolved({"--signals-to-handle=TERM, SIGFOO,BAR"}, CalledAs::torchrun)->spec.stop_signals ==
        std::vector<int>{15});
  CHECK(notes({"--signals-to-handle=TERM,SIGFOO,BAR"}, CalledAs::torchrun) ==
        Words{"--signals-to-handle: no such signal: SIGFOO, BAR (ignored)"});
  CHECK(torchrun_error({"--signals-to-handle=TERM,SIGFOO"})
            .starts_with("--signals-to-handle 'TERM,SIGFOO': there is no signal"));
}

TEST_CASE("torchrun's variables that ask for what dtrain does in another way, or not") {
  CHECK(notes({}, CalledAs::dtrain, host_with("TORCHELASTIC_ENABLE_FILE_TIMER", "1")).size() == 1);
  CHECK(notes({}, CalledAs::dtrain, host_with("TORCHELASTIC_ENABLE_FILE_TIMER", "0")).empty());
  CHECK(notes({}, CalledAs::dtrain, host_with("TORCHELASTIC_HEALTH_CHECK_PORT", "80")).size() == 1);
  CHECK(notes({}, CalledAs::dtrain, host_with("TORCH_ELASTIC_WORKER_IDENTICAL", "1")).empty());
}

}  // namespace dtrain::cli
