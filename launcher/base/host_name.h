#pragma once
// This machine's name as messages and prefixes show it.
#include <string>
#include <string_view>

namespace dtrain::launcher {

// Up to the first dot.
std::string short_hostname();

// As the kernel has it.
std::string kernel_hostname();

// The name with its domain, as torchrun's report has it (Python's socket.getfqdn), but from /etc/hosts alone: a
// question to a DNS server that does not answer would hold up the report.
std::string qualified_hostname();

// Of the host `name`: the first name with a dot on the first line that has the same address as the first line with
// `name`, else the first name there; `name` itself where no line has it. Pure.
std::string qualified_name(std::string_view hosts, std::string_view name);

}  // namespace dtrain::launcher
