// KeptState: the values of a state go into a slot of the memory side by side, in the order of the pieces.
#include "dtrain/kept_state.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "strategies/background/value_copy.h"
#include "strategies/checkpoint/pieces.h"
#include "strategies/kept/kept_memory.h"
#include "strategies/kept/neighbour_copy.h"
#include "strategies/kept/refill.h"
#include "strategies/kept/restore_plan.h"

namespace dtrain {

struct KeptState::State {
  Group world;
  WorkerEnv env;
  std::optional<kept::KeptMemory> memory{};
  std::optional<kept::KeptMemory> copy{};  // of the state of a rank on another node
  std::string why_not{}, why_no_copy{};
  std::string refused{};
  // Once the ranks have told each other where they are.
  bool met = false;
  std::uint32_t round = 0;  // of the states that are kept from now on
  std::optional<kept::Neighbours> neighbours{};

  std::vector<kept::Told> meet(const std::string& what, const checkpoint::Said& own);
  std::size_t keep_own(const CheckpointState& state);
  const kept::KeptMemory& memory_of(const kept::Place& place) const { return place.memory == 0 ? *memory : *copy; }
};

namespace kept {
namespace {

constexpr std::uint64_t kValueAlign = 64;

// Where the values of a piece lie in a slot.
struct PieceInSlot {
  const StatePiece* piece = nullptr;
  std::uint64_t at = 0, bytes = 0;
};

struct SlotLayout {
  std::vector<PieceInSlot> pieces;
  Identity identity;
};

// FNV-1a, 64 bits: to tell lists of tensors apart.
void mix(std::uint64_t& hash, const void* data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3ULL;
}

SlotLayout slot_layout(const CheckpointState& state, const WorkerEnv& env) {
  SlotLayout layout;
  layout.identity = {static_cast<std::uint32_t>(env.rank), static_cast<std::uint32_t>(env.world_size)};
  std::uint64_t hash = 0xcbf29ce484222325ULL, at = 0;
  for (const auto* list : {&state.model, &state.optimizer}) {
    for (const StatePiece& piece : *list) {
      const std::uint64_t count = checkpoint::wanted_of(piece).count, bytes = count * c10::elementSize(piece.dtype);
      const std::int64_t numbers[] = {static_cast<std::int64_t>(piece.name.size()),
                                      static_cast<std::int64_t>(piece.dtype),
                                      static_cast<std::int64_t>(piece.shape.size())};
      mix(hash, numbers, sizeof numbers);
      mix(hash, piece.name.data(), piece.name.size());
      mix(hash, piece.shape.data(), piece.shape.size() * sizeof(std::int64_t));
      if (count != 0)
        layout.identity.parts.push_back({layout.pieces.size(), static_cast<std::uint64_t>(piece.begin), count, at});
      layout.pieces.push_back({&piece, at, bytes});
      at += (bytes + kValueAlign - 1) / kValueAlign * kValueAlign;
    }
  }
  layout.identity.fingerprint = hash;
  layout.identity.value_bytes = at;
  return layout;
}

at::Tensor tensor_at(std::byte* at, std::uint64_t count, at::ScalarType type) {
  return at::from_blob(at, {static_cast<std::int64_t>(count)}, at::TensorOptions(type));
}

void copy_values(const SlotLayout& layout, std::byte* values) {
  const at::NoGradGuard no_grad;
  background::ValueCopy copy;
  for (const auto& [piece, at, bytes] : layout.pieces) {
    if (bytes == 0) continue;
    if (!piece->values.is_cpu() || !piece->values.is_contiguous()) {
      tensor_at(values + at, checkpoint::wanted_of(*piece).count, piece->dtype).copy_(piece->values);
      continue;
    }
    copy.add(values + at, piece->values.const_data_ptr(), bytes);
  }
  at::parallel_for(0, at::get_num_threads(), 1, [&](std::int64_t, std::int64_t) { copy.run(); });
}

std::vector<StatePiece*> pieces_of(CheckpointState& state) {
  std::vector<StatePiece*> pieces;
  for (auto* list : {&state.model, &state.optimizer})
    for (StatePiece& piece : *list) pieces.push_back(&piece);
  return pieces;
}

// The pieces that were kept are those that are to be filled, but for this rank's part of them.
void require_same_pieces(const SlotLayout& layout, const std::vector<StatePiece*>& wanted) {
  const auto same = [](const PieceInSlot& own, const StatePiece* piece) {
    return own.piece->name == piece->name && own.piece->dtype == piece->dtype && own.piece->shape == piece->shape;
  };
  if (!std::equal(layout.pieces.begin(), layout.pieces.end(), wanted.begin(), wanted.end(), same))
    throw checkpoint::Refused("`kept` has other names, types or shapes of tensors than the state that is to be filled");
  for (const StatePiece* piece : wanted) checkpoint::wanted_of(*piece);
}

// What this rank says before a state is chosen.
Told told_of(const SlotLayout& layout, const std::vector<StatePiece*>& wanted, int node) {
  Told told;
  told.fingerprint = layout.identity.fingerprint;
  told.node = node;
  for (const StatePiece* piece : wanted)
    told.wanted.emplace_back(static_cast<std::uint64_t>(piece->begin), checkpoint::wanted_of(*piece).count);
  return told;
}

}  // namespace
}  // namespace kept

KeptState::KeptState(const Session& session) : state_(new State{session.world(), session.env()}) {
  State& self = *state_;
  self.round = static_cast<std::uint32_t>(self.env.round);
  if (self.env.state_fd >= 0)
    self.memory.emplace(self.env.state_fd);
  else
    self.why_not = "no kept state here: the workers were not started with `dtrain run --keep-state`";
  if (self.env.state_copy_fd >= 0)
    self.copy.emplace(self.env.state_copy_fd, "DTRAIN_STATE_COPY_FD");
  else
    self.why_no_copy = "no second copy of the kept state: the workers were not started with `dtrain run --copy-state`";
}
KeptState::~KeptState() = default;
KeptState::KeptState(KeptState&&) noexcept = default;
KeptState& KeptState::operator=(KeptState&&) noexcept = default;

bool KeptState::here() const { return state_->memory.has_value(); }
const std::string& KeptState::why_not() const { return state_->why_not; }
const std::string& KeptState::refused() const { return state_->refused; }

const std::string& KeptState::why_no_copy() const { return state_->why_no_copy; }

// Collective. What all ranks tell, and by it the neighbours: the same result on all of them.
std::vector<kept::Told> KeptState::State::meet(const std::string& what, const checkpoint::Said& own) {
  std::vector<kept::Told> of_ranks;
  for (const std::string& text : checkpoint::exchange(world, what, own)) of_ranks.push_back(kept::parse_told(text));
  met = true;
  neighbours.reset();
  std::vector<int> nodes;
  std::size_t with_copies = 0;
  for (const kept::Told& told : of_ranks) {
    nodes.push_back(told.node);
    with_copies += told.copies ? 1 : 0;
  }
  if (with_copies == 0) return of_ranks;
  if (with_copies < of_ranks.size())
    throw CheckpointError("dtrain: some workers were started with `dtrain run --copy-state`, and others were not");
  neighbours = kept::neighbours(nodes, env.rank);
  why_no_copy =
      neighbours ? "" : "no second copy of the kept state in this round: a node has more than half of the ranks";
  return of_ranks;
}

// The slot that has the state.
std::size_t KeptState::State::keep_own(const CheckpointState& state) {
  if (state.step < 0) throw checkpoint::Refused("the step is below 0");
  const kept::SlotLayout layout = kept::slot_layout(state, env);
  const std::string_view extra = env.rank == 0 ? std::string_view(state.extra) : std::string_view();
  if (extra.size() > kept::kExtraBytes)
    throw checkpoint::Refused(
        fmt::format("`extra` has {} bytes, and there is room for {}", extra.size(), kept::kExtraBytes));
  memory->make_room(layout.identity);
  const std::size_t slot = memory->begin();
  kept::copy_values(layout, memory->values(slot));
  std::transform(extra.begin(), extra.end(), memory->extra(slot), [](char c) { return static_cast<std::byte>(c); });
  memory->commit(slot, {{round, state.step}, extra.size()});
  return slot;
}

void KeptState::keep(const CheckpointState& state) {
  if (!here()) return;
  State& self = *state_;
  const std::string what = fmt::format("rank {} cannot keep the state of step {}", self.env.rank, state.step);
  if (self.copy && !self.met) {
    kept::Told own;
    own.node = self.env.group_rank;
    own.copies = true;
    self.meet(what, {{}, kept::told_text(own)});
  }
  std::optional<std::size_t> slot;
  std::string failure = checkpoint::failure_of([&] { slot = self.keep_own(state); });
  if (self.neighbours) {
    try {
      kept::exchange_copies(self.world, *self.neighbours, *self.memory, slot, *self.copy);
    } catch (const checkpoint::Refused& refused) {
      failure = fmt::format("the copy of rank {}'s state: {}", self.neighbours->from, refused.what());
    }
  }
  if (!failure.empty()) throw CheckpointError(fmt::format("dtrain: {}: {}", what, failure));
}

std::optional<Loaded> KeptState::restore(CheckpointState& state, const CheckpointState* kept, std::int64_t at_least) {
  State& self = *state_;
  const std::string what = "the kept state cannot be restored";
  kept::SlotLayout layout;
  checkpoint::Said own;
  const auto wanted = kept::pieces_of(state);
  own.failure = checkpoint::failure_of([&] {
    layout = kept::slot_layout(kept != nullptr ? *kept : state, self.env);
    kept::require_same_pieces(layout, wanted);
    kept::Told told = kept::told_of(layout, wanted, self.env.group_rank);
    told.memories.push_back(here() ? self.memory->find(told.fingerprint) : kept::nothing_kept());
    if (!here()) told.memories.back().why_not = self.why_not;
    if (self.copy) told.memories.push_back(self.copy->find(told.fingerprint));
    told.copies = self.copy.has_value();
    own.text = kept::told_text(told);
  });
  const std::vector<kept::Told> of_ranks = self.meet(what, own);
  const kept::Choice choice = kept::choose(of_ranks);
  self.refused = choice.refused;
  self.round = std::max(self.round, kept::stamped_round(of_ranks, self.env.round));
  if (!choice.stamp || choice.stamp->step < at_least) return std::nullopt;
  const kept::Stamp stamp = *choice.stamp;
  kept::refill(self.world, what, of_ranks, stamp, wanted, [&](const kept::Place& place, std::uint64_t values) {
    return self.memory_of(place).values(place.slot) + values;
  });
  own = {};
  const auto first = kept::place_of(of_ranks, stamp, 0, 0);
  if (first->rank == self.env.rank) {
    const kept::KeptMemory& memory = self.memory_of(*first);
    own.text.assign(reinterpret_cast<const char*>(memory.extra(first->slot)),
                    memory.found().slots[first->slot]->extra_bytes);
  }
  state.extra = checkpoint::exchange(self.world, what, own)[static_cast<std::size_t>(first->rank)];
  state.step = stamp.step;
  // A later step, which not all ranks have, is made anew: its slot is the next one to be filled.
  if (here()) self.memory->forget_after(stamp);
  if (self.copy) self.copy->forget_after(stamp);
  Loaded loaded{state.step, state.extra, self.world.size(), {}};
  loaded.from_memory = true;
  return loaded;
}

}  // namespace dtrain
