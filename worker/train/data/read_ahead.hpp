// ReadAhead: samples are read before they are asked for, by a thread of its own, so that a slow
// file system delays the reading and not the training.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "worker/train/data/training_data.hpp"

namespace stoker::train {

class ReadAhead {
 public:
  // `data` outlives this. The thread begins with the first plan().
  explicit ReadAhead(const TrainingData& data) : data_(data) {}
  // Waits for the read that is under way.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // From now on these samples are read and kept, the smallest number first; others are dropped.
  void plan(const std::vector<std::uint64_t>& ids);
  // As TrainingData::sample(); waits where it is planned, reads here where it is not.
  Result<Sample> sample(std::uint64_t id);

 private:
  void read();

  const TrainingData& data_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<std::uint64_t> unread_;                 // planned, not read yet
  std::map<std::uint64_t, Result<Sample>> ready_;  // planned and read
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace stoker::train
