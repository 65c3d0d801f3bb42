// Talks to libmunge, whose few functions are declared here: their interface has been the same since version 0.5.
#include "rendezvous/munge/munge_secret.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>

#include "rendezvous/base/unique_fd.h"

namespace dtrain {
namespace {

constexpr const char* kMungeLibrary = "libmunge.so.2";
constexpr std::string_view kHeading = "dtrain secret 1\n";  // then the job's name, a line end, the secret as text

// Values of munge.h.
enum Option { kOptionCipher = 0, kOptionSocket = 8, kOptionUid = 9 };
constexpr int kNoCipher = 0;
constexpr int kAes256 = 5;

Error munge_failed(const std::string& why) { return {ErrorKind::system, "MUNGE: " + why}; }

// "dtrain secret 1\nJOB\n" in front of the secret.
std::string heading(std::string_view job) { return fmt::format("{}{}\n", kHeading, job); }

// Bytes that munged has opened; wiped and freed.
struct Opened {
  void* data = nullptr;
  int size = 0;
  Opened() = default;
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    if (data != nullptr && size > 0) wipe(data, static_cast<std::size_t>(size));
    std::free(data);
  }
  std::string_view text() const { return {static_cast<const char*>(data), static_cast<std::size_t>(size)}; }
};

}  // namespace

struct Munge::Library {
  struct Handle;  // munge_ctx
  Handle* (*create)() = nullptr;
  void (*destroy)(Handle*) = nullptr;
  const char* (*why)(Handle*) = nullptr;
  int (*get)(Handle*, int, ...) = nullptr;
  int (*set)(Handle*, int, ...) = nullptr;
  int (*encode)(char**, Handle*, const void*, int) = nullptr;
  int (*decode)(const char*, Handle*, void**, int*, uid_t*, gid_t*) = nullptr;

  template <class Function>
  static bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
  }

  bool find_all(void* library) {
    return find(library, "munge_ctx_create", create) && find(library, "munge_ctx_destroy", destroy) &&
           find(library, "munge_ctx_strerror", why) && find(library, "munge_ctx_get", get) &&
           find(library, "munge_ctx_set", set) && find(library, "munge_encode", encode) &&
           find(library, "munge_decode", decode);
  }
};

// The settings of one credential.
class Munge::Context {
 public:
  Context(const Library& library, const std::string& socket) : library_(library), handle_(library.create()) {
    if (handle_ != nullptr && !socket.empty() && library_.set(handle_, kOptionSocket, socket.c_str()) != 0) drop();
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { drop(); }

  Library::Handle* get() const { return handle_; }

  Error error() const {
    const char* why = handle_ != nullptr ? library_.why(handle_) : nullptr;
    return munge_failed(why != nullptr ? why : "no memory");
  }

 private:
  void drop() {
    if (handle_ != nullptr) library_.destroy(handle_);
    handle_ = nullptr;
  }

  const Library& library_;
  Library::Handle* handle_;
};

Result<Munge> Munge::load(std::string socket) {
  void* loaded = ::dlopen(kMungeLibrary, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* why = ::dlerror();
    return munge_failed(why != nullptr ? why : kMungeLibrary);
  }
  auto library = std::make_shared<Library>();
  if (!library->find_all(loaded))
    return munge_failed(fmt::format("{} lacks a function that dtrain needs", kMungeLibrary));
  return Munge(std::move(library), std::move(socket));
}

Result<void> Munge::reach() const {
  const Context context(*library_, socket_);
  const char* path = nullptr;
  if (context.get() == nullptr || library_->get(context.get(), kOptionSocket, &path) != 0 || path == nullptr)
    return context.error();
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string_view name = path;
  if (name.size() >= sizeof address.sun_path) return munge_failed(fmt::format("{}: the name is too long", name));
  name.copy(address.sun_path, name.size());
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // Full of others who wait: it is there.
  if (fd && (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN))
    return {};
  return munge_failed(system_error(fmt::format("no munged at {}", name), errno).message);
}

Result<std::string> Munge::seal(const JobSecret& secret, std::string_view job) const {
  const Context context(*library_, socket_);
  if (context.get() == nullptr || library_->set(context.get(), kOptionCipher, kAes256) != 0 ||
      library_->set(context.get(), kOptionUid, ::geteuid()) != 0)
    return context.error();
  std::string text = secret.text();
  std::string payload = heading(job);
  payload.reserve(payload.size() + text.size());  // no copy of the secret that nobody wipes
  payload += text;
  char* credential = nullptr;
  const int code = library_->encode(&credential, context.get(), payload.data(), static_cast<int>(payload.size()));
  wipe(text.data(), text.size());
  wipe(payload.data(), payload.size());
  const std::unique_ptr<char, void (*)(void*)> owner(credential, std::free);
  if (code != 0) return context.error();
  if (std::string_view(credential).size() > kLongestCredential) return munge_failed("the credential is too long");
  return std::string(credential);
}

Result<JobSecret> Munge::open(const std::string& credential, std::string_view job) const {
  if (credential.size() > kLongestCredential || credential.find('\0') != std::string::npos)
    return munge_failed("what came is not a credential");
  const Context context(*library_, socket_);
  if (context.get() == nullptr) return context.error();
  Opened opened;
  uid_t maker = 0;
  gid_t group = 0;
  if (library_->decode(credential.c_str(), context.get(), &opened.data, &opened.size, &maker, &group) != 0)
    return context.error();
  if (maker != ::geteuid()) return munge_failed(fmt::format("the secret was made by user {}, not by this one", maker));
  int cipher = kNoCipher;
  uid_t only = 0;
  if (library_->get(context.get(), kOptionCipher, &cipher) != 0 || library_->get(context.get(), kOptionUid, &only) != 0)
    return context.error();
  if (cipher == kNoCipher || only != ::geteuid()) return munge_failed("the secret was not sealed for this user alone");
  const std::string wanted = heading(job);
  if (!opened.text().starts_with(wanted)) return munge_failed("the credential is not for this job");
  auto secret = JobSecret::parse(opened.text().substr(wanted.size()));
  if (!secret) return munge_failed("the credential holds no secret of dtrain's");
  return secret;
}

}  // namespace dtrain
