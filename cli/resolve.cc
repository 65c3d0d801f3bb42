// Judges the options one by one and fills the JobSpec.
#include "cli/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "cli/options.h"
#include "cli/program.h"
#include "cli/text.h"
#include "cli/torchrun.h"

namespace dtrain::cli {
namespace {

using launcher::JobSpec;

constexpr int kMostWorkers = 16384;
constexpr int kMostRestarts = 1000000;

Error usage(std::string message) { return {ErrorKind::usage, std::move(message)}; }

// CUDA's rule: devices from the first "-1" (or unknown name) on are hidden.
int visible_gpus(const Host& host) {
  auto visible = host.env.find("CUDA_VISIBLE_DEVICES");
  if (visible == host.env.end()) return host.gpus();
  int count = 0;
  for (const std::string& name : split(visible->second, ',')) {
    if (name.empty() || name.starts_with('-') || name == "NoDevFiles") break;
    ++count;
  }
  return count;
}

class Resolver {
 public:
  Resolver(const RawOptions& raw, const Host& host) : raw_(raw), host_(host), options_(raw, host) {}

  Result<Plan> run() {
    using Step = Result<void> (Resolver::*)();
    constexpr Step kSteps[] = {&Resolver::torchrun_flags, &Resolver::job,     &Resolver::workers, &Resolver::times,
                               &Resolver::signals,        &Resolver::choices, &Resolver::output,  &Resolver::report,
                               &Resolver::program,        &Resolver::threads, &Resolver::general};
    for (Step step : kSteps)
      if (auto done = (this->*step)(); !done) return done.error();
    list_settings();
    return std::move(plan_);
  }

 private:
  Result<void> torchrun_flags() {
    auto notes = judge_torchrun_flags(options_);
    if (!notes) return notes.error();
    plan_.notes = *notes;
    return {};
  }

  Result<void> job() {
    constexpr std::size_t kLongest = 128;  // it becomes part of a file name
    const std::string& name = options_.text(FlagId::run_id);
    bool control = std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (name.size() > kLongest || name.find('/') != std::string::npos || name.starts_with('.') || control)
      return options_.blame(FlagId::run_id, usage(fmt::format("a job's name has at most {} characters, no slash, no "
                                                              "control characters and no dot in front",
                                                              kLongest)));
    spec().run_id = name.empty() ? "job-" + host_.fresh_id : name;
    spec().role = options_.text(FlagId::role);
    return {};
  }

  Result<void> workers() {
    const std::string& text = options_.text(FlagId::nproc);
    int gpus = text == "gpu" || text == "auto" ? visible_gpus(host_) : 0;
    if (text == "gpu" && gpus == 0)
      return options_.blame(FlagId::nproc, usage("no GPU is visible here (CUDA_VISIBLE_DEVICES, NVIDIA driver); use "
                                                 "auto or a number"));
    if (text == "cpu" || text == "gpu" || text == "auto") {
      spec().nproc_per_node = gpus > 0 ? gpus : host_.cpus;
    } else {
      auto count = parse_number(text, 1, kMostWorkers);
      if (!count) return options_.blame(FlagId::nproc, usage(count.error().message + ", or auto, cpu, gpu"));
      spec().nproc_per_node = *count;
    }
    return take_number(FlagId::max_restarts, kMostRestarts, spec().max_restarts);
  }

  Result<void> times() {
    if (auto done = take_seconds(FlagId::shutdown_timeout, spec().shutdown_timeout); !done) return done;
    return take_seconds(FlagId::failure_grace, spec().failure_grace);
  }

  Result<void> signals() {
    auto stop = parse_signals(options_.text(FlagId::signals_to_handle));
    if (!stop) return options_.blame(FlagId::signals_to_handle, stop.error());
    auto passed = parse_signals(options_.text(FlagId::pass_signals));
    if (!passed) return options_.blame(FlagId::pass_signals, passed.error());
    for (int signal : *stop) {
      auto both = std::find(passed->begin(), passed->end(), signal);
      if (both == passed->end()) continue;
      if (options_.given(FlagId::pass_signals))
        return options_.blame(FlagId::pass_signals,
                              usage(fmt::format("signal {} is in --signals-to-handle as well", signal)));
      passed->erase(both);
    }
    spec().stop_signals = *stop;
    spec().passed_signals = *passed;
    return {};
  }

  Result<void> choices() {
    using launcher::Color;
    using launcher::Containment;
    auto done = take_choice(FlagId::contain, spec().containment,
                            {{"auto", Containment::automatic},
                             {"cgroup", Containment::cgroup},
                             {"subreaper", Containment::subreaper},
                             {"pidns", Containment::pidns}});
    if (!done) return done;
    done = take_choice(FlagId::color, spec().color,
                       {{"auto", Color::automatic}, {"always", Color::always}, {"never", Color::never}});
    if (!done) return done;
    bool plain = !host_.variable("NO_COLOR").empty() || host_.variable("TERM") == "dumb";
    if (spec().color == Color::automatic && plain) spec().color = Color::never;
    return standard_input();
  }

  Result<void> standard_input() {
    using Mode = launcher::StdinMode;
    const std::string& text = options_.text(FlagId::stdin_mode);
    if (text == "all" || text == "none") {
      spec().stdin_mode = {text == "all" ? Mode::Kind::all : Mode::Kind::none, 0};
      return {};
    }
    auto rank = parse_number(text, 0, spec().nproc_per_node - 1);
    if (!rank)
      return options_.blame(FlagId::stdin_mode, usage(fmt::format("expected all, none or a local rank from 0 to {}",
                                                                  spec().nproc_per_node - 1)));
    spec().stdin_mode = {Mode::Kind::rank, *rank};
    return {};
  }

  Result<void> output() {
    spec().collapse_double_dollar = raw_.as_torchrun;
    if (auto done = take_streams(FlagId::tee, spec().tee); !done) return done;
    if (auto done = take_streams(FlagId::redirects, spec().redirects); !done) return done;
    const std::string& prefix = options_.text(FlagId::prefix_template);
    if (!prefix.empty())
      spec().prefix_template = prefix;
    else if (raw_.as_torchrun)
      spec().prefix_template = kTorchrunPrefix;
    spec().log_dir = options_.text(FlagId::log_dir);
    if (spec().log_dir.empty() || spec().log_dir == "/dev/null") return {};
    return check_folder(FlagId::log_dir, spec().log_dir);
  }

  Result<void> report() {
    const std::string& path = options_.text(FlagId::report);
    spec().report_path = path;
    if (path.empty()) return {};
    FileFacts facts = host_.probe(path);
    if (facts.kind == FileFacts::Kind::folder) return options_.blame(FlagId::report, usage("is a folder, not a file"));
    if (facts.kind != FileFacts::Kind::missing)
      return facts.writable ? Result<void>() : options_.blame(FlagId::report, {ErrorKind::system, "is not writable"});
    std::size_t slash = path.rfind('/');
    std::string folder = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
    FileFacts parent = host_.probe(folder);
    if (parent.kind == FileFacts::Kind::folder && parent.writable) return {};
    const char* why =
        parent.kind == FileFacts::Kind::missing ? "its folder does not exist" : "its folder is not writable";
    return options_.blame(FlagId::report, {ErrorKind::system, why});
  }

  Result<void> program() {
    if (raw_.command.empty())
      return usage("no program given: dtrain run [flags] PROGRAM [program's arguments]; try dtrain run --help");
    auto module = options_.on(FlagId::module);
    if (!module) return module.error();
    auto no_python = options_.on(FlagId::no_python);
    if (!no_python) return no_python.error();
    auto program = build_program({raw_.command, *module, *no_python, raw_.as_torchrun}, host_);
    if (!program) return program.error();
    spec().argv = program->argv;
    spec().program = program->name;
    plan_.executed_file = program->file;
    return {};
  }

  // Left alone, every worker would start one thread for each core, and all of them would get in each other's way.
  Result<void> threads() {
    int workers = spec().nproc_per_node;
    if (workers == 1 || host_.env.contains("OMP_NUM_THREADS")) return {};
    int each = raw_.as_torchrun ? 1 : std::max(1, host_.cpus / workers);
    spec().extra_env.emplace_back("OMP_NUM_THREADS", std::to_string(each));
    plan_.notes.push_back(fmt::format("OMP_NUM_THREADS={} for each of {} workers ({} cores); set it to choose", each,
                                      workers, host_.cpus));
    return {};
  }

  Result<void> general() {
    for (auto [id, field] : {std::pair{FlagId::quiet, &spec().quiet}, std::pair{FlagId::dry_run, &plan_.dry_run}}) {
      auto value = options_.on(id);
      if (!value) return value.error();
      *field = *value;
    }
    auto standalone = options_.on(FlagId::standalone);
    return standalone ? Result<void>() : standalone.error();
  }

  Result<void> take_number(FlagId id, int most, int& field) {
    auto number = parse_number(options_.text(id), 0, most);
    if (!number) return options_.blame(id, number.error());
    field = *number;
    return {};
  }

  Result<void> take_seconds(FlagId id, std::chrono::milliseconds& field) {
    auto seconds = parse_seconds(options_.text(id));
    if (!seconds) return options_.blame(id, seconds.error());
    field = *seconds;
    return {};
  }

  Result<void> take_streams(FlagId id, launcher::StreamMap& field) {
    auto streams = parse_streams(options_.text(id), spec().nproc_per_node);
    if (!streams) return options_.blame(id, streams.error());
    field = *streams;
    return {};
  }

  template <class Value>
  Result<void> take_choice(FlagId id, Value& field, std::initializer_list<std::pair<const char*, Value>> choices) {
    std::string names;
    for (const auto& [name, value] : choices) {
      if (options_.text(id) == name) {
        field = value;
        return {};
      }
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return options_.blame(id, usage("expected one of " + names));
  }

  // The folder, or the nearest one above it that exists, must be a folder that can be written to.
  Result<void> check_folder(FlagId id, std::string path) {
    for (;;) {
      FileFacts facts = host_.probe(path);
      if (facts.kind == FileFacts::Kind::folder) {
        if (facts.writable && facts.executable) return {};
        return options_.blame(id, {ErrorKind::system, fmt::format("{} is not writable", printable(path))});
      }
      if (facts.kind != FileFacts::Kind::missing)
        return options_.blame(id, usage(fmt::format("{} is not a folder", printable(path))));
      std::size_t slash = path.rfind('/');
      if (path == "." || path == "/") return {};
      path = slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
    }
  }

  void list_settings() {
    for (const Flag& row : flags()) {
      if (row.id == FlagId::help || row.id == FlagId::version) continue;
      const RawValue& value = options_[row.id];
      bool given = value.origin != Origin::fallback;
      if (row.group == Group::torchrun && !given) continue;
      std::string origin = value.origin == Origin::flag ? "flag" : given ? value.where : "default";
      plan_.settings.push_back({spelled(row), value.text, origin});
    }
  }

  JobSpec& spec() { return plan_.spec; }

  const RawOptions& raw_;
  const Host& host_;
  Options options_;
  Plan plan_;
};

}  // namespace

Result<Plan> resolve(const RawOptions& raw, const Host& host) { return Resolver(raw, host).run(); }

}  // namespace dtrain::cli
