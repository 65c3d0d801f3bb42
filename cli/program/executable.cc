// Reads the first bytes of an executable file as the kernel would: #! line or ELF header.
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/base/text.h"
#include "cli/program/program.h"

namespace dtrain::cli {
namespace {

Error refused(const std::string& path, const std::string& why) {
  return {ErrorKind::not_executable, fmt::format("{}: {}", printable(path), why)};
}

const char* machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    default:
      return "another";
  }
}

// Copy a T out of `head` at `offset`; false if it does not lie inside.
template <class T>
bool read_at(const std::string& head, std::uint64_t offset, T& out) {
  if (offset > head.size() || head.size() - offset < sizeof(T)) return false;
  std::memcpy(&out, head.data() + offset, sizeof(T));
  return true;
}

// The dynamic loader that the program names; empty for a static one, or if it lies beyond `head`.
std::string elf_loader(const std::string& head, const Elf64_Ehdr& header) {
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!read_at(head, header.e_phoff + i * sizeof segment, segment)) return "";
    if (segment.p_type != PT_INTERP) continue;
    if (segment.p_offset >= head.size() || segment.p_filesz > head.size() - segment.p_offset) return "";
    std::string name = head.substr(segment.p_offset, segment.p_filesz);
    return name.substr(0, name.find('\0'));
  }
  return "";
}

Result<void> check_elf(const std::string& path, const std::string& head, const Host& host) {
  Elf64_Ehdr header;
  if (!read_at(head, 0, header)) return refused(path, "is a program cut short; build or copy it again");
  bool compatible = header.e_machine == host.machine || (host.machine == EM_X86_64 && header.e_machine == EM_386);
  if (host.machine != 0 && !compatible)
    return refused(path, fmt::format("is a program for {} machines, this one is {}; build it here",
                                     machine_name(header.e_machine), machine_name(host.machine)));
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
    return refused(path, "is an object file, not a program; link it first");
  std::string loader = elf_loader(head, header);
  if (!loader.empty() && host.probe(loader).kind == FileFacts::Kind::missing)
    return refused(path,
                   fmt::format("needs the loader {}, which this machine lacks; build it here", printable(loader)));
  return {};
}

Result<void> check_shebang(const std::string& path, const Shebang& line, const Host& host) {
  const std::string& interpreter = line.interpreter;
  if (interpreter.ends_with('\r') || (!line.argument.empty() && line.argument.ends_with('\r')))
    return refused(path, fmt::format("has Windows line ends, so its #! line names no program: sed -i 's/\\r$//' {}",
                                     shell_quoted(printable(path))));
  FileFacts facts = host.probe(interpreter);
  if (facts.kind == FileFacts::Kind::missing)
    return refused(path, fmt::format("its #! line names {}, which does not exist", printable(interpreter)));
  if (facts.kind != FileFacts::Kind::file || !facts.executable)
    return refused(path, fmt::format("its #! line names {}, which is not executable", printable(interpreter)));
  // `env NAME`; with options or assignments env has rules of its own, which it reports itself.
  bool plain =
      !line.argument.empty() && line.argument[0] != '-' && line.argument.find_first_of("= \t") == std::string::npos;
  if (interpreter.ends_with("/env") && plain && find_in_path(line.argument, host).empty())
    return refused(path, fmt::format("its #! line asks for {}, which is not in PATH", printable(line.argument)));
  return {};
}

}  // namespace

Shebang shebang_of(const std::string& head) {
  if (!head.starts_with("#!")) return {};
  // The kernel reads 256 bytes of the file, and takes everything after the first blank as one argument.
  constexpr std::size_t kKernelReads = 256;
  std::string line = head.substr(2, std::min(head.find('\n'), kKernelReads) - 2);
  std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  std::size_t end = std::min(line.find_first_of(" \t", begin), line.size());
  std::size_t argument = std::min(line.find_first_not_of(" \t", end), line.size());
  std::size_t last = line.find_last_not_of(" \t");
  return {line.substr(begin, end - begin), line.substr(argument, last + 1 > argument ? last + 1 - argument : 0)};
}

Result<void> check_executable(const std::string& path, const FileFacts& facts, const Host& host) {
  if (!facts.readable) return {};  // nothing to judge by; the kernel will
  Shebang line = shebang_of(facts.head);
  if (!line.interpreter.empty()) return check_shebang(path, line, host);
  if (host.foreign_programs) return {};  // a format of binfmt_misc, perhaps: the kernel will judge
  if (facts.head.starts_with(ELFMAG)) return check_elf(path, facts.head, host);
  if (facts.head.empty()) return refused(path, "is an empty file");
  return refused(path,
                 "is executable but neither a program nor a script with a #! line; put #!/bin/sh or the like "
                 "in its first line");
}

}  // namespace dtrain::cli
