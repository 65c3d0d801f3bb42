#pragma once
// What ~/.aws says of a user: Amazon's own library reads it, too, but asks a server for the region, which a laptop has
// not. Pure.
#include <map>
#include <string>

namespace dtrain::data {

// The values of a profile in the text of ~/.aws/credentials or ~/.aws/config, where its section is [NAME] or
// [profile NAME]. Names are in small letters.
std::map<std::string, std::string> aws_profile(const std::string& text, const std::string& name);

}  // namespace dtrain::data
