#pragma once
// A machine made up for tests: 8 cores, x86_64, no GPU, and the files named here.
#include <elf.h>

#include <cstring>
#include <map>
#include <string>

#include "cli/machine/host.h"

namespace dtrain::cli {

inline FileFacts executable_file(std::string head = "#!/bin/sh\n") {
  return {FileFacts::Kind::file, true, true, true, true, std::move(head)};
}
inline FileFacts plain_file(std::string head = "text\n") {
  return {FileFacts::Kind::file, true, true, false, false, std::move(head)};
}
inline FileFacts folder() { return {FileFacts::Kind::folder, true, true, true, true, ""}; }

// The first bytes of a 64-bit program; with `loader`, one that asks for it.
inline std::string elf_head(unsigned machine, const std::string& loader = "") {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_type = ET_DYN;
  header.e_machine = static_cast<Elf64_Half>(machine);
  header.e_phoff = sizeof header;
  header.e_phnum = loader.empty() ? 0 : 1;
  Elf64_Phdr segment = {};
  segment.p_type = PT_INTERP;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = loader.size() + 1;
  std::string head(reinterpret_cast<const char*>(&header), sizeof header);
  head.append(reinterpret_cast<const char*>(&segment), sizeof segment);
  return head + loader + '\0';
}

using FileMap = std::map<std::string, FileFacts>;

// "./x" and "x" are the same file.
inline Host test_host(FileMap files = {}) {
  files.emplace("/bin/sh", executable_file(elf_head(EM_X86_64)));
  files.emplace("/usr/bin/env", executable_file(elf_head(EM_X86_64)));
  files.emplace("/usr/bin/python3", executable_file(elf_head(EM_X86_64)));
  files.emplace("/usr/bin/true", executable_file(elf_head(EM_X86_64)));
  files.emplace(".", folder());
  Host host;
  host.env = {{"PATH", "/usr/bin:/bin"}};
  host.cpus = 8;
  host.machine = EM_X86_64;
  host.fresh_id = "1a2b3c4d";
  auto plain = [](const std::string& path) { return path.starts_with("./") ? path.substr(2) : path; };
  host.probe = [files, plain](const std::string& path) {
    auto it = files.find(path);
    if (it == files.end()) it = files.find(plain(path));
    return it == files.end() ? FileFacts{} : it->second;
  };
  host.list = [files](const std::string& folder_name) {
    std::vector<std::string> names;
    for (const auto& [path, facts] : files) {
      std::size_t slash = path.rfind('/');
      std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
      bool here = parent == folder_name || (parent == "." && folder_name == "./");
      if (here) names.push_back(slash == std::string::npos ? path : path.substr(slash + 1));
    }
    return names;
  };
  return host;
}

}  // namespace dtrain::cli
