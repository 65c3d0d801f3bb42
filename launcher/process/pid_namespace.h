#pragma once
// A child that is the first process of a PID namespace of its own.
#include <sys/types.h>

namespace dtrain::launcher {

class PidNamespace {
 public:
  // As fork(), into a new PID and mount namespace; without the right to make those directly, into a new user namespace
  // too. -1: the kernel refuses it, see errno.
  pid_t fork();
  // In the child, first of all: the users of the namespace, and its own /proc. False: mounting is not allowed here.
  bool enter() const;

 private:
  uid_t uid_ = 0;
  gid_t gid_ = 0;
  bool user_namespace_ = false;
};

}  // namespace dtrain::launcher
