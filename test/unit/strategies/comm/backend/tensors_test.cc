// Which tensors and reductions the CPU group takes.
#include "strategies/comm/backend/tensors.h"

#include "test/support/catch.h"

using namespace dtrain;
using Op = c10d::ReduceOp;

namespace {

at::Tensor of(at::ScalarType type) { return at::zeros({2}, type); }

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "taken";
}

}  // namespace

TEST_CASE("each type that is reduced is told by its name") {
  using Types = std::vector<std::pair<at::ScalarType, std::string>>;
  for (const auto& [type, name] : Types{{at::kDouble, "float64"},
                                        {at::kFloat, "float32"},
                                        {at::kHalf, "float16"},
                                        {at::kBFloat16, "bfloat16"},
                                        {at::kComplexDouble, "complex128"},
                                        {at::kComplexFloat, "complex64"},
                                        {at::kLong, "int64"},
                                        {at::kInt, "int32"},
                                        {at::kShort, "int16"},
                                        {at::kChar, "int8"},
                                        {at::kUInt64, "uint64"},
                                        {at::kUInt32, "uint32"},
                                        {at::kUInt16, "uint16"},
                                        {at::kByte, "uint8"},
                                        {at::kBool, "bool"}}) {
    const ElementType element = element_type(of(type));
    CHECK(name_of(element) == name);
    CHECK(size_of(element) == static_cast<std::size_t>(of(type).element_size()));
  }
  CHECK(refusal([] { element_type(of(at::kFloat8_e4m3fn)); }) ==
        "dtrain: CPU reductions do not take Float8_e4m3fn tensors");
}

TEST_CASE("each reduction that torch names is one of ours, or refused with what to do") {
  CHECK(reduction_of(Op::SUM, of(at::kBool)) == Reduction::sum);
  CHECK(reduction_of(Op::AVG, of(at::kComplexFloat)) == Reduction::avg);
  CHECK(reduction_of(Op::PRODUCT, of(at::kComplexDouble)) == Reduction::product);
  CHECK(reduction_of(Op::MIN, of(at::kHalf)) == Reduction::min);
  CHECK(reduction_of(Op::MAX, of(at::kUInt64)) == Reduction::max);
  CHECK(reduction_of(Op::BAND, of(at::kInt)) == Reduction::band);
  CHECK(reduction_of(Op::BOR, of(at::kByte)) == Reduction::bor);
  CHECK(reduction_of(Op::BXOR, of(at::kBool)) == Reduction::bxor);

  const auto refused = [](const Op& op, at::ScalarType type) { return refusal([&] { reduction_of(op, of(type)); }); };
  CHECK(refused(Op::AVG, at::kLong) ==
        "dtrain: AVG of a Long tensor is not defined; it needs a floating-point or complex tensor; use SUM and divide "
        "the result");
  CHECK(refused(Op::MAX, at::kComplexFloat) ==
        "dtrain: MAX of a ComplexFloat tensor is not defined; it needs a tensor of real numbers");
  CHECK(refused(Op::BXOR, at::kFloat) ==
        "dtrain: BXOR of a Float tensor is not defined; it needs an integer or bool tensor");
  CHECK(refused(Op(Op::PREMUL_SUM, c10::make_intrusive<c10d::_SupplementBase>()), at::kFloat) ==
        "dtrain: PREMUL_SUM does not work on CPU tensors; multiply the tensor, then use SUM");
}
