#pragma once
// Takes secrets out of what is shown to others. Pure. It hides too much rather than too little.
#include <string>
#include <string_view>

namespace dtrain::cli {

// The value of the variable `name`, with "<redacted>" in place of
//  - all of it, if `name` has TOKEN, SECRET, KEY, PASS, PWD, AUTH and the like in it;
//  - what follows such a name inside the value: `--token x`, `token=x`, `"token": "x"`, `Authorization: ...`;
//  - user and password: what stands before '@' in a URL and in `user:password@host`;
//  - words that look like the tokens of well-known services, such as hf_..., sk-..., ghp_...
// A list of folders, the value of a name that ends with PATH, is left as it is.
std::string redacted(std::string_view name, std::string_view value);

}  // namespace dtrain::cli
