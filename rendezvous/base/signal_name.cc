#include "rendezvous/base/signal_name.h"

#include <csignal>

namespace dtrain {

const char* signal_abbreviation(int signal) {
  struct Row {
    int signal;
    const char* name;
  };
  constexpr Row kRows[] = {{SIGHUP, "HUP"},       {SIGINT, "INT"},     {SIGQUIT, "QUIT"},     {SIGILL, "ILL"},
                           {SIGTRAP, "TRAP"},     {SIGABRT, "ABRT"},   {SIGBUS, "BUS"},       {SIGFPE, "FPE"},
                           {SIGKILL, "KILL"},     {SIGUSR1, "USR1"},   {SIGSEGV, "SEGV"},     {SIGUSR2, "USR2"},
                           {SIGPIPE, "PIPE"},     {SIGALRM, "ALRM"},   {SIGTERM, "TERM"},     {SIGCHLD, "CHLD"},
                           {SIGSTKFLT, "STKFLT"}, {SIGCONT, "CONT"},   {SIGSTOP, "STOP"},     {SIGTSTP, "TSTP"},
                           {SIGTTIN, "TTIN"},     {SIGTTOU, "TTOU"},   {SIGURG, "URG"},       {SIGXCPU, "XCPU"},
                           {SIGXFSZ, "XFSZ"},     {SIGPROF, "PROF"},   {SIGVTALRM, "VTALRM"}, {SIGPOLL, "POLL"},
                           {SIGPWR, "PWR"},       {SIGWINCH, "WINCH"}, {SIGSYS, "SYS"}};
  for (const Row& row : kRows) {
    if (row.signal == signal) return row.name;
  }
  return nullptr;
}

}  // namespace dtrain
