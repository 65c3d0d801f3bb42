#pragma once
// URIs of object stores, by their text alone. Pure.
#include <optional>
#include <string>

namespace dtrain::data {

// "SCHEME://...": the scheme; else none, and the text is a path of this machine.
inline std::optional<std::string> scheme_of(const std::string& text) {
  const std::size_t end = text.find("://");
  if (end == std::string::npos || end < 2) return std::nullopt;
  const std::string scheme = text.substr(0, end);
  if (scheme.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+.-") != std::string::npos) return std::nullopt;
  if (scheme[0] < 'a') return std::nullopt;
  return scheme;
}

inline bool is_store_uri(const std::string& text) { return scheme_of(text).has_value(); }

inline bool is_azure(const std::string& scheme) { return scheme == "abfs" || scheme == "abfss"; }

struct StoreUri {
  std::string scheme;
  std::string place;  // BUCKET, or CONTAINER@HOST
  std::string key;    // without a '/' at its begin or its end

  std::string root() const { return scheme + "://" + place; }
  // BUCKET, or CONTAINER
  std::string bucket() const { return place.substr(0, place.find('@')); }
  // What the functions of the store call the object.
  std::string path() const { return key.empty() ? bucket() : bucket() + "/" + key; }
  // The URI of what they call so.
  std::string uri_of(const std::string& path) const { return root() + path.substr(bucket().size()); }
};

// None: `text` has no scheme, or nothing behind it.
inline std::optional<StoreUri> store_uri(const std::string& text) {
  const auto scheme = scheme_of(text);
  if (!scheme) return std::nullopt;
  std::string rest = text.substr(scheme->size() + 3);
  while (rest.ends_with('/')) rest.pop_back();
  const std::size_t slash = rest.find('/');
  StoreUri uri{*scheme, rest.substr(0, slash), slash == std::string::npos ? "" : rest.substr(slash + 1)};
  if (uri.bucket().empty()) return std::nullopt;
  return uri;
}

}  // namespace dtrain::data
