// etcd's requests and answers as bytes, HTTP around them, base64; what is cut, too long or no answer at all.
#include "rendezvous/etcd/etcd_wire.h"

#include <fmt/format.h>

#include "rendezvous/base/base64.h"
#include "rendezvous/http/http_message.h"
#include "test/support/catch.h"

using namespace dtrain;

namespace {

EtcdReply reply_of(const std::string& body) {
  auto reply = parse_etcd_reply(200, body);
  REQUIRE(std::holds_alternative<EtcdReply>(reply));
  return std::get<EtcdReply>(reply);
}

EtcdFault fault_of(int code, const std::string& body) {
  auto reply = parse_etcd_reply(code, body);
  REQUIRE(std::holds_alternative<EtcdFault>(reply));
  return std::get<EtcdFault>(reply);
}

constexpr auto kElsewhere = EtcdFault::Kind::elsewhere;
constexpr auto kLogin = EtcdFault::Kind::login;
constexpr auto kFinal = EtcdFault::Kind::final;

}  // namespace

TEST_CASE("base64: RFC 4648's examples, and one text for the same bytes") {
  const std::pair<const char*, const char*> pairs[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"},
                                                       {"\xff\xfe\xfd", "//79"}};
  for (const auto& [bytes, text] : pairs) {
    CHECK(base64(bytes) == text);
    CHECK(from_base64(text) == bytes);
  }
  for (const char* bad : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm-v"})
    CHECK_FALSE(from_base64(bad));
}

TEST_CASE("etcd wire: requests") {
  CHECK(etcd_range("a").path == "/v3/kv/range");
  CHECK(etcd_range("a").body == R"({"key":"YQ=="})");
  CHECK(etcd_grant(2).body == R"({"TTL":"2"})");
  CHECK(etcd_keepalive(7587).body == R"({"ID":"7587"})");
  CHECK(etcd_watch("a", 0).body == R"({"create_request":{"key":"YQ=="}})");
  CHECK(etcd_watch("a", 9).body == R"({"create_request":{"key":"YQ==","start_revision":"9"}})");
  CHECK(etcd_member_list().path == "/v3/cluster/member/list");
  CHECK(etcd_member_add("https://n:1").body == R"({"peerURLs":["https://n:1"]})");
  CHECK(etcd_member_remove(18446744073709551615U).body == R"({"ID":"18446744073709551615"})");
  const auto members = reply_of(R"({"members":[{"ID":"18446744073709551615","name":"m0","peerURLs":["u","v"]},{},7]})");
  REQUIRE(members.members.size() == 3);
  CHECK(members.members[0].id == 18446744073709551615U);
  CHECK(members.members[0].name == "m0");
  CHECK(members.members[0].peer_url == "u");
  CHECK(members.members[1].peer_url.empty());
  CHECK(etcd_authenticate("u\"", "p").body == R"({"name":"u\"","password":"p"})");
  EtcdTxn txn;
  txn.compare_key = "a";
  txn.create_revision = 5;
  txn.puts = {{"b", "c", 6}};
  txn.deletes = {"d"};
  txn.or_reads = {"a"};
  CHECK(etcd_txn(txn).path == "/v3/kv/txn");
  CHECK(etcd_txn(txn).body == R"({"compare":[{"create_revision":"5","key":"YQ==","result":"EQUAL","target":"CREATE"}],)"
                              R"("failure":[{"request_range":{"key":"YQ=="}}],)"
                              R"("success":[{"request_put":{"key":"Yg==","lease":"6","value":"Yw=="}},)"
                              R"({"request_delete_range":{"key":"ZA=="}}]})");
}

TEST_CASE("etcd wire: answers") {
  const auto range = reply_of(
      R"({"header":{"revision":"7"},"kvs":[{"key":"YQ==","create_revision":"3","mod_revision":4,"value":"Yg==",)"
      R"("lease":"9"}],"count":"1"})");
  CHECK(range.revision == 7);
  REQUIRE(range.keys.size() == 1);
  CHECK(range.keys[0].key == "a");
  CHECK(range.keys[0].value == "b");
  CHECK(range.keys[0].create_revision == 3);
  CHECK(range.keys[0].mod_revision == 4);
  CHECK(range.keys[0].lease == 9);
  const auto txn = reply_of(R"({"succeeded":true,"responses":[{"response_put":{}},{"response_range":{"kvs":[{}]}}]})");
  CHECK(txn.succeeded);
  CHECK(txn.keys.size() == 1);
  CHECK(reply_of(R"({"result":{"ID":"4","TTL":"2"}})").ttl == 2);
  CHECK(reply_of(R"({"token":"x.1"})").token == "x.1");
  // Whatever the types are.
  CHECK(
      reply_of(R"({"header":5,"kvs":{"key":1},"responses":[1,null,[]],"TTL":"9x","ID":-1.5,"succeeded":"true"})").ttl ==
      0);
}

TEST_CASE("etcd wire: faults, and what may help") {
  CHECK(fault_of(503, R"({"error":"etcdserver: no leader","message":"etcdserver: no leader","code":14})").kind ==
        kElsewhere);
  CHECK(fault_of(401, R"({"message":"etcdserver: invalid auth token","code":16,"details":[]})").kind == kLogin);
  CHECK(fault_of(400, R"({"error":"etcdserver: revision of auth store is old","code":3})").kind == kLogin);
  const auto gone = fault_of(404, R"({"error":"etcdserver: requested lease not found","code":5})");
  CHECK(gone.kind == kFinal);
  CHECK(gone.message == "requested lease not found");
  CHECK(fault_of(200, R"({"error":{"grpc_code":14,"message":"etcdserver: no leader"}})").kind == kElsewhere);
  CHECK(fault_of(404, "404 page not found\nx").message ==
        "it does not answer as etcd 3.4 or later does (HTTP 404: 404 page not found)");
  CHECK(fault_of(502, "<html>").kind == kElsewhere);
  CHECK(fault_of(200, "[1]").kind == kFinal);
  CHECK(fault_of(200, "").kind == kFinal);
  CHECK(fault_of(500, "{}").kind == kElsewhere);
  CHECK(fault_of(400, R"({"message":"a\nb\u001b[31m","code":3})").message.find('\n') == std::string::npos);
}

TEST_CASE("etcd wire: a watch, cut anywhere") {
  const std::string stream =
      "{\"result\":{\"created\":true}}\n{\"result\":{\"events\":[{\"type\":\"DELETE\"}]}}\n"
      "{\"error\":{\"grpc_code\":14,\"message\":\"gone\"}}\n";
  for (std::size_t step : {std::size_t{1}, std::size_t{7}, stream.size()}) {
    EtcdWatchStream watch;
    bool began = false, changed = false;
    std::optional<EtcdFault> over;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      auto news = watch.put(std::string_view(stream).substr(at, step));
      began = began || news.began;
      CHECK((began || !news.changed));
      changed = changed || news.changed;
      if (news.over) over = news.over;
    }
    CHECK(began);
    CHECK(changed);
    REQUIRE(over);
    CHECK(over->message == "gone");
  }
  EtcdWatchStream cancelled;
  CHECK(cancelled.put("{\"result\":{\"canceled\":true}}\n").over);
  EtcdWatchStream garbage;
  CHECK(garbage.put("what\n").over);
  EtcdWatchStream endless;
  CHECK(endless.put(std::string(kEtcdReplyBytes + 1, ' ')).over);
}

TEST_CASE("http: a response, cut anywhere, by length, in chunks with a trailer, and until the end") {
  const std::string plain = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
  const std::string chunked =
      "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX: "
      "y\r\n\r\n";
  for (const auto& [bytes, code] : {std::pair(plain, 200), std::pair(chunked, 404)})
    for (std::size_t step : {std::size_t{1}, std::size_t{3}, bytes.size()}) {
      INFO(bytes << " by " << step);
      HttpResponse response(100);
      auto status = HttpResponse::Status::more;
      for (std::size_t at = 0; at < bytes.size(); at += step) {
        CHECK(status == HttpResponse::Status::more);
        status = response.put(std::string_view(bytes).substr(at, step));
      }
      INFO(response.error());
      CHECK(status == HttpResponse::Status::done);
      CHECK(response.code() == code);
      CHECK(response.keeps_open());
      CHECK(response.take_body() == "hello");
    }
  HttpResponse until_end(100);
  CHECK(until_end.put("HTTP/1.0 400 Bad Request\r\n\r\nno") == HttpResponse::Status::more);
  CHECK(until_end.end() == HttpResponse::Status::done);
  CHECK_FALSE(until_end.keeps_open());
  CHECK(until_end.take_body() == "no");
}

TEST_CASE("http: what is too long, cut off or no HTTP ends") {
  HttpResponse cut(100);
  cut.put("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
  CHECK(cut.end() == HttpResponse::Status::bad);
  HttpResponse nothing(100);
  CHECK(nothing.end() == HttpResponse::Status::bad);
  HttpResponse other(100);
  CHECK(other.put("220 smtp ready\r\n") == HttpResponse::Status::bad);
  CHECK(other.put("HTTP/1.1 200 OK\r\n\r\n") == HttpResponse::Status::bad);
  HttpResponse long_body(100);
  CHECK(long_body.put("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n" + std::string(500, 'x')) ==
        HttpResponse::Status::bad);
  HttpResponse long_head(100);
  CHECK(long_head.put("HTTP/1.1 200 OK\r\nX: " + std::string(100000, 'x')) == HttpResponse::Status::bad);
  HttpResponse long_chunk_head(100);
  CHECK(long_chunk_head.put("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(100000, 'x')) ==
        HttpResponse::Status::bad);
  // Taken as it comes, there is no end to a stream.
  HttpResponse stream(100);
  stream.put("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  CHECK(stream.has_head());
  for (int i = 0; i < 50; ++i) {
    CHECK(stream.put("5\r\nhello\r\n") == HttpResponse::Status::more);
    CHECK(stream.take_body() == "hello");
  }
}
