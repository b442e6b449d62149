#include "worker/train/run/say.hpp"

#include <cstdlib>
#include <string>
#include <unistd.h>

#include "common/printable.hpp"
#include "wire/environment.hpp"

namespace stoker::train {
namespace {

void write_line(int fd, std::string line) {
  line += '\n';
  // A reader that has gone away must not end the training: errors are ignored on purpose.
  if (::write(fd, line.data(), line.size()) < 0) return;
}

}  // namespace

void say(std::string_view line) {
  write_line(STDOUT_FILENO, printable_lines(line));
}

void say_json(const Json& document) {
  write_line(STDOUT_FILENO, dump_json(document));
}

void complain(std::string_view line) {
  write_line(STDERR_FILENO, "stoker-train: " + printable_lines(line));
}

void complain(const Error& error) {
  complain("error: " + error.message());
}

void tell_event(const wire::AgentBody& body) {
  const char* word = std::getenv(wire::env::kEventWord);
  const std::string proof = word == nullptr ? std::string() : std::string(word) + ' ';
  write_line(STDOUT_FILENO, wire::kEventLinePrefix + proof + dump_json(Json(body)));
}

}  // namespace stoker::train
