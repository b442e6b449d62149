// What a program prints last is published, while train.environment is for the owner alone: its
// values are hidden there, as core/secrets.hpp hides them in documents.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace stoker::agent {

// The text with "(hidden)" for each value of the environment. Shorter ones than 6 bytes are words
// (`stoker support` keeps them too).
std::string without_values(std::string text, const std::map<std::string, std::string>& environment);

// Bytes of a stream with "(hidden)" for each occurrence of a random word, in any pieces. What may
// be its beginning waits for the next piece.
class HiddenWord {
 public:
  using Sink = std::function<void(std::string_view bytes)>;
  explicit HiddenWord(std::string word) : word_(std::move(word)) {}

  void feed(std::string_view bytes, const Sink& sink);
  void finish(const Sink& sink);

 private:
  std::string word_, pending_;
};

}  // namespace stoker::agent
