#include "rendezvous/munge/munge_exchange.h"

#include <algorithm>

namespace dtrain {
namespace {

// "MUNGE:", base64, ":"
constexpr std::string_view kBegin = "MUNGE:";
constexpr char kEnd = ':';

bool is_base64(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/' || c == '=';
}

// Whether a credential can begin like this, or is this.
bool may_become_credential(std::string_view text) {
  if (text.size() > kLongestCredential) return false;
  if (text.size() <= kBegin.size()) return kBegin.starts_with(text);
  if (!text.starts_with(kBegin)) return false;
  text.remove_prefix(kBegin.size());
  if (text.ends_with(kEnd)) text.remove_suffix(1);
  return std::all_of(text.begin(), text.end(), is_base64);
}

Error broken(const char* what) {
  return {ErrorKind::system, std::string("MUNGE: the job's host ") + what +
                                 "; is it a host of this SLURM step, with the same version of dtrain?"};
}

}  // namespace

std::string_view munge_request() { return {reinterpret_cast<const char*>(kMungeRequest.data()), kMungeRequest.size()}; }

MungeAsked asked_for_munge(std::string_view begun) {
  if (begun == munge_request()) return MungeAsked::yes;
  return munge_request().starts_with(begun) ? MungeAsked::more : MungeAsked::no;
}

bool MungeBudget::take(MonoTime now) {
  const auto more = (now - counted_to_) / kOneMore;
  if (more > 0) {
    left_ = static_cast<int>(std::min<decltype(more)>(kMost, left_ + more));
    counted_to_ = now;
  }
  if (left_ == 0) return false;
  --left_;
  return true;
}

Result<void> MungeAnswer::add(std::string_view bytes) {
  bad_ = bad_ || bytes.size() > kLongestCredential - text_.size();
  if (!bad_) bad_ = !may_become_credential(text_.append(bytes));
  if (bad_) return broken("answered with something that is not a credential");
  return {};
}

Result<std::string> MungeAnswer::credential() const {
  if (bad_) return broken("answered with something that is not a credential");
  if (text_.empty()) return broken("gave no answer");
  if (text_.size() <= kBegin.size() + 1 || text_.back() != kEnd) return broken("stopped in the middle of its answer");
  return text_;
}

}  // namespace dtrain
