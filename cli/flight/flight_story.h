#pragma once
// What the files of a job's ranks say together: who is missing where, who called something else, who waits for whom.
// Pure. Times of two ranks are never compared; how long before its file was written something was is.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/flight/flight_reading.h"

namespace dtrain::cli {

// One rank in a collective or a message: what it called, and for how long it was in it when its file was written.
struct FlightWait {
  int rank = 0;   // of the job
  int peer = -1;  // of a message, of the job too; -1: any rank, or not known
  FlightOp op;
  std::string group;
  std::int64_t for_ns = 0;
};

// A rank that others wait for in a collective that it never called.
struct FlightAbsent {
  int rank = 0;
  std::optional<FlightOp> last;   // of its collectives in that group; none: it has called none, or it is not known
  std::uint64_t called = 0;       // its collectives in that group
  std::int64_t ago_ns = 0;        // since the last ended
  std::vector<FlightWait> doing;  // what it is in instead
};

// A rank that has done its part of a collective, where others have not: the root of a small broadcast, say, does not
// wait for them in it.
struct FlightPast {
  int rank = 0;
  FlightOp op;
  std::vector<FlightWait> doing;  // what it is in now
};

struct FlightGroupStory {
  std::string name;
  int size = 1;
  std::vector<int> ranks;        // of the job, whose files have the group
  int without_file = 0;          // ranks of the group that have none
  std::uint64_t finished = 0;    // collectives that all of `ranks` have finished
  std::optional<FlightOp> last;  // of these; none: there is none, or it is forgotten
  std::uint64_t number = 0;      // the collective after these; 0: no rank has called it
  std::vector<FlightWait> in;    // ranks that are in it
  std::vector<FlightPast> past;  // that have done their part of it
  std::vector<FlightAbsent> absent;
  bool differ = false;               // those in it did not call the same
  std::vector<FlightWait> waiting;   // messages that are not over
  std::optional<FlightWait> misfit;  // a receive whose message is of another type or size
};

// One rank waits for the next in the list, the last for the first.
struct FlightCycle {
  struct Step {
    int rank = 0;
    FlightWait wait;
  };
  std::vector<Step> steps;
};

struct FlightStory {
  std::string job;
  int round = 0;
  int world_size = 1;
  std::vector<int> ranks;                 // that have a file
  std::vector<int> without_file;          // of the world
  std::vector<std::string> other_rounds;  // files that were left out
  std::vector<std::string> causes;        // why files were written, without repetition
  std::vector<FlightGroupStory> groups;
  std::optional<FlightCycle> cycle;
  // Signals asked for all files, and so long at most a rank had waited, less than a second: files of a job that goes on
  // are of moments that differ a little, and a rank that is missing comes. None otherwise.
  std::optional<std::int64_t> passing_ns;

  // Something stands still: ranks are missing, or differ, or wait for each other or for a message.
  bool stuck() const;
};

// Of the last round that there is a file of. Errors (usage): files of several jobs, or several of one rank.
Result<FlightStory> flight_story(std::vector<FlightReading> files);

}  // namespace dtrain::cli
