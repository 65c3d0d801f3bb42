// Fuzzes both ends of a TLS link. The input is a program for somebody on the way: which end's bytes to change, cut,
// repeat or replace with the input's own. Whatever is done, nothing comes out that was not sent, in that order; nothing
// at all comes out of an end that is not established; and no end is established that did not meet its peer. The last
// byte says by what the two know each other: a token or certificates.
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/tls/tls_session.h"
#include "test/support/certificates.h"

namespace {

using dtrain::JobSecret;
using dtrain::LinkCredential;
using dtrain::LinkName;
using dtrain::LinkRole;
using dtrain::TlsSession;

LinkCredential make_certificates() {
  const dtrain::test::TempFolder folder;
  dtrain::test::make_authority(folder, "ca");
  dtrain::test::certify(folder, "node");
  return *dtrain::SiteCertificates::load({folder / "ca.pem", folder / "node.pem", folder / "node.key"});
}

const LinkCredential& credential(bool site) {
  static const LinkCredential secret = *JobSecret::parse("dtrain-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh-KfiaR");
  static const LinkCredential certificates = make_certificates();
  return site ? certificates : secret;
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    const std::string_view one = take(1);
    return one.empty() ? 0 : static_cast<std::uint8_t>(one[0]);
  }
  std::string_view take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::string_view rest_;
};

struct End {
  explicit End(dtrain::Result<TlsSession> made) : session(std::move(made).value()) {}

  void say(std::string_view text) {
    if (session.send(text)) said.append(text);
  }
  void hear(std::string_view bytes) {
    given += bytes.size();
    const bool done = session.receive(bytes, heard).ok();
    DT_CHECK(heard.size() <= given, "no more comes out than went in");
    DT_CHECK(heard.empty() || session.established(), "nothing comes out before the peer is known");
    DT_CHECK(done == (session.fault() == dtrain::TlsFault::none), "an error has its reason");
    failed = failed || !done;
    DT_CHECK(!failed || !done, "an error is final");
  }

  TlsSession session;
  std::string said, heard, recorded;
  std::size_t given = 0;
  bool failed = false;
};

// Carries what `from` has to say, treated as the input wants, to `to`.
void carry(Input& input, End& from, End& to) {
  const std::uint8_t what = input.byte();
  std::string bytes = from.session.take_output();
  from.recorded += bytes;
  if (from.recorded.size() > 65536) from.recorded.clear();
  const std::size_t at = (input.byte() | input.byte() << 8) % (bytes.size() + 1);
  switch (what % 8) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ input.byte());
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.insert(at, input.take(input.byte()));
      break;
    case 3:
      bytes = from.recorded;
      break;
    case 4:
      bytes = to.recorded;  // reflected
      break;
    default:  // as it was, in two pieces
      to.hear(std::string_view(bytes).substr(0, at));
      bytes.erase(0, at);
  }
  to.hear(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const LinkCredential& ours = credential(size > 0 && data[size - 1] % 4 == 3);
  End client(TlsSession::client(ours, {LinkRole::store, 3, "job"}));
  End server(TlsSession::server(ours, "job"));
  client.say("the first words");
  for (int step = 0; step < 64 && !input.empty(); ++step) {
    carry(input, client, server);
    carry(input, server, client);
    if (step % 3 == 1) client.say(std::string(input.byte(), 'c'));
    if (step % 3 == 2) server.say(std::string(input.byte(), 's'));
    if (step % 17 == 16) server.session.close();
  }
  DT_CHECK(client.said.starts_with(server.heard) && server.said.starts_with(client.heard),
           "only what was said is heard, in order");
  DT_CHECK(!server.session.established() || client.session.established(), "the server was met");

  // A stranger: no key, only bytes.
  End alone(TlsSession::server(ours, "job"));
  alone.hear({reinterpret_cast<const char*>(data), size});
  DT_CHECK(!alone.session.established(), "nobody was there");
  return 0;
}
