// Ddp's gradients as memory of the program: in forked children, for complex numbers, and when they are cleared.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

using namespace dtrain;
using test::on_ranks;

namespace {

// 64 x 64 ones, whose gradients in buckets are shared memory.
struct Model {
  explicit Model(Session& session) : ddp(session, layer, {.gradient_as_bucket_view = true}) {
    const torch::NoGradGuard no_grad;
    layer->weight.fill_(1);
    layer->bias.fill_(1);
  }
  float step(Session& session, int number) {
    ddp.zero_grad();
    ddp(torch::full({2, 64}, static_cast<float>(number % 5 + session.rank()))).sum().backward();
    return layer->weight.grad().sum().item<float>();
  }
  torch::nn::Linear layer{64, 64};
  Ddp<torch::nn::LinearImpl> ddp;
};

// The average over two ranks.
float expected(int number) { return 64 * 64 * (2.0F * static_cast<float>(number % 5) + 1); }

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

struct Waves : torch::nn::Module {
  explicit Waves(int rank) {
    wave = register_parameter("wave", torch::full({3, 8}, c10::complex<float>(1, 2), torch::kComplexFloat));
    real = register_parameter("real", torch::ones({3, 2}));
    phase = register_buffer("phase", torch::full({1, 3}, c10::complex<float>(1, static_cast<float>(rank))));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor waves = torch::matmul(x, wave.t()) * phase;
    return torch::matmul(torch::real(waves) + torch::imag(waves), real).sum();
  }
  torch::Tensor wave, real, phase;
};

}  // namespace

#ifdef __SANITIZE_ADDRESS__
const pid_t kTest = ::getpid();

// LeakSanitizer asks at exit(). A forked child lacks the threads of its parent, so what only they held looks lost
// there.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {  // NOLINT(bugprone-reserved-identifier)
  return ::getpid() == kTest ? 0 : 1;
}
#endif

TEST_CASE("a forked child that changes gradients changes its own") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    Model model(session);
    model.step(session, 1);
    const pid_t child = ::fork();
    if (child == 0) {
      model.layer->weight.mutable_grad().mul_(0);
      ::_exit(model.layer->weight.grad().sum().item<float>() == 0 ? 0 : 1);
    }
    if (status_of(child) != 0) return "the child's own gradients did not change";
    session.barrier();
    return model.layer->weight.grad().sum().item<float>() == expected(1) ? "whole" : "changed";
  });
  for (const std::string& one : said) CHECK(one == "whole");
}

TEST_CASE("a forked child that goes on writing disturbs no step") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    Model model(session);
    model.step(session, 0);
    int wrote[2];
    if (::pipe(wrote) != 0) return "no pipe";
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      while (true) {
        model.layer->weight.mutable_grad().fill_(1e9);
        if (::write(wrote[1], "!", 1) != 1) ::_exit(1);
      }
    }
    char byte = 0;
    std::string wrong = ::read(wrote[0], &byte, 1) == 1 ? "" : "the child did not write; ";
    for (int number = 0; number < 200; ++number) {
      if (model.step(session, number) != expected(number)) wrong += std::to_string(number) + " ";
    }
    ::kill(child, SIGKILL);
    status_of(child);
    return wrong;
  });
  for (const std::string& one : said) CHECK(one.empty());
}

TEST_CASE("a forked child may end by exit(), and end all that it inherited") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    Model model(session);
    static std::optional<Session> of_the_child;  // destroyed by exit()
    for (const bool by_exit : {false, true}) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(60);
        const auto backend = session.group()->getBackend(torch::kCPU);
        backend->abort();
        backend->shutdown();
        if (!by_exit) ::_exit(0);
        of_the_child.emplace(std::move(session));
        std::exit(0);
      }
      if (const int status = status_of(child); status != 0) return "a child ended with " + std::to_string(status);
      if (model.step(session, 1) != expected(1)) return "another gradient";
    }
    return "whole";
  });
  for (const std::string& one : said) CHECK(one == "whole");
}

TEST_CASE("complex parameters have the gradients of one process, beside real ones") {
  for (const bool views : {false, true}) {
    const auto said = on_ranks(2, [views](Session& session) -> std::string {
      const auto module = std::make_shared<Waves>(session.rank());
      Ddp model(session, module, {.gradient_as_bucket_view = views});
      Waves plain(0);
      std::string wrong;
      for (int step = 0; step < 3; ++step) {
        model.zero_grad();
        plain.zero_grad();
        for (int rank = 0; rank < 2; ++rank) {
          const auto x = torch::full({2, 8}, c10::complex<float>(static_cast<float>(step), static_cast<float>(rank)));
          (plain.forward(x) / 2).backward();
          if (rank == session.rank()) model(x).backward();
        }
        if (!torch::equal(module->wave.grad(), plain.wave.grad())) wrong += "wave ";
        if (!torch::equal(module->real.grad(), plain.real.grad())) wrong += "real ";
      }
      return wrong;
    });
    for (const std::string& one : said) CHECK(one.empty());
  }
}

TEST_CASE("gradients that are views of buckets are cleared as any others") {
  const auto said = on_ranks(2, [](Session& session) -> std::string {
    Model model(session);
    torch::optim::SGD sgd(model.layer->parameters(), 0.1);
    for (int step = 0; step < 4; ++step) {
      for (const bool to_none : {true, false}) {
        sgd.zero_grad(to_none);
        model.ddp(torch::full({2, 64}, 1.0F + static_cast<float>(session.rank()))).sum().backward();
        if (model.layer->weight.grad().sum().item<float>() != 64 * 64 * 3) return "sums of several steps";
      }
      model.layer->zero_grad(false);
      if (model.layer->weight.grad().abs().sum().item<float>() != 0) return "not cleared";
    }
    return "cleared";
  });
  for (const std::string& one : said) CHECK(one == "cleared");
}
