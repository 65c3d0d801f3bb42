// store_bench: how many operations per second a worker store serves to torch's own C++ client.
//   store_bench serve                              torch's TCPStore server; prints its port, serves until stdin ends
//   store_bench load PORT CLIENTS SECONDS          one thread a client, each with a mix of set, get, add, check and
//   wait;
//                                                  prints operations per second
//   store_bench bulk PORT KEYS                     one client sets and gets KEYS keys by multi_set and multi_get;
//   prints
//                                                  milliseconds for each
//   store_bench waiters PORT CLIENTS KEYS SECONDS  CLIENTS clients wait for KEYS missing keys in all, for SECONDS
// run.py drives it against both servers in turn.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

c10::intrusive_ptr<c10d::TCPStore> connect_to(const char* port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(std::atoi(port));
  options.waitWorkers = false;
  options.timeout = std::chrono::seconds(60);
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

int serve() {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const c10d::TCPStore store("127.0.0.1", options);
  std::printf("%d\n", store.getPort());
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}

// The mix: five operations, six requests on the wire (get is a wait and a get).
long mix(c10d::TCPStore& store, const std::string& key, const std::vector<std::uint8_t>& value) {
  store.set(key, value);
  store.get(key);
  store.add("counter/" + key, 1);
  store.check({key});
  store.wait({key});
  return 5;
}

int load(const char* port, int clients, double seconds) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::atomic<bool> stop{false};
  std::atomic<long> operations{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([&, i] {
      const auto store = connect_to(port);
      const std::string key = "rank/" + std::to_string(i);
      const std::vector<std::uint8_t> value(64, 'v');
      mix(*store, key, value);
      ++ready;
      ready.notify_all();
      go.wait(false);
      long mine = 0;
      while (!stop.load(std::memory_order_relaxed)) mine += mix(*store, key, value);
      operations += mine;
    });
  }
  for (int now = ready; now < clients; now = ready) ready.wait(now);
  const auto begin = Clock::now();
  go = true;
  go.notify_all();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop = true;
  for (auto& thread : threads) thread.join();
  const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  std::printf("%.0f\n", static_cast<double>(operations) / elapsed);
  return 0;
}

int bulk(const char* port, int count) {
  const auto store = connect_to(port);
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back("bulk/" + std::to_string(i));
  const std::vector<std::vector<std::uint8_t>> values(keys.size(), std::vector<std::uint8_t>(64, 'v'));
  const auto begin = Clock::now();
  store->multiSet(keys, values);
  store->check({keys.back()});  // multi_set has no reply; this one comes after it is done
  const auto between = Clock::now();
  const auto got = store->multiGet(keys);
  const auto end = Clock::now();
  if (got != values) {
    std::fprintf(stderr, "store_bench: multi_get gave other values than were set\n");
    return 1;
  }
  const auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  std::printf("%.1f %.1f\n", ms(between - begin), ms(end - between));
  return 0;
}

int waiters(const char* port, int clients, int keys, int seconds) {
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i) {
    threads.emplace_back([=] {
      const auto store = connect_to(port);
      std::vector<std::string> missing;
      for (int k = i; k < keys; k += clients) missing.push_back("missing/" + std::to_string(k));
      try {
        store->wait(missing, std::chrono::seconds(seconds));
      } catch (const std::exception&) {
        return;  // the time-out this is about
      }
      std::fprintf(stderr, "store_bench: a wait for missing keys ended\n");
      std::exit(1);
    });
  }
  for (auto& thread : threads) thread.join();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "serve" && argc == 2) return serve();
  if (mode == "load" && argc == 5) return load(argv[2], std::atoi(argv[3]), std::atof(argv[4]));
  if (mode == "bulk" && argc == 4) return bulk(argv[2], std::atoi(argv[3]));
  if (mode == "waiters" && argc == 6) {
    return waiters(argv[2], std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]));
  }
  std::fprintf(stderr, "store_bench: bad arguments; see the top of store_bench.cc\n");
  return 2;
}
