#pragma once
// Unit: a part of a model that a strategy can shard by itself, such as a block of a transformer. Its parameters become
// whole before its forward, and again before its backward. A model says which modules are units, and nothing of the
// strategy:
//
//   struct BlockImpl : torch::nn::Module {
//     explicit BlockImpl(const Options& options);
//     torch::Tensor forward(torch::Tensor x);
//   };
//   DTRAIN_UNIT(Block);   // in place of TORCH_MODULE(Block)
//
// DTRAIN_UNIT(Name) defines the holder Name of the unit whose implementation is NameImpl. A Block is used as any other
// module holder: in register_module(), in Sequential and ModuleList, as block(x) and block->forward(x). Outside of
// Parallel (parallel.h) it is an ordinary module. unit_of<Impl> is the same for a module that is not yours, such as
// dtrain::unit_of<torch::nn::TransformerEncoderLayerImpl>.
//
// A unit's parameters may be used only while its forward runs. Elsewhere, reading one throws c10::Error with its name.
// What forward takes and returns should be of types that output_tensors.h knows: in other types no tensor is found, and
// the unit then stays whole until backward ends.
#include <c10/util/Type.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dtrain/output_tensors.h"

namespace dtrain {

// What a strategy does around a forward.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;
  // The tensors may be replaced by others with the same values.
  virtual void before_forward(const std::vector<at::Tensor*>& inputs) = 0;
  // `outputs`: none if their type is not known.
  virtual void after_forward(const std::optional<std::vector<at::Tensor*>>& outputs) = 0;
  // It ended with an exception, as before_forward() or after_forward() may.
  virtual void give_up() noexcept = 0;
};

// What a module has, beside what it is, so that a strategy finds it.
class UnitSite {
 public:
  UnitSite() = default;
  // A copy is a module of its own, without a strategy.
  UnitSite(const UnitSite& /*other*/) {}
  UnitSite& operator=(const UnitSite&) = delete;
  virtual ~UnitSite() = default;

  const std::shared_ptr<UnitHooks>& hooks() const { return hooks_; }
  void set_hooks(std::shared_ptr<UnitHooks> hooks) { hooks_ = std::move(hooks); }

 private:
  std::shared_ptr<UnitHooks> hooks_;
};

// Hears of each unit as soon as it is made. A strategy shards the unit then, so that a model that is larger than the
// memory of a rank can be built.
class UnitBuilder {
 public:
  virtual ~UnitBuilder() = default;
  // `type`: the class of the implementation, with its namespaces.
  virtual void built(torch::nn::Module& module, UnitSite& site, const std::string& type) = 0;
  // The one that hears of units that this thread makes; null: nobody. Returns what it was.
  static UnitBuilder* set_current(UnitBuilder* builder);
  static UnitBuilder* current();
};

namespace detail {

// An argument of forward, which may be replaced before forward gets it.
template <class T>
using Held = std::conditional_t<std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>, T,
                                std::remove_cvref_t<T>>;

// Tensors of the caller, which hooks may replace for the time of a forward. An argument of another kind is held.
template <class T>
struct PutBack {
  explicit PutBack(T& /*held*/) {}
  void replaced() {}
};
template <class T>
struct PutBack<T&> {
  explicit PutBack(T& each) : held(each), given(tensors()) {}
  ~PutBack() {
    std::vector<at::Tensor*> found;
    look_into(held, found);
    for (at::Tensor* tensor : found) {
      for (std::size_t i = 0; i < others.size(); ++i) {
        if (!tensor->is_same(others[i])) continue;  // forward has set it
        *tensor = given[i];
        break;
      }
    }
  }
  PutBack(const PutBack&) = delete;
  PutBack& operator=(const PutBack&) = delete;
  void replaced() { others = tensors(); }
  std::vector<at::Tensor> tensors() {
    std::vector<at::Tensor*> found;
    look_into(held, found);
    std::vector<at::Tensor> values;
    for (const at::Tensor* each : found) values.push_back(*each);
    return values;
  }
  T& held;
  std::vector<at::Tensor> given, others;
};

// Calls `forward` on the arguments, with what the hooks do around it.
template <class... Args, class Forward>
decltype(auto) call_with_hooks(const std::shared_ptr<UnitHooks>& keep, const Forward& forward, Args&&... arguments) {
  const std::shared_ptr<UnitHooks> hooks = keep;
  std::tuple<Held<Args&&>...> held(std::forward<Args>(arguments)...);
  std::vector<at::Tensor*> inputs;
  std::apply([&](auto&... each) { (look_into(each, inputs), ...); }, held);
  auto given = std::apply([](auto&... each) { return std::tuple<PutBack<Held<Args&&>>...>(each...); }, held);
  try {
    hooks->before_forward(inputs);
    std::apply([](auto&... each) { (each.replaced(), ...); }, given);
    auto output = std::apply([&](auto&... each) { return forward(static_cast<Args&&>(each)...); }, held);
    hooks->after_forward(output_tensors(output));
    return output;
  } catch (...) {
    hooks->give_up();
    throw;
  }
}

// Its forward has the same signature: Sequential and AnyModule need that.
template <class Impl, class Result, class... Args>
class UnitImpl : public Impl, public UnitSite {
 public:
  template <class... Make>
  requires(std::is_constructible_v<Impl, Make...> &&
           !(sizeof...(Make) == 1 &&
             (std::is_base_of_v<UnitImpl, std::remove_cvref_t<Make>> && ...))) explicit UnitImpl(Make&&... make)
      : Impl(std::forward<Make>(make)...) {
    if (UnitBuilder* const builder = UnitBuilder::current())
      builder->built(*this, *this, c10::demangle(typeid(Impl).name()));
  }
  Result forward(Args... arguments) {
    if (!hooks()) return Impl::forward(std::forward<Args>(arguments)...);
    return call_with_hooks<Args...>(
        hooks(), [this](Args... each) -> Result { return Impl::forward(std::forward<Args>(each)...); },
        std::forward<Args>(arguments)...);
  }
};

template <class Impl, class Method>
struct UnitOf;
template <class Impl, class Class, class Result, class... Args>
struct UnitOf<Impl, Result (Class::*)(Args...)> {
  using Type = UnitImpl<Impl, Result, Args...>;
};
template <class Impl, class Class, class Result, class... Args>
struct UnitOf<Impl, Result (Class::*)(Args...) const> {
  using Type = UnitImpl<Impl, Result, Args...>;
};

}  // namespace detail

// The implementation class of a unit: Impl with the hooks around its forward. Impl has one forward, which returns a
// value and is not a template.
template <class Impl>
using Hooked = typename detail::UnitOf<Impl, decltype(&Impl::forward)>::Type;

template <class Impl>
class unit_of : public torch::nn::ModuleHolder<Hooked<Impl>> {
 public:
  using torch::nn::ModuleHolder<Hooked<Impl>>::ModuleHolder;
};

}  // namespace dtrain

#define DTRAIN_UNIT(Name) TORCH_MODULE_IMPL(Name, ::dtrain::Hooked<Name##Impl>)
