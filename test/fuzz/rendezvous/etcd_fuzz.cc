// Fuzzes what an etcd server, or whoever is there instead, may answer: HTTP, then JSON. However it is cut, it means the
// same; what is held is bounded; faults are one line. The first byte seeds the cuts and says whether it is a stream.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/etcd/etcd_wire.h"
#include "rendezvous/http/http_message.h"
#include "test/fuzz/one_line.h"
#include "test/fuzz/pieces.h"

namespace {

using dtrain::EtcdFault;
using dtrain::EtcdReply;
using dtrain::HttpResponse;

constexpr std::size_t kMost = 4096;

struct Heard {
  bool done = false;
  int code = 0;
  std::string body;
};

Heard hear(std::string_view bytes, std::uint32_t seed, bool cut) {
  HttpResponse response(kMost);
  auto status = HttpResponse::Status::more;
  const auto feed = [&](std::string_view piece) {
    status = response.put(piece);
    return status == HttpResponse::Status::more;
  };
  if (cut)
    dtrain::in_pieces(bytes, seed, feed);
  else
    feed(bytes);
  if (status == HttpResponse::Status::more) status = response.end();
  DT_CHECK((status == HttpResponse::Status::bad) != response.error().empty(), "an error has a reason");
  if (status != HttpResponse::Status::done) return dtrain::check_one_line(response.error()), Heard{};
  return {true, response.code(), response.take_body()};
}

void parse(int code, std::string_view body) {
  const auto answer = dtrain::parse_etcd_reply(code, body);
  if (const auto* fault = std::get_if<EtcdFault>(&answer)) return dtrain::check_one_line(fault->message);
  DT_CHECK(code == 200, "only 200 is good");
  std::size_t size = 0;
  for (const auto& key : std::get<EtcdReply>(answer).keys) size += key.key.size() + key.value.size();
  DT_CHECK(size <= body.size(), "no more than came");
}

void watch(std::string_view bytes, std::size_t step) {
  dtrain::EtcdWatchStream stream;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size())))
    if (const auto news = stream.put(bytes.substr(0, step)); news.over)
      return dtrain::check_one_line(news.over->message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Heard whole = hear(bytes, 0, false);
  const Heard cut = hear(bytes, data[0], true);
  DT_CHECK(whole.done == cut.done && whole.code == cut.code && whole.body == cut.body, "cuts change nothing");
  if (whole.done) parse(whole.code, whole.body);
  parse(200, bytes);
  watch(bytes, 1 + data[0] % 64);
  return 0;
}
