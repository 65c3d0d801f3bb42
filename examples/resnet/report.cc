// See report.h.
#include "examples/resnet/report.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace resnet {
namespace {

// Better now than after hours of training.
void require_writable(const std::string& path) {
  if (path.empty()) return;
  const std::string beside = path + ".new";
  const bool writable = std::ofstream(beside).is_open();
  std::remove(beside.c_str());
  if (!writable) throw std::runtime_error("cannot write " + path);
}

}  // namespace

double steady_images_per_second(const std::vector<Epoch>& epochs) {
  if (epochs.empty()) return 0;
  std::vector<double> rates;
  for (const Epoch& epoch : epochs) rates.push_back(epoch.images_per_second);
  if (rates.size() > 1) rates.erase(rates.begin());
  std::sort(rates.begin(), rates.end());
  return (rates[(rates.size() - 1) / 2] + rates[rates.size() / 2]) / 2;
}

Report::Report(const Settings& settings, const Job& job, bool quiet)
    : settings_(settings), job_(job), quiet_(quiet), terminal_(::isatty(STDOUT_FILENO) == 1) {
  if (quiet_) return;
  require_writable(settings_.json);
  require_writable(settings_.save);
  std::printf("ResNet-%d, %.1f million parameters, on %lld %s of %lld x %lld pixels\n", settings_.depth,
              static_cast<double>(job_.parameters) / 1e6, static_cast<long long>(job_.train_images),
              settings_.files.empty() ? "synthetic pictures" : "images", static_cast<long long>(settings_.image_size),
              static_cast<long long>(settings_.image_size));
  std::printf("%d %s on %s, %d %s each, %s, %lld images an update\n", job_.ranks,
              job_.ranks == 1 ? "process" : "processes", job_.device.c_str(), job_.threads,
              job_.threads == 1 ? "thread" : "threads", settings_.horovod ? "Horovod's optimizer" : "DDP",
              static_cast<long long>(job_.global_batch));
  std::fflush(stdout);
  if (settings_.loss_csv.empty()) return;
  loss_csv_.open(settings_.loss_csv);
  loss_csv_ << "step,loss\n" << std::setprecision(9);
  if (!loss_csv_) throw std::runtime_error("cannot write " + settings_.loss_csv);
}

void Report::step(std::int64_t step, std::int64_t steps, double loss) {
  if (loss_csv_.is_open()) loss_csv_ << steps_done_ << ',' << loss << '\n';
  ++steps_done_;
  if (quiet_ || !terminal_) return;
  std::printf("\repoch %zu/%d  step %lld/%lld  loss %.4f ", epochs_.size() + 1, settings_.epochs,
              static_cast<long long>(step) + 1, static_cast<long long>(steps), loss);
  std::fflush(stdout);
}

void Report::epoch(const Epoch& epoch) {
  epochs_.push_back(epoch);
  if (quiet_) return;
  std::printf("%sepoch %zu/%d  loss %.4f  accuracy %.2f %%  %.1f images/s, %.1f a process\n",
              terminal_ ? "\r\033[K" : "", epochs_.size(), settings_.epochs, epoch.loss, 100 * epoch.accuracy,
              epoch.images_per_second, epoch.images_per_second / job_.ranks);
  std::fflush(stdout);
}

void Report::finish(double test_loss, double test_accuracy) {
  if (quiet_) return;
  std::printf("test of %lld: loss %.6f  accuracy %.2f %%", static_cast<long long>(job_.test_images), test_loss,
              100 * test_accuracy);
  if (!epochs_.empty()) {
    const double rate = steady_images_per_second(epochs_);
    std::printf("  training %.1f images/s, %.1f a process", rate, rate / job_.ranks);
  }
  std::printf("\n");
  std::fflush(stdout);
  if (loss_csv_.is_open() && !loss_csv_.flush()) throw std::runtime_error("cannot write " + settings_.loss_csv);
  if (!settings_.json.empty()) write_json(test_loss, test_accuracy);
}

void Report::write_json(double test_loss, double test_accuracy) const {
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (const Epoch& epoch : epochs_) {
    epochs.push_back(
        {{"loss", epoch.loss}, {"accuracy", epoch.accuracy}, {"images_per_second", epoch.images_per_second}});
  }
  const double rate = steady_images_per_second(epochs_);
  const nlohmann::ordered_json all = {{"ranks", job_.ranks},
                                      {"images_per_second", rate},
                                      {"images_per_second_a_process", rate / job_.ranks},
                                      {"test_loss", test_loss},
                                      {"test_accuracy", test_accuracy},
                                      {"depth", settings_.depth},
                                      {"parameters", job_.parameters},
                                      {"classes", settings_.classes},
                                      {"image_size", settings_.image_size},
                                      {"data", settings_.files.empty() ? "synthetic" : "files"},
                                      {"train_images", job_.train_images},
                                      {"test_images", job_.test_images},
                                      {"global_batch", job_.global_batch},
                                      {"strong", settings_.strong},
                                      {"strategy", settings_.horovod ? "horovod" : "ddp"},
                                      {"device", job_.device},
                                      {"threads", job_.threads},
                                      {"lr", settings_.lr},
                                      {"seed", settings_.seed},
                                      {"epochs", epochs}};
  std::ofstream file(settings_.json);
  file << all.dump() << '\n';
  file.close();
  if (!file) throw std::runtime_error("cannot write " + settings_.json);
}

}  // namespace resnet
