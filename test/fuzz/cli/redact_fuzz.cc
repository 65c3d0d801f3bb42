// Fuzzes redacted(): a secret in one of the forms that it promises to know never survives, whatever stands around it.
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "cli/doctor/redact.h"
#include "rendezvous/base/check.h"

using dtrain::cli::redacted;

namespace {

constexpr std::string_view kSecret = "Zq7XvanillaX7qZ";

// What stands before and behind the secret.
struct Form {
  std::string_view before;
  std::string_view behind;
};
constexpr Form kForms[] = {
    {"--token ", ""},
    {"--api-key=", ""},
    {"password=", ""},
    {"PASSWORD: ", ""},
    {"\"token\": \"", "\""},
    {"'secret': '", "'"},
    {"--password \"", " and more\""},
    {"Authorization: Bearer ", ""},
    {"Cookie: a=b; c=", ""},
    {"auth = [\"a\", \"", "\"]"},
    {"https://", "@example.org/x"},
    {"https://user:", "@example.org/x"},
    {"postgresql+psycopg2://user:", "@db:5432/x"},
    {"user:", "@example.org"},
    {"hf_", ""},
    {"-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----"},
};

}  // namespace

// Byte 0: the form; byte 1: how much of the rest stands before it; the rest: what stands around it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Form& form = kForms[data[0] % std::size(kForms)];
  const std::string noise(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t cut = data[1] * noise.size() / 256;

  std::string value = noise.substr(0, cut);
  // These are known as words of their own.
  if (form.before == "hf_") value += ' ';
  value.append(form.before).append(kSecret).append(form.behind);
  if (form.behind.ends_with("example.org")) value += ' ';
  value.append(noise, cut);

  const std::string shown = redacted("EXTRA", value);
  DT_CHECK(shown.find(kSecret) == std::string::npos, "the secret is hidden");
  DT_CHECK(redacted("MY_TOKEN", value) == "<redacted>", "a secret variable is hidden whole");
  DT_CHECK(redacted("EXTRA", noise).size() <= noise.size() * std::string_view("<redacted>").size(), "it stays short");
  return 0;
}
