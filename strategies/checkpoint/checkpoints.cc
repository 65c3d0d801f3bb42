// Saving: rank 0 makes a folder with the files' headers, each rank writes its values into the files, and rank 0 renames
// the folder when all have told the sums of their values.
#include <signal.h>

#include <filesystem>

#include "dtrain/checkpoint.h"
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

// The values themselves; or a copy of them in the staging memory.
void take_values(Checkpoints::State& self, Attempt& attempt, const CheckpointState& state, bool copied) {
  const at::NoGradGuard no_grad;
  std::size_t bytes = 0;
  for (const auto* list : {&state.model, &state.optimizer})
    for (const StatePiece& piece : *list)
      if (piece.values.defined()) bytes += aligned(static_cast<std::size_t>(piece.values.nbytes()));
  if (copied && (!self.staging.defined() || static_cast<std::size_t>(self.staging.numel()) < bytes))
    self.staging = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
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
        values.copy_(piece.values);
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

void finish_save(Checkpoints::State& self, const Attempt& attempt, const std::vector<std::string>& said) {
  const Manifest manifest = manifest_of(self, attempt, said);
  const bool sync = self.options.sync;
  for (const auto& half : attempt.halves) {
    if (sync)  // the headers, and the sizes of files to which rank 0 added nothing
      for (const PlannedFile& file : half.layout.files)
        RangeFile(attempt.path + "/" + file.name, RangeFile::Use::write).sync();
    if (half.layout.files.size() > 1) {
      const std::string& first = half.layout.files[0].name;
      write_whole(fmt::format("{}/{}.safetensors.index.json", attempt.path, first.substr(0, first.find('-'))),
                  index_text(half.layout), sync);
    }
  }
  write_whole(attempt.path + "/" + kManifestName, manifest_text(manifest), sync);
  finish_attempt(self.folder, attempt.path, attempt.step, sync);
  remove_old_steps(self.folder, attempt.step, self.options.keep_last);
}

// Collective. Whether each rank has written its part, and the last steps of rank 0.
void commit(Checkpoints::State& self, std::unique_ptr<Attempt> attempt) {
  if (attempt->writer.joinable()) attempt->writer.join();
  Said own{attempt->failure, {}};
  own.text = fmt::format("{}|{}", sums_text(attempt->halves[0].sums), sums_text(attempt->halves[1].sums));
  const bool first = self.group.rank() == 0;
  try {
    const auto said = exchange(self.group, attempt->what(), own);
    const std::string failure = first ? failure_of([&] { finish_save(self, *attempt, said); }) : "";
    exchange(self.group, attempt->what(), {failure, {}});
  } catch (const CheckpointError&) {
    std::error_code error;
    if (first) std::filesystem::remove_all(attempt->path, error);
    throw;
  }
}

}  // namespace

void Attempt::write(bool sync) {
  failure = failure_of([&] {
    for (Half& half : halves) half.sums = write_parts(path, half.layout, half.parts, sync);
  });
  written = true;
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
  auto attempt = checkpoint::begin(*state_, state);
  attempt->failure = checkpoint::failure_of([&] { checkpoint::take_values(*state_, *attempt, state, false); });
  if (attempt->failure.empty()) attempt->write(state_->options.sync);
  checkpoint::commit(*state_, std::move(attempt));
}

void Checkpoints::save_async(const CheckpointState& state) {
  wait();
  auto attempt = checkpoint::begin(*state_, state);
  attempt->failure = checkpoint::failure_of([&] { checkpoint::take_values(*state_, *attempt, state, true); });
  if (!attempt->failure.empty()) attempt->written = true;
  if (attempt->failure.empty()) {
    const std::string failure = checkpoint::failure_of([&] {
      const SignalsBlocked blocked;
      attempt->writer = std::thread([one = attempt.get(), sync = state_->options.sync] { one->write(sync); });
    });
    if (!failure.empty()) {  // no thread
      attempt->failure = failure;
      attempt->written = true;
    }
  }
  state_->in_flight = std::move(attempt);
}

bool Checkpoints::poll() {
  if (!state_->in_flight) return true;
  const auto said = checkpoint::exchange(state_->group, state_->in_flight->what(),
                                         {{}, state_->in_flight->written ? "written" : "writing"});
  for (const std::string& text : said)
    if (text != "written") return false;
  checkpoint::commit(*state_, std::move(state_->in_flight));
  return true;
}

void Checkpoints::wait() {
  if (state_->in_flight) checkpoint::commit(*state_, std::move(state_->in_flight));
}

}  // namespace dtrain
