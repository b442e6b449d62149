#include "daemon/loop/real_path.hpp"

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace stoker::daemon {

std::optional<std::string> real_path_in_time(const std::string& path, Duration patience) {
  struct Question {
    std::mutex mutex;
    std::condition_variable news;
    std::optional<std::string> answer;
  };
  auto question = std::make_shared<Question>();
  try {
    std::thread([question, path] {
      std::error_code error;
      const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
      const std::scoped_lock lock(question->mutex);
      question->answer = error ? path : real.string();
      question->news.notify_all();
    }).detach();
  } catch (const std::system_error&) {
    return std::nullopt;
  }
  std::unique_lock lock(question->mutex);
  question->news.wait_for(lock, patience, [&] { return question->answer.has_value(); });
  return question->answer;
}

}  // namespace stoker::daemon
