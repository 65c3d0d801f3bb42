#pragma once
// --rdzv-endpoint and --rdzv-conf of a job that meets by etcd. Pure.
#include <map>
#include <string>
#include <string_view>

#include "launcher/job/job_spec.h"
#include "rendezvous/base/result.h"

namespace dtrain::cli {

// "HOST[:PORT],..." with or without http:// or https://, and the keys that are etcd's (rdzv_conf.h). Members have no
// addresses yet.
Result<launcher::EtcdPlace> etcd_place(std::string_view endpoints, const std::map<std::string, std::string>& conf);

// The same of --ha: three or five hosts on which the job starts an etcd of its own.
Result<launcher::EtcdPlace> own_etcd_place(std::string_view endpoints, const std::map<std::string, std::string>& conf);

}  // namespace dtrain::cli
