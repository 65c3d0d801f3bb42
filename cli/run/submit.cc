#include "cli/run/submit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/base/fail.h"
#include "cli/base/print.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/base/version.h"
#include "cli/children/ask_program.h"
#include "cli/engines/hosts.h"
#include "cli/engines/srun.h"
#include "cli/machine/own_address.h"
#include "cli/program/program.h"
#include "cli/resolve/resolve_parts.h"
#include "cli/run/engine_shims.h"
#include "cli/run/ship.h"
#include "launcher/base/host_name.h"
#include "launcher/engine_wire/json_line.h"
#include "launcher/hosts/host_tree.h"
#include "launcher/process/spawn.h"
#include "launcher/submit/submit.h"
#include "launcher/terminal/wants_color.h"

namespace dtrain::cli {
namespace {

constexpr std::size_t kLongestWord = 8192;

std::string words_quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + shell_quoted(printable(word, kLongestWord));
  return text;
}

// Where the cluster decides how many there are, that is what is known.
std::string nodes_shown(const launcher::ShimRequest& nodes, std::string_view title) {
  if (nodes.all == "auto") return fmt::format("all nodes of {}'s cluster", title);
  if (!nodes.all.empty())
    return fmt::format("as few nodes of {}'s cluster as have room for {} workers", title, nodes.all);
  if (nodes.least != nodes.most) return fmt::format("{} to {} nodes of {}'s cluster", nodes.least, nodes.most, title);
  return fmt::format("{} node{} of {}'s cluster", nodes.most, nodes.most == 1 ? "" : "s", title);
}

// Where each host's agent would be started: the words of a command, quoted.
std::string commands_shown(const launcher::HostsSpec& spec) {
  std::string text;
  for (std::size_t i = 0; i < spec.commands.size(); ++i) {
    const int through = spec.request.through.empty() ? -1 : spec.request.through[i];
    text += spec.request.hosts[i].name;
    text += through < 0 ? ":" : fmt::format(", from {}:", spec.request.hosts[static_cast<std::size_t>(through)].name);
    text += " " + words_quoted(spec.commands[i]) + "\n";
  }
  return text + "each agent: " + words_quoted(spec.request.task.words) + "\n" + ship_shown(spec.request.task);
}

// The agents write to pipes.
bool wants_color(const Options& options) {
  return !options.given(FlagId::color) && launcher::wants_color(launcher::Color::automatic, STDOUT_FILENO) &&
         launcher::wants_color(launcher::Color::automatic, STDERR_FILENO);
}

Result<launcher::SubmitSignals> signals_of(const RawOptions& raw, const Options& options, const Host& host) {
  Plan plan;
  if (auto done = resolve_stopping({raw, host, options}, plan); !done) return done.error();
  return launcher::SubmitSignals{plan.spec.stop_signals, plan.spec.passed_signals};
}

// What does not depend on who starts the agents.
void complete(launcher::PlacementRequest& request, const Options& options) {
  request.version = own_version();
  if (wants_color(options)) request.task.words.insert(request.task.words.begin(), "--color=always");
}

std::vector<std::string> names_of_here() {
  return {"localhost", "127.0.0.1", "::1", launcher::kernel_hostname(), launcher::short_hostname()};
}

// No secrets and no files go along.
void only_look(launcher::PlacementRequest& request, const std::string& folder) {
  launcher::AgentTask look;
  look.place = std::move(request.task.place);
  look.looks_for = folder;
  request.task = std::move(look);
  request.only_looks = true;
}

Result<launcher::HostsSpec> spec_of(const RawOptions& raw, const Options& options, const Host& host,
                                    launcher::PlacementRequest request) {
  launcher::HostsSpec spec;
  auto signals = signals_of(raw, options, host);
  if (!signals) return signals.error();
  spec.signals = std::move(*signals);
  if (auto done = add_ship(raw, options, host, request.task); !done) return done.error();
  auto token = token_to_send(options, host, request.hosts.size());
  if (!token) return token.error();
  request.task.env = environment_to_send(host, *token);
  complete(request, options);
  const std::string own = host.own_file();
  const std::vector<std::string> here = names_of_here();
  for (const launcher::PlacedHost& each : request.hosts)
    spec.commands.push_back(agent_command_on(each.name, options.text(FlagId::ssh), own, here));
  request.here = here;
  std::vector<char> are_here;
  are_here.reserve(request.hosts.size());
  for (std::size_t i = 0; i < request.hosts.size(); ++i) are_here.push_back(launcher::is_here(request, i) ? 1 : 0);
  request.through = launcher::reached_through(are_here, request.fanout);
  spec.request = std::move(request);
  return spec;
}

std::string shim_code(std::string_view engine) {
  return std::string(kShim) + (engine == "ray" ? kRayShim : kSparkShim);
}

// The code comes by standard input too: its words would fill `ps`. The user's folder has no part in it, nor a ray.py
// there.
Result<std::vector<std::string>> shim_command(const Host& host, std::string_view engine) {
  const std::string named = host.variable(kEnginePython);
  auto python = named.empty() ? find_python(host) : Result<std::string>(named);
  if (!python) return python.error();
  return std::vector<std::string>{*python, "-c",
                                  fmt::format("import sys; sys.path[:1] == [''] and sys.path.pop(0); import json; "
                                              "exec(compile(json.loads(sys.stdin.readline()), 'dtrain-{}', 'exec'))",
                                              engine)};
}

// What the agents know each other by: the token that is sent to them, or what they find as this host does. Nothing:
// they need none.
Result<std::optional<LinkCredential>> credential_of(const Given& given, const std::string& token) {
  if (!token.empty()) {
    auto secret = JobSecret::parse(token);
    if (!secret) return secret.error();
    return std::optional<LinkCredential>(std::move(*secret));
  }
  if (!given.options.given(FlagId::token_file) && !given.options.given(FlagId::tls_ca))
    return std::optional<LinkCredential>();
  Plan plan;
  plan.spec.nodes.across_hosts = true;
  if (auto done = resolve_secret(given, plan); !done) return done.error();
  return plan.spec.nodes.credential;
}

Result<launcher::EngineSpec> spec_of(const RawOptions& raw, const Options& options, const Host& host,
                                     ClusterRequest request) {
  launcher::EngineSpec spec;
  auto signals = signals_of(raw, options, host);
  if (!signals) return signals.error();
  spec.signals = std::move(*signals);
  auto shim = shim_command(host, request.engine->name);
  if (!shim) return shim.error();
  spec.shim = std::move(*shim);
  spec.code = shim_code(request.engine->name);
  if (auto done = add_ship(raw, options, host, request.placement.task); !done) return done.error();
  auto token = token_to_send(options, host, static_cast<std::size_t>(request.nodes.most));
  if (!token) return token.error();
  request.placement.task.env = environment_for_cluster(host, *token);
  complete(request.placement, options);
  for (const InterfaceAddress& each : reachable_addresses()) request.nodes.order.addresses.push_back(each.address);
  request.nodes.grows = request.placement.grows = request.placement.grows && !request.nodes.order.addresses.empty();
  if (request.placement.grows) {
    auto shown = credential_of({raw, host, options}, *token);
    if (!shown) return shown.error();
    spec.credential = std::move(*shown);
    const Flag& port = flag(FlagId::master_port);
    for (const auto& name : {dtrain_variable(port), pet_variable(port)}) request.placement.task.env.erase(name);
    request.placement.rounds_at =
        launcher::AgentCard{own_version(), launcher::kernel_hostname(), request.nodes.order.addresses};
  }
  // For a cluster on this host alone.
  request.nodes.order.addresses.emplace_back("127.0.0.1");
  spec.request = std::move(request.placement);
  spec.nodes = std::move(request.nodes);
  return spec;
}

}  // namespace

Result<void> judge_for_nodes(const RawOptions& raw, const Options& options, const Host& host) {
  Plan plan;
  plan.spec.nodes.max = 2;  // a number of ranks that is not known
  const Given given{raw, host, options};
  for (auto part : {resolve_stopping, resolve_strategy, resolve_loader})
    if (auto done = part(given, plan); !done) return done;
  return take_restarts(options, plan);
}

namespace {

void forget_tasks_of_allocation() {
  for (const char* name : kTasksOfAllocation) ::unsetenv(name);
}

}  // namespace

int become_srun(const Options& options, const Host& host, const std::vector<std::string>& words) {
  const auto dry_run = options.on(FlagId::dry_run);
  if (!dry_run) return fail(dry_run.error());
  if (*dry_run) {
    std::vector<std::string> shown;
    for (const char* name : kTasksOfAllocation)
      if (!host.variable(name).empty()) shown.insert(shown.end(), {"-u", name});
    if (!shown.empty()) shown.insert(shown.begin(), "env");
    shown.insert(shown.end(), words.begin(), words.end());
    return print(words_quoted(shown) + "\n");
  }
  ::unsetenv(dtrain_variable(flag(FlagId::config)).c_str());  // what the file says is in the words
  forget_tasks_of_allocation();
  if (host.token && host.token->ok()) ::setenv("DTRAIN_TOKEN", (*host.token)->text().c_str(), 1);
  if (!host.store_credentials.empty()) ::setenv(kStoreCredentials, host.store_credentials.c_str(), 1);
  ::execvp(words[0].c_str(), launcher::c_strings(words).data());
  return fail(system_error("srun cannot be started", errno));
}

int submit(const RawOptions& raw, const Options& options, const Host& host, launcher::PlacementRequest request) {
  auto spec = spec_of(raw, options, host, std::move(request));
  if (!spec) return fail(spec.error());
  const auto dry_run = options.on(FlagId::dry_run);
  if (!dry_run) return fail(dry_run.error());
  if (*dry_run) return print(commands_shown(*spec));
  const auto code = launcher::run_on_hosts(std::move(*spec));
  return code ? *code : fail(code.error());
}

int look_on_hosts(const RawOptions& raw, const Options& options, const Host& host, launcher::PlacementRequest request,
                  const std::string& folder) {
  auto spec = spec_of(raw, options, host, std::move(request));
  if (!spec) return fail(spec.error());
  only_look(spec->request, folder);
  const auto code = launcher::run_on_hosts(std::move(*spec));
  return code ? *code : fail(code.error());
}

int look_on_cluster(const RawOptions& raw, const Options& options, const Host& host, ClusterRequest request,
                    const std::string& folder) {
  auto spec = spec_of(raw, options, host, std::move(request));
  if (!spec) return fail(spec.error());
  only_look(spec->request, folder);
  spec->nodes.grows = spec->request.grows = false;
  spec->request.rounds_at.reset();
  const auto code = launcher::run_on_engine(std::move(*spec));
  return code ? *code : fail(code.error());
}

int look_on_step(const Host& host, const std::vector<std::string>& step, const std::string& folder) {
  ::setenv("SLURM_OVERLAP", "1", 1);  // other steps of the allocation hold up nothing
  forget_tasks_of_allocation();
  constexpr std::chrono::seconds kPatience{60};
  const auto said = ask_program(srun_that_looks(step, host, folder), kPatience, AskedErrors::shown);
  if (!said) {  // a prolog may take longer
    say(
        fmt::format("the nodes of the allocation cannot be asked whether they see the cache ({}); they will look when "
                    "the job starts",
                    printable(said.error().message, kLongestWord)));
    return 0;
  }
  std::set<std::string> complaints;
  for (const std::string& line : split(*said, '\n'))
    if (const auto mark = line.find(launcher::kAgentMark); mark != line.npos)
      complaints.insert(printable(line.substr(mark + launcher::kAgentMark.size()), kLongestWord));
  if (complaints.empty()) return 0;
  for (auto each = std::next(complaints.begin()); each != complaints.end(); ++each) say(*each);
  return fail(usage_error(*complaints.begin()));
}

bool has_other_hosts(const launcher::PlacementRequest& request) {
  const std::vector<std::string> here = names_of_here();
  return std::any_of(request.hosts.begin(), request.hosts.end(), [&](const launcher::PlacedHost& each) {
    return std::find(here.begin(), here.end(), each.name) == here.end();
  });
}

Result<void> check_submission(const RawOptions& raw, const Options& options, const Host& host,
                              launcher::PlacementRequest request) {
  const auto spec = spec_of(raw, options, host, std::move(request));
  return spec ? Result<void>() : spec.error();
}

Result<launcher::EngineLook> look_at_cluster(const RawOptions& raw, const Options& options, const Host& host,
                                             ClusterRequest request) {
  auto spec = spec_of(raw, options, host, std::move(request));
  if (!spec) return spec.error();
  return launcher::look_at_engine(std::move(*spec));
}

int submit_to_cluster(const RawOptions& raw, const Options& options, const Host& host, ClusterRequest request) {
  const std::string_view title = request.engine->title;
  auto spec = spec_of(raw, options, host, std::move(request));
  if (!spec) return fail(spec.error());
  const auto dry_run = options.on(FlagId::dry_run);
  if (!dry_run) return fail(dry_run.error());
  if (*dry_run) {
    const launcher::ShimRequest& nodes = spec->nodes;
    return print(fmt::format("{}, by {}\neach agent: {}\n", nodes_shown(nodes, title), spec->shim[0],
                             words_quoted(spec->request.task.words)) +
                 ship_shown(spec->request.task));
  }
  const auto code = launcher::run_on_engine(std::move(*spec));
  return code ? *code : fail(code.error());
}

}  // namespace dtrain::cli
