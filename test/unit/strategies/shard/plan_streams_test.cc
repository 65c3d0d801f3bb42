// What a plan gives the streams and events of a device. Here is none, so this one writes down what it is told.
#include "strategies/shard/plan_streams.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

constexpr auto kNotes = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kNotes, 0);

struct NotedDevice {
  std::vector<std::string> notes;
  c10::StreamId current = 0, made = 0;
  std::size_t events = 0, destroyed = 0;
};
NotedDevice& noted() {
  static NotedDevice device;
  return device;
}

class NotesImpl final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kNotes; }
  c10::Device exchangeDevice(c10::Device /*device*/) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device /*device*/) const override {}
  void uncheckedSetDevice(c10::Device /*device*/) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device /*device*/) const override { return stream(noted().current); }
  c10::Stream getStreamFromGlobalPool(c10::Device /*device*/, bool /*high*/) const override {
    return stream(++noted().made);
  }
  c10::Stream exchangeStream(c10::Stream to) const override { return stream(std::exchange(noted().current, to.id())); }
  void record(void** event, const c10::Stream& on, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) *event = new std::size_t(noted().events++);
    note("records", *event, on);
  }
  void block(void* event, const c10::Stream& its) const override { note("waits for", event, its); }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    if (event == nullptr) return;
    ++noted().destroyed;
    delete static_cast<std::size_t*>(event);
  }

 private:
  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }
  static void note(const char* what, void* event, const c10::Stream& on) {
    noted().notes.push_back(fmt::format("{} {} {}", on.id(), what, *static_cast<std::size_t*>(event)));
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, NotesImpl)

using Action = UnshardCore::Action;

}  // namespace

TEST_CASE("an action runs on its stream, after what it waits for and before what it records") {
  noted() = {};
  {
    UnshardCore core({{}, {}}, 1);
    PlanStreams streams(kDevice, core.events());
    REQUIRE(streams.are_there());
    const auto all = [&](const UnshardCore::Actions& actions) {
      for (const Action& each : actions) {
        streams.carry_out(each, [&] {
          noted().notes.push_back(
              fmt::format("{} does {} of {}", noted().current, static_cast<int>(each.what), each.group));
        });
      }
      return std::exchange(noted().notes, {});
    };
    const auto did = [](int stream, UnshardCore::Do what, int group) {
      return fmt::format("{} does {} of {}", stream, static_cast<int>(what), group);
    };
    using Do = UnshardCore::Do;
    // 0 is the program's stream, 1 gathers, 2 reduces. Events are numbered as they are recorded first.
    CHECK(all(core.before_forward(0, true)) ==
          std::vector<std::string>{did(0, Do::updated, 0), "0 records 0", "1 waits for 0", did(1, Do::gather, 0),
                                   "1 records 1", "0 waits for 1", did(0, Do::wait, 0)});
    CHECK(all(core.after_forward(0, UnshardCore::Return::announced)) ==
          std::vector<std::string>{did(0, Do::free, 0), "0 records 2"});
    core.begin_backward(true);
    CHECK(all(core.before_backward(0)) == std::vector<std::string>{"1 waits for 2", did(1, Do::gather, 0),
                                                                   "1 records 1", "0 waits for 1",
                                                                   did(0, Do::wait, 0)});
    {
      // The program may compute on a stream of its own.
      const c10::StreamGuard other(c10::Stream(c10::Stream::UNSAFE, kDevice, 7));
      CHECK(all(core.after_backward(0)) == std::vector<std::string>{did(7, Do::filled, 0), "7 records 3",
                                                                    "2 waits for 3", did(2, Do::reduce, 0),
                                                                    did(7, Do::free, 0), "7 records 2"});
    }
    CHECK(noted().current == 0);
  }
  // Their memory goes: the program's stream waits.
  CHECK(noted().notes == std::vector<std::string>{"1 records 4", "0 waits for 4", "2 records 5", "0 waits for 5"});
  CHECK(noted().events == noted().destroyed);
}

TEST_CASE("an action that throws leaves the program on its stream, and records nothing") {
  noted() = {};
  PlanStreams streams(kDevice, 1);
  CHECK_THROWS_AS(streams.carry_out({UnshardCore::Do::gather, UnshardCore::Stream::gather, UnshardCore::kNoEvent, 0, 0},
                                    [] { throw std::runtime_error("broken"); }),
                  std::runtime_error);
  CHECK(noted().current == 0);
  CHECK(noted().notes.empty());
}

TEST_CASE("a CPU has no streams") { CHECK_FALSE(PlanStreams(at::kCPU, 9).are_there()); }
