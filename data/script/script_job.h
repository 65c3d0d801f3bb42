#pragma once
// A processor that is a script of the user's: a job of dtrain's own runs it (data/python/dtrain_data). Pure.
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace dtrain::data {

struct ScriptJob {
  std::string dtrain;  // the program
  std::string type;    // "python", "dask", "modin", "ray"
  std::string script;  // its path
  std::optional<std::int64_t> workers;
  std::optional<std::int64_t> parallelism;
  std::optional<bool> persist;
  bool on_ray = false;  // its workers are on the cluster of the backend. Else here
};

// Of a request (data/commands/data_command.h). Nothing: the processor is dtrain itself.
std::optional<ScriptJob> script_job_of(const nlohmann::json& request);

// What an entry's key and meta.json have of it: what may change the bytes of the result.
nlohmann::json key_of_script(const ScriptJob& job, const std::string& sha256);

// The recipe for dtrain itself, which works on what the script has made.
nlohmann::json without_script(nlohmann::json recipe);

// Such a script reads Parquet alone. The file of the input that is none; nothing: all are.
std::optional<std::string> not_parquet(const nlohmann::json& recipe, const std::vector<std::string>& files);

// The command that runs it. `list`: a file with the path of an input in each line. `output`: the folder of its result.
std::vector<std::string> script_job_words(const ScriptJob& job, const std::string& list, const std::string& output);

// A file with the credentials of object stores.
inline constexpr const char* kStoreCredentials = "DTRAIN_STORE_CREDENTIALS";
// The folder of the entry that is built: each node of the job looks whether it may write there before it starts
// workers.
inline constexpr const char* kDataBuild = "DTRAIN_DATA_BUILD";

// The environment of a job that makes a data set, out of that of this process: variables of dtrain's own are for the
// job that wants the data set. Those for the inputs in an object store stay.
std::map<std::string, std::string> data_job_environment(std::map<std::string, std::string> env);
// The same for that of a script. `modules`: a folder with dtrain's modules for Python; may be empty. `build`: the
// value of kDataBuild, for nodes of a cluster.
std::map<std::string, std::string> script_job_environment(const ScriptJob& job, std::map<std::string, std::string> env,
                                                          const std::string& modules, const std::string& build);

}  // namespace dtrain::data
