// Saving: rank 0 makes a folder with the files, each rank writes its values into them, rank 0 the headers too, and rank
// 0 renames the folder when all have told the sums of their values. In the background threads do all but what ranks
// tell each other.
#include <signal.h>

#include <filesystem>

#include "dtrain/checkpoint.h"
#include "strategies/background/low_priority.h"
#include "strategies/background/value_copy.h"
#include "strategies/checkpoint/pieces.h"
#include "strategies/checkpoint/range_file.h"
#include "strategies/comm/base/signals_blocked.h"

namespace dtrain::checkpoint {
namespace {

constexpr std::size_t kStagingAlign = 64;

std::vector<TensorSpec> specs_of(const std::vector<StatePiece>& pieces) {
  std::vector<TensorSpec> specs;
  for (const StatePiece& piece : pieces) specs.push_back(wanted_of(piece).tensor);
  return specs;
}

// Its values where a thread can write them from: on the CPU, and contiguous.
at::Tensor flat_values(const StatePiece& piece) { return piece.values.detach().to(at::kCPU).contiguous(); }

std::size_t aligned(std::size_t bytes) { return (bytes + kStagingAlign - 1) / kStagingAlign * kStagingAlign; }

using ValueCopyPtr = std::shared_ptr<background::ValueCopy>;

void make_staging(Checkpoints::State& self, const CheckpointState& state) {
  std::size_t bytes = 0;
  for (const auto* list : {&state.model, &state.optimizer})
    for (const StatePiece& piece : *list)
      if (piece.values.defined()) bytes += aligned(static_cast<std::size_t>(piece.values.nbytes()));
  if (!self.staging.defined() || static_cast<std::size_t>(self.staging.numel()) < bytes)
    self.staging = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
}

// Copies the values, or leaves that to `later`.
void copy_or_leave(const at::Tensor& to, const StatePiece& piece, const ValueCopyPtr& later) {
  if (!later || piece.changes || !piece.values.is_cpu() || !piece.values.is_contiguous()) {
    to.copy_(piece.values);
    return;
  }
  later->add(to.mutable_data_ptr(), piece.values.const_data_ptr(), piece.values.nbytes(),
             std::make_shared<const at::Tensor>(piece.values));
}

// The values themselves; or a copy of them in the staging memory, of which a part may be left to `later`.
void take_values(Checkpoints::State& self, Attempt& attempt, const CheckpointState& state, bool copied,
                 const ValueCopyPtr& later = nullptr) {
  const at::NoGradGuard no_grad;
  if (copied) make_staging(self, state);
  std::size_t at = 0;
  std::size_t half = 0;
  for (const auto* list : {&state.model, &state.optimizer}) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      const StatePiece& piece = (*list)[i];
      if (!piece.values.defined() || piece.values.numel() == 0) continue;
      at::Tensor values;
      if (copied) {
        values = at::from_blob(self.staging.mutable_data_ptr<std::uint8_t>() + at, piece.values.sizes(),
                               at::TensorOptions(piece.dtype));
        copy_or_leave(values, piece, later);
        at += aligned(static_cast<std::size_t>(values.nbytes()));
      } else {
        values = flat_values(piece);
      }
      attempt.halves[half].parts.push_back({i, static_cast<std::uint64_t>(piece.begin),
                                            static_cast<std::uint64_t>(values.numel()), values.const_data_ptr()});
      attempt.values.push_back(std::move(values));
    }
    ++half;
  }
}

// Collective. The layout, on all ranks; the folder and the files, by rank 0.
std::unique_ptr<Attempt> begin(Checkpoints::State& self, const CheckpointState& state) {
  self.removal.join();
  auto attempt = std::make_unique<Attempt>();
  attempt->step = state.step;
  attempt->extra = state.extra;
  std::string same;
  Said own;
  own.failure = failure_of([&] {
    if (state.step < 0) throw Refused("the step is below 0");
    const auto most = static_cast<std::uint64_t>(std::max<std::int64_t>(self.options.max_file_bytes, 0));
    attempt->halves.push_back({plan_layout(specs_of(state.model), "model", most), {}, {}});
    attempt->halves.push_back({plan_layout(specs_of(state.optimizer), "optimizer", most), {}, {}});
    same = fmt::format("{} {} {} {}", state.step, most, fingerprint(attempt->halves[0].layout.tensors),
                       fingerprint(attempt->halves[1].layout.tensors));
    if (self.group.rank() != 0) return;
    manifest_text({state.step, self.group.size(), {}, state.extra});  // is it JSON?
    attempt->path = begin_attempt(self.folder, state.step);
    for (const auto& half : attempt->halves) make_files(attempt->path, half.layout);
  });
  own.text = fmt::format("{}\n{}", same, attempt->path);
  try {
    const auto all = exchange(self.group, attempt->what(), own);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].substr(0, all[rank].find('\n')) != all[0].substr(0, all[0].find('\n')))
        throw CheckpointError(
            fmt::format("dtrain: {}: rank {} gives another step, or other names, types or shapes of "
                        "tensors, than rank {}",
                        attempt->what(), self.group.ranks()[rank], self.group.ranks()[0]));
    attempt->path = all[0].substr(all[0].find('\n') + 1);
  } catch (...) {
    std::error_code error;
    if (self.group.rank() == 0 && !attempt->path.empty()) std::filesystem::remove_all(attempt->path, error);
    throw;
  }
  return attempt;
}

// The manifest, of the sums of all ranks.
Manifest manifest_of(const Checkpoints::State& self, const Attempt& attempt, const std::vector<std::string>& said) {
  Manifest manifest{attempt.step, self.group.size(), {}, attempt.extra};
  for (std::size_t half = 0; half < attempt.halves.size(); ++half) {
    const Layout& layout = attempt.halves[half].layout;
    std::vector<std::vector<PartSum>> of_ranks;
    for (const std::string& text : said) {
      const std::size_t middle = text.find('|');
      of_ranks.push_back(
          parse_sums(half == 0 ? std::string_view(text).substr(0, middle) : std::string_view(text).substr(middle + 1)));
    }
    const auto whole = whole_sums(layout.tensors, of_ranks);
    for (const PlannedFile& planned : layout.files) {
      ManifestFile file{planned.name, planned.bytes, {}};
      for (const std::size_t i : planned.tensors) {
        const std::string& name = layout.tensors[i].name;
        if (!whole[i].covered)
          throw Refused(fmt::format("the parts of {} are not the whole: {}", shown(name), whole[i].why));
        file.sums[name] = whole[i].sum;
      }
      manifest.files.push_back(std::move(file));
    }
  }
  return manifest;
}

void write_values(const Checkpoints::State& self, Attempt& attempt, Way way) {
  const bool sync = self.options.sync, first = self.group.rank() == 0;
  if (first)
    for (const auto& half : attempt.halves) begin_files(attempt.path, half.layout);
  for (auto& half : attempt.halves) half.sums = write_parts(attempt.path, half.layout, half.parts, sync, way);
  if (!sync || !first) return;
  for (const auto& half : attempt.halves)  // the headers, and the sizes of files to which rank 0 added nothing
    for (const PlannedFile& file : half.layout.files)
      RangeFile(attempt.path + "/" + file.name, RangeFile::Use::write).sync();
}

void finish_save(Checkpoints::State& self, const Attempt& attempt, const std::vector<std::string>& said) {
  const Manifest manifest = manifest_of(self, attempt, said);
  const bool sync = self.options.sync;
  for (const auto& half : attempt.halves) {
    if (half.layout.files.size() <= 1) continue;
    const std::string& first = half.layout.files[0].name;
    write_whole(fmt::format("{}/{}.safetensors.index.json", attempt.path, first.substr(0, first.find('-'))),
                index_text(half.layout), sync);
  }
  write_whole(attempt.path + "/" + kManifestName, manifest_text(manifest), sync);
  finish_attempt(self.folder, attempt.path, attempt.step, sync);
  self.removal.begin(take_old_steps(self.folder, attempt.step, self.options.keep_last));
}

// Collective: this stage is over on all ranks. Begins the next one, or ends the attempt.
void next_stage(Checkpoints::State& self, bool in_background) {
  Attempt& attempt = *self.in_flight;
  attempt.join();
  const bool first = self.group.rank() == 0;
  Said own{attempt.failure, {}};
  if (!attempt.finishing)
    own.text = fmt::format("{}|{}", sums_text(attempt.halves[0].sums), sums_text(attempt.halves[1].sums));
  try {
    std::vector<std::string> said = exchange(self.group, attempt.what(), own);
    if (attempt.finishing) return self.in_flight.reset();
    attempt.finishing = true;
    attempt.values.clear();
    if (!first) return;  // `done` stays
    if (!in_background) return attempt.carry_out([&] { finish_save(self, attempt, said); });
    attempt.begin([&self, &attempt, said = std::move(said)] {
      background::take_lowest_priority();
      finish_save(self, attempt, said);
    });
  } catch (const CheckpointError&) {
    std::error_code error;
    if (first) std::filesystem::remove_all(attempt.path, error);
    self.in_flight.reset();
    throw;
  } catch (...) {
    self.in_flight.reset();
    throw;
  }
}

}  // namespace

void Attempt::carry_out(const std::function<void()>& body) {
  failure = failure_of(body);
  done = true;
}

bool Attempt::begin(std::function<void()> body) {
  done = false;
  const std::string no_thread = failure_of([&] {
    const SignalsBlocked blocked;
    thread = std::thread([this, body = std::move(body)] { carry_out(body); });
  });
  if (no_thread.empty()) return true;
  failure = no_thread;
  done = true;
  return false;
}

void Removal::begin(std::vector<std::string> folders) {
  join();
  if (folders.empty()) return;
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([folders] {
      background::take_lowest_priority();
      remove_folders(folders);
    });
  } catch (const std::system_error&) {  // there is no thread
    remove_folders(folders);
  }
}

}  // namespace dtrain::checkpoint

namespace dtrain {

Checkpoints::Checkpoints(Group group, std::string folder, CheckpointOptions options)
    : state_(new State{std::move(group), std::move(folder), options}) {}
Checkpoints::~Checkpoints() = default;
Checkpoints::Checkpoints(Checkpoints&&) noexcept = default;
Checkpoints& Checkpoints::operator=(Checkpoints&&) noexcept = default;

void Checkpoints::save(const CheckpointState& state) {
  wait();
  state_->in_flight = checkpoint::begin(*state_, state);
  checkpoint::Attempt& attempt = *state_->in_flight;
  attempt.carry_out([&] {
    checkpoint::take_values(*state_, attempt, state, false);
    checkpoint::write_values(*state_, attempt, checkpoint::Way::page_cache);
  });
  wait();
}

PendingCopy Checkpoints::save_async(const CheckpointState& state, Copy copy) {
  wait();
  state_->in_flight = checkpoint::begin(*state_, state);
  checkpoint::Attempt& attempt = *state_->in_flight;
  checkpoint::ValueCopyPtr later;
  if (copy == Copy::in_background) later = std::make_shared<background::ValueCopy>();
  attempt.carry_out([&] { checkpoint::take_values(*state_, attempt, state, true, later); });
  if (!attempt.failure.empty()) return {};
  const bool begun = attempt.begin([self = state_.get(), &attempt, later]() mutable {
    if (later) later->run();  // at the priority of training, which will wait for it
    later.reset();
    background::take_lowest_priority();
    checkpoint::write_values(*self, attempt, checkpoint::Way::past_it);
  });
  return begun ? PendingCopy(std::move(later)) : PendingCopy();
}

bool Checkpoints::poll() {
  if (!state_->in_flight) return true;
  const auto said = checkpoint::exchange(state_->group, state_->in_flight->what(),
                                         {{}, state_->in_flight->done ? "done" : "at work"});
  for (const std::string& text : said)
    if (text != "done") return false;
  checkpoint::next_stage(*state_, true);
  return state_->in_flight == nullptr;
}

void Checkpoints::wait() {
  while (state_->in_flight) checkpoint::next_stage(*state_, false);
}

}  // namespace dtrain
