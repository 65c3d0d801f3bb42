#pragma once
// HTTP/1.1 of a client, without sockets: a request as bytes, and the bytes of its response taken apart as they come.
// Boost.Beast does the work, in http_message.cc alone: it is slow to compile.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace dtrain {

struct HttpPost {
  std::string host;  // as the server is called: name or address, and port
  std::string path;
  std::string authorization;  // empty: none
  std::string body;           // JSON
};

std::string encode(const HttpPost& post);

// One response. What comes after it is left alone.
class HttpResponse {
 public:
  enum class Status { more, done, bad };

  static constexpr const char* kClosed = "it has closed the connection";  // error() of an answer that was cut off

  // `most_bytes`: of the body, as far as nobody has taken it.
  explicit HttpResponse(std::size_t most_bytes);
  ~HttpResponse();
  HttpResponse(const HttpResponse&) = delete;
  HttpResponse& operator=(const HttpResponse&) = delete;

  // Bytes of the server, cut anyhow. What it gives but `more` is final.
  Status put(std::string_view bytes);
  // The server has closed the connection: some bodies end so.
  Status end();

  bool has_head() const;  // the status and all fields are there
  int code() const;
  bool keeps_open() const;  // the connection may be used again
  std::string take_body();  // what has come of it
  const std::string& error() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtrain
