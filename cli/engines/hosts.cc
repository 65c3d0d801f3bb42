#include "cli/engines/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "cli/base/parse_value.h"
#include "cli/base/usage_error.h"
#include "cli/engines/engine.h"
#include "cli/engines/sent_words.h"
#include "cli/nodes/nodes.h"
#include "cli/options/take_value.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

constexpr const char* kEngine = "ssh";
// Of a host, a login or a shell. HOME and the like are those that the other host's login has.
const std::set<std::string, std::less<>> kOfThisHost = {"HOME",
                                                        "USER",
                                                        "LOGNAME",
                                                        "SHELL",
                                                        "MAIL",
                                                        "PWD",
                                                        "OLDPWD",
                                                        "SHLVL",
                                                        "_",
                                                        "DISPLAY",
                                                        "XAUTHORITY",
                                                        "XDG_RUNTIME_DIR",
                                                        "DBUS_SESSION_BUS_ADDRESS",
                                                        "TMUX",
                                                        "STY",
                                                        "HOSTNAME",
                                                        "HOST",
                                                        "LINES",
                                                        "COLUMNS",
                                                        "LS_COLORS",
                                                        "HISTFILE",
                                                        "SSH_AUTH_SOCK"};

bool is_of_this_host(const std::string& name) {
  return kOfThisHost.contains(name) || name.starts_with("SSH_") || name.starts_with("XDG_SESSION_") ||
         name.starts_with("BASH_FUNC_");
}

// What is of one node.
constexpr std::array kOneNode = {FlagId::standalone, FlagId::node_rank, FlagId::attach};

// The one of two flags that counts: what is typed goes before a variable, and that before a file. Error: both count.
Result<std::optional<FlagId>> one_of_both(const Options& options, FlagId one, FlagId other, const char* why) {
  if (!options.given(one)) return options.given(other) ? std::optional(other) : std::nullopt;
  if (!options.given(other)) return std::optional(one);
  if (options[one].origin == options[other].origin)
    return usage_error(
        fmt::format("{} and {} {}: leave out one of the two", options[one].where, options[other].where, why));
  return std::optional(options[one].origin < options[other].origin ? one : other);
}

Result<std::vector<launcher::PlacedHost>> named_hosts(const Options& options, FlagId list, const Host& host) {
  const bool by_file = list == FlagId::hostfile;
  const auto text = by_file ? host.read_text(options.text(list)) : Result<std::string>(options.text(list));
  if (!text) return options.blame(list, text.error());
  auto hosts = by_file ? launcher::parse_hostfile(*text) : launcher::parse_hosts(*text);
  if (!hosts) return options.blame(list, hosts.error());
  const auto filter = one_of_both(options, FlagId::include, FlagId::exclude, "do not go together");
  if (!filter) return filter.error();
  if (!*filter) return hosts;
  const std::string& chosen = options.text(**filter);
  auto left = **filter == FlagId::include ? launcher::include_hosts(std::move(*hosts), chosen)
                                          : launcher::exclude_hosts(std::move(*hosts), chosen);
  return left ? left : options.blame(**filter, left.error());
}

// What cannot be the same on all hosts, or says that there is one.
Result<void> check_conflicts(const Options& options) {
  for (const FlagId id : kOneNode)
    if (options.given(id))
      return usage_error(fmt::format("{} does not go together with a list of hosts", options[id].where));
  if (auto done = check_stdin(options, "a list of hosts"); !done) return done.error();
  if (options.text(FlagId::ha) != "0" && !options.given(FlagId::rdzv_endpoint))
    return usage_error("--ha with a list of hosts needs --rdzv-endpoint HOST,HOST,HOST");
  if (options.given(FlagId::rdzv_backend) && options.text(FlagId::rdzv_backend).starts_with("etcd") &&
      !options.given(FlagId::rdzv_endpoint))
    return usage_error("etcd needs --rdzv-endpoint, which names its members");
  if (options.given(FlagId::master_port))
    if (const auto port = parse_number(options.text(FlagId::master_port), 1, 65535); !port)
      return options.blame(FlagId::master_port, port.error());
  if (split_at_blanks(options.text(FlagId::ssh)).empty()) return usage_error("--ssh is empty: it is a command");
  return {};
}

// The first hosts, as many as --nnodes has.
Result<void> take_count(const Options& options, launcher::PlacementRequest& request) {
  request.least = static_cast<int>(request.hosts.size());
  if (!options.given(FlagId::nnodes)) return {};
  const std::string& text = options.text(FlagId::nnodes);
  const auto range = parse_nnodes(text);
  if (!range) return options.blame(FlagId::nnodes, range.error());
  const bool elastic = text.find(':') != std::string::npos && range->min != range->max;
  if (range->min > request.least || (!elastic && range->max > request.least))
    return usage_error(
        fmt::format("--nnodes is {}, and {} host{} named", text, request.least, request.least == 1 ? " is" : "s are"));
  request.least = range->min;
  if (request.hosts.size() > static_cast<std::size_t>(range->max))
    request.hosts.resize(static_cast<std::size_t>(range->max));
  request.elastic = elastic;
  return {};
}

// The same part of --num-proc for each host.
Result<void> take_parts(Options options, launcher::PlacementRequest& request) {
  options.suggest(FlagId::nnodes, std::to_string(request.hosts.size()), "");
  const auto part = part_of_num_proc(options);
  if (!part) return part.error();
  for (launcher::PlacedHost& host : request.hosts) {
    const int slots = host.workers();
    if (slots > 0 && slots < **part)
      return options.blame(FlagId::num_proc, usage_error(fmt::format("that is {} for each host, and {} has {}", **part,
                                                                     host.name, counted(slots, "slot"))));
    host.slots = **part;
    if (!host.chosen.empty()) host.chosen.resize(static_cast<std::size_t>(host.slots));
  }
  return {};
}

// The first slots, as many as --num-proc has; after the choice of hosts. Equal parts where no host has slots, or
// --nnodes wants more hosts than the slots need.
Result<void> take_slots(const Options& options, launcher::PlacementRequest& request) {
  if (!options.given(FlagId::num_proc)) return {};
  if (is_sized_by_nodes(options)) {
    const auto part = part_of_num_proc(options);
    return part ? Result<void>() : part.error();
  }
  const auto all = parse_number(options.text(FlagId::num_proc), 1, kMostRank);
  if (!all) return options.blame(FlagId::num_proc, usage_error(all.error().message + ", or auto"));
  const auto wrong = [&](const std::string& why) { return options.blame(FlagId::num_proc, usage_error(why)); };
  if (options.given(FlagId::nproc))
    return usage_error(fmt::format("{} and {} both say how many workers a host has: leave out one of the two",
                                   options[FlagId::num_proc].where, options[FlagId::nproc].where));
  if (request.elastic) return wrong("a job whose nodes come and go has no fixed number of workers; give --nproc");
  const auto has_none = [](const launcher::PlacedHost& host) { return host.workers() == 0; };
  if (std::all_of(request.hosts.begin(), request.hosts.end(), has_none)) return take_parts(options, request);
  int left = *all;
  std::size_t hosts = 0;
  std::vector<launcher::PlacedHost> filled = request.hosts;
  for (; hosts < filled.size() && left > 0; ++hosts) {
    launcher::PlacedHost& host = filled[hosts];
    const int slots = host.workers();
    if (slots == 0)
      return usage_error(fmt::format("{} needs the slots of each host, and {} has none: HOST:SLOTS",
                                     options[FlagId::num_proc].where, host.name));
    host.slots = std::min(slots, left);
    if (!host.chosen.empty()) host.chosen.resize(static_cast<std::size_t>(host.slots));
    left -= host.slots;
  }
  if (left > 0)
    return wrong(
        fmt::format("{} {} slots", request.hosts.size() == 1 ? "the host has" : "the hosts have", *all - left));
  if (options.given(FlagId::nnodes) && hosts < filled.size()) return take_parts(options, request);
  filled.resize(hosts);
  request.hosts = std::move(filled);
  request.least = static_cast<int>(hosts);
  return {};
}

// A host that is lost takes along those that it reaches, so a job that goes on without hosts reaches each from here.
Result<void> take_fanout(const Options& options, launcher::PlacementRequest& request) {
  constexpr int kMostFanout = 128;  // commands that start at once
  auto fanout = parse_number(options.text(FlagId::ssh_fanout), 0, kMostFanout);
  if (fanout && *fanout == 1) fanout = Error{ErrorKind::usage, "1 makes no tree: 0, or 2 to 128"};
  if (!fanout) return options.blame(FlagId::ssh_fanout, fanout.error());
  request.fanout = request.elastic ? 0 : *fanout;
  return {};
}

// The user may say where the nodes meet, and how.
void take_meeting(const Options& options, launcher::PlacementRequest& request) {
  const bool by_address = options.given(FlagId::master_addr) && options.text(FlagId::master_addr) != "real";
  request.meets_elsewhere = by_address || options.given(FlagId::rdzv_endpoint);
  if (options.given(FlagId::rdzv_backend))
    request.numbered = !request.elastic && options.text(FlagId::rdzv_backend) == "static";
  else
    request.numbered = !request.elastic && (by_address || !options.given(FlagId::rdzv_endpoint));
  if (options.given(FlagId::master_port)) request.port = options.text(FlagId::master_port);
  request.apart = has_groups(options);
}

Result<void> check_slots(const Options& options, const launcher::PlacementRequest& request) {
  const auto workers =
      options.given(FlagId::nproc) ? parse_number(options.text(FlagId::nproc), 1, kMostRank) : Result<int>(Error{});
  if (!workers) return {};
  for (const launcher::PlacedHost& host : request.hosts) {
    const int slots = host.workers();
    if (slots > 0 && *workers > slots)
      return usage_error(
          fmt::format("--nproc is {}, and {} has {} slot{}", *workers, host.name, slots, slots == 1 ? "" : "s"));
  }
  return {};
}

// Of which no shell takes a part for its own.
bool is_plain_path(const std::string& path) {
  return !path.empty() && std::all_of(path.begin(), path.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("/._+-@%,=").find(c) != std::string_view::npos;
  });
}

}  // namespace

Result<std::optional<launcher::PlacementRequest>> hosts_that_count(const RawOptions& raw, const Options& options,
                                                                   const Host& host) {
  const std::optional<launcher::PlacementRequest> none;
  if (host.place) return none;
  const auto engine = engine_of(options);
  if (!engine) return engine.error();
  const auto list = one_of_both(options, FlagId::hosts, FlagId::hostfile, "both name the hosts");
  if (!list) return list.error();
  if (!*list) {
    for (const FlagId id : {FlagId::include, FlagId::exclude})
      if (options.insists_on(id))
        return usage_error(
            fmt::format("{} chooses among hosts: name them with --hosts or --hostfile", options[id].where));
    if (*engine == kEngine) return usage_error("--engine ssh needs hosts: --hosts HOST:SLOTS,... or --hostfile FILE");
    return none;
  }
  // A list in a variable or a file stands for many commands; who types something else means that one.
  const auto overrides = [&](FlagId id) { return options[id].origin < options[**list].origin; };
  if (std::any_of(kOneNode.begin(), kOneNode.end(), overrides)) return none;
  if (*engine != "auto" && *engine != kEngine) {
    if (overrides(FlagId::engine)) return none;
    return usage_error(fmt::format("{} names hosts for ssh, and --engine is {}: leave out one of the two",
                                   options[**list].where, *engine));
  }
  launcher::PlacementRequest request;
  auto hosts = named_hosts(options, **list, host);
  if (!hosts) return hosts.error();
  request.hosts = std::move(*hosts);
  for (const auto& done : {check_conflicts(options), take_count(options, request), take_slots(options, request),
                           check_slots(options, request), take_fanout(options, request)})
    if (!done) return done.error();
  take_meeting(options, request);
  if (raw.command.empty() && !options.given(FlagId::print_config))
    return usage_error("no program to start on the hosts: dtrain run --hosts ... PROGRAM");
  request.task = task_to_send(raw, options, host, kEngine);
  return std::optional(std::move(request));
}

Result<void> check_stdin(const Options& options, std::string_view with) {
  if (!options.given(FlagId::stdin_mode) || options.text(FlagId::stdin_mode) == "none") return {};
  return usage_error(fmt::format("{} does not go together with {}: workers there read /dev/null",
                                 options[FlagId::stdin_mode].where, with));
}

launcher::AgentTask task_to_send(const RawOptions& raw, const Options& options, const Host& host,
                                 const std::string& engine) {
  launcher::AgentTask task;
  task.called = raw.as_launch ? "launch" : raw.as_torchrun ? "torchrun" : "dtrain";
  task.words = words_to_send(raw);
  task.origins = origins_to_send(raw);
  task.folder = host.folder();
  task.place.engine = engine;
  const std::string& id = options.text(FlagId::run_id);
  task.place.run_id = options.given(FlagId::run_id) && !id.empty() ? id : "job-" + host.fresh_id;
  return task;
}

std::map<std::string, std::string> environment_to_send(const Host& host, const std::string& token) {
  std::map<std::string, std::string> sent;
  for (const auto& [name, value] : host.env)
    if (!is_of_this_host(name)) sent.emplace(name, value);
  for (const Flag& row : flags())
    if (places_job(row.id)) sent.erase(dtrain_variable(row));
  if (!token.empty()) sent["DTRAIN_TOKEN"] = token;
  if (!host.store_credentials.empty()) sent[kStoreCredentials] = host.store_credentials;
  return sent;
}

Result<std::string> token_to_send(const Options& options, const Host& host, std::size_t hosts) {
  if (host.token) {
    if (!host.token->ok()) return host.token->error().in("DTRAIN_TOKEN");
    return (*host.token)->text();
  }
  for (const FlagId id : {FlagId::token_file, FlagId::tls_ca, FlagId::insecure})
    if (options.given(id)) return std::string();
  if (hosts < 2) return std::string();
  auto fresh = host.new_token();
  if (!fresh) return fresh.error();
  return fresh->text();
}

std::vector<std::string> agent_command_on(const std::string& host, const std::string& ssh, const std::string& own,
                                          const std::vector<std::string>& here) {
  if (std::find(here.begin(), here.end(), host) != here.end()) return {"/proc/self/exe", "agent"};
  std::vector<std::string> words = split_at_blanks(ssh);
  // A password would be asked for on a terminal that the agents' output shares. A host that is lost is noticed.
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=20", "ServerAliveInterval=5", "ServerAliveCountMax=6"}) {
    words.emplace_back("-o");
    words.emplace_back(option);
  }
  words.insert(words.end(), {"-x", "-T", host});
  // Where this program is, it is on a shared file system; else in PATH. Any login shell understands this.
  words.push_back(is_plain_path(own) && own.ends_with("/dtrain")
                      ? fmt::format("/bin/sh -c 'test -x {0} && exec {0} agent; exec dtrain agent'", own)
                      : "exec dtrain agent");
  return words;
}

}  // namespace dtrain::cli
