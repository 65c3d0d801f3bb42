// The ResNet of the example against the same network in Python, and under Ddp against one process.
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "dtrain/dtrain.h"
#include "examples/resnet/model.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"
#include "test/support/temp_folder.h"
#include "test/unit/strategies/free_port.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using resnet::ResNet;
using test::by_hand, test::quick;

namespace {

struct Batch {
  torch::Tensor x, y;
};

// The same in every process. For batch norm's means of what a rank sees to be those of the whole batch, both halves
// are the same.
Batch batch_of(bool same_halves) {
  torch::manual_seed(7);
  const torch::Tensor half = torch::randn({3, 3, 40, 40}, torch::kDouble);
  const torch::Tensor other = same_halves ? half : torch::randn({3, 3, 40, 40}, torch::kDouble);
  const torch::Tensor labels = torch::arange(6);
  return {torch::cat({half, other}), same_halves ? labels % 3 : labels % 5};
}

ResNet network(int depth, bool training) {
  torch::manual_seed(1);
  ResNet net(depth, 5);
  net->to(torch::kDouble);
  net->train(training);
  return net;
}

torch::Tensor mean_loss(const torch::Tensor& logits, const torch::Tensor& y) {
  return torch::nn::functional::cross_entropy(logits, y);
}

double relative_difference(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).norm() / b.norm().clamp_min(1e-12)).item<double>();
}

double largest_difference_of_gradients(const torch::nn::Module& a, const torch::nn::Module& b) {
  double largest = 0;
  const auto left = a.parameters();
  const auto right = b.parameters();
  for (std::size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, relative_difference(left[i].grad(), right[i].grad()));
  }
  return largest;
}

// The largest relative difference of gradients between Ddp on `ranks` ranks, each on its part, and one process on all.
std::string ddp_beside_one(int rank, int ranks, std::uint16_t port, bool training) {
  torch::set_num_threads(1);
  const Batch all = batch_of(/*same_halves=*/training);
  Session session = init(by_hand(rank, ranks, port), quick());
  ResNet shared = network(18, training);
  {
    Ddp model(session, shared);
    const auto part = all.x.size(0) / ranks;
    mean_loss(model(all.x.narrow(0, rank * part, part)), all.y.narrow(0, rank * part, part)).backward();
  }
  session.shutdown();
  ResNet alone = network(18, training);
  mean_loss(alone->forward(all.x), all.y).backward();
  const double largest = largest_difference_of_gradients(*shared, *alone);
  return largest < 1e-9 ? "equal" : std::to_string(largest);
}

void check_equal(bool training) {
  const std::uint16_t port = test::free_port();
  const auto outcomes = test::run_ranks(
      2, [&](int rank) { return ddp_beside_one(rank, 2, port, training); }, std::chrono::seconds{100});
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "equal");
}

std::vector<torch::Tensor> read_tensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<torch::Tensor> tensors;
  const c10::IValue all = torch::pickle_load(bytes);
  for (const c10::IValue& item : all.toTupleRef().elements()) tensors.push_back(item.toTensor());
  return tensors;
}

void write_tensors(const std::string& path, const std::vector<torch::Tensor>& tensors) {
  const std::vector<c10::IValue> items(tensors.begin(), tensors.end());
  const auto bytes = torch::pickle_save(c10::ivalue::Tuple::create(items));
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

TEST_CASE("with fixed running means, gradients of two ranks are those of one process on the whole batch") {
  check_equal(/*training=*/false);
}

TEST_CASE("where both ranks see what all see, batch norm changes nothing") { check_equal(/*training=*/true); }

TEST_CASE("forward and backward are those of the same network in Python") {
  const int depth = GENERATE(18, 50);
  CAPTURE(depth);
  const test::TempFolder folder;
  torch::manual_seed(3);
  ResNet net(depth, 10);
  resnet::save_weights(*net, folder / "weights.pt");
  const torch::Tensor x = torch::randn({4, 3, 48, 48});
  const torch::Tensor y = torch::arange(4);
  write_tensors(folder / "input.pt", {x, y});
  const std::string command = std::string("PYTHONDONTWRITEBYTECODE=1 '" DTRAIN_TORCH_PYTHON "' '") +
                              std::getenv("DTRAIN_SOURCE_DIR") + "/test/parity/resnet_reference.py' " +
                              std::to_string(depth) + " 3 '" + folder.path().string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);

  // logits in training mode, the loss, the gradient of each parameter, logits in evaluation mode
  const auto theirs = read_tensors(folder / "output.pt");
  const torch::Tensor logits = net->forward(x);
  const torch::Tensor loss = mean_loss(logits, y);
  loss.backward();
  net->eval();
  const torch::Tensor evaluated = net->forward(x);
  const auto parameters = net->parameters();
  REQUIRE(theirs.size() == parameters.size() + 3);
  CHECK(relative_difference(logits, theirs[0]) < 1e-5);
  CHECK(relative_difference(loss, theirs[1]) < 1e-5);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    CHECK(relative_difference(parameters[i].grad(), theirs[i + 2]) < 1e-5);
  }
  CHECK(relative_difference(evaluated, theirs.back()) < 1e-5);
}

TEST_CASE("the networks have the published numbers of parameters") {
  CHECK(parameter_count(*ResNet(18, 1000)) == 11'689'512);
  CHECK(parameter_count(*ResNet(50, 1000)) == 25'557'032);
  CHECK(parameter_count(*ResNet(50, 10)) == 23'528'522);
  CHECK_THROWS_WITH(ResNet(20, 10), "a ResNet has 18, 34, 50, 101 or 152 layers, not 20");
}

TEST_CASE("weights are taken whole or refused with a line") {
  const test::TempFolder folder;
  const std::string path = folder / "weights.pt";
  ResNet net(18, 10), other(18, 10);
  resnet::save_weights(*net, path);
  resnet::load_weights(*other, path);
  CHECK(torch::equal(net->fc->weight, other->fc->weight));
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(resnet::load_weights(*ResNet(18, 11), path), Contains("another shape of fc.weight"));
  CHECK_THROWS_WITH(resnet::load_weights(*ResNet(34, 10), path), Contains("have no layer1.2.conv1.weight"));
  ResNet deeper(34, 10);
  resnet::save_weights(*deeper, path);
  CHECK_THROWS_WITH(resnet::load_weights(*net, path), Contains("tensors, the network has 122"));
  folder.write("text", "not weights");
  CHECK_THROWS_WITH(resnet::load_weights(*net, folder / "text"), Contains("are not what --save"));
  folder.write("cut", folder.read("weights.pt").substr(0, 100'000));
  CHECK_THROWS_WITH(resnet::load_weights(*net, folder / "cut"), Contains("are not what --save"));
  CHECK_THROWS_WITH(resnet::load_weights(*net, folder / "none"), Contains("cannot open the weights"));
  CHECK_THROWS_WITH(resnet::save_weights(*net, folder / "no/file"), Contains("cannot write the weights"));
}
