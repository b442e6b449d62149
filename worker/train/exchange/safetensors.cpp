#include "worker/train/exchange/safetensors.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <sys/stat.h>

#include "common/json.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kMostTensors = 1u << 16;
constexpr std::size_t kAlignment = 8;
constexpr int kDeepest = 8;
constexpr const char* kMetadata = "__metadata__";

bool is_number(const Json& value) {
  return value.is_number_unsigned();
}

Result<SafeTensor> read_entry(const std::string& name, const Json& entry,
                              const std::string& object) {
  const auto bad = [&](std::string_view what) {
    return fail(fmt::format("tensor {}: {}", name, what), object);
  };
  if (!entry.is_object()) return bad("not an object");
  const auto dtype = entry.find("dtype"), shape = entry.find("shape"),
             offsets = entry.find("data_offsets");
  if (dtype == entry.end() || !dtype->is_string()) return bad("no dtype");
  if (shape == entry.end() || !shape->is_array() || shape->size() > wire::kMostDimensions ||
      !std::all_of(shape->begin(), shape->end(), is_number))
    return bad("no shape");
  if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2 ||
      !std::all_of(offsets->begin(), offsets->end(), is_number))
    return bad("no data_offsets");
  SafeTensor tensor{name, dtype->get<std::string>(), shape->get<wire::Shape>(),
                    (*offsets)[0].get<std::uint64_t>(), (*offsets)[1].get<std::uint64_t>()};
  if (tensor.begin > tensor.end) return bad("it ends before it begins");
  const std::size_t each = safetensors_size(tensor.dtype);
  if (each == 0) return bad(fmt::format("unknown dtype \"{}\"", tensor.dtype));
  const std::uint64_t bytes = tensor.end - tensor.begin;
  if (bytes % each != 0 || bytes / each != wire::elements_of(tensor.shape))
    return bad(fmt::format("{} bytes are not those of its shape", bytes));
  return tensor;
}

Status check_cover(const std::vector<SafeTensor>& tensors, std::uint64_t data_bytes,
                   const std::string& object) {
  std::uint64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    if (tensor.begin < at)
      return fail(fmt::format("tensor {} overlaps the one before it", tensor.name), object);
    if (tensor.begin > at)
      return fail(fmt::format("{} bytes before tensor {} belong to no tensor", tensor.begin - at,
                              tensor.name),
                  object);
    at = tensor.end;
  }
  if (at != data_bytes)
    return fail(fmt::format("the header describes {} bytes of data, the file has {}: {}", at,
                            data_bytes, at > data_bytes ? "truncated" : "bytes that are no tensor"),
                object);
  return ok();
}

}  // namespace

std::size_t safetensors_size(const std::string& dtype) {
  static const std::map<std::string, std::size_t> kSizes{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
      {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  const auto found = kSizes.find(dtype);
  return found == kSizes.end() ? 0 : found->second;
}

std::string safetensors_start(std::vector<SafeTensor>& tensors) {
  Json header{{kMetadata, {{"format", "pt"}}}};
  std::uint64_t at = 0;
  for (SafeTensor& tensor : tensors) {
    tensor.begin = at;
    at = tensor.end = at + wire::elements_of(tensor.shape) * safetensors_size(tensor.dtype);
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = dump_json(header);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t size = text.size();
  std::string start(sizeof size, '\0');
  std::memcpy(start.data(), &size, sizeof size);
  return start + text;
}

Result<std::vector<SafeTensor>> parse_safetensors_header(std::string_view json,
                                                         std::uint64_t data_bytes,
                                                         const std::string& object) {
  STOKER_TRY(header, parse_json(json, object, {kLargestSafetensorsHeader, kDeepest}));
  if (!header.is_object()) return fail("the header is not a JSON object", object);
  if (header.size() > kMostTensors) return fail("too many tensors", object);
  std::vector<SafeTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    STOKER_TRY(tensor, read_entry(name, entry, object));
    tensors.push_back(std::move(tensor));
  }
  if (tensors.empty()) return fail("holds no tensor", object);
  std::sort(tensors.begin(), tensors.end(), [](const SafeTensor& a, const SafeTensor& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  STOKER_TRY_STATUS(check_cover(tensors, data_bytes, object));
  return tensors;
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile file;
  file.path_ = path;
  file.fd_ = os::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.fd_) return fail(errno_error(errno, "cannot open", path));
  struct stat info {};
  if (::fstat(file.fd_.get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(info.st_mode)) return fail("not a regular file", path);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::uint64_t header = 0;
  if (size < sizeof header) return fail("too short for a safetensors file: truncated", path);
  STOKER_TRY_STATUS(file.read_at(0, sizeof header, reinterpret_cast<char*>(&header)));
  if (header > size - sizeof header)
    return fail(fmt::format("a header of {} bytes in a file of {}: truncated, or no safetensors",
                            header, size),
                path);
  if (header > kLargestSafetensorsHeader)
    return fail(
        fmt::format("a header of {} bytes; the limit is {}", header, kLargestSafetensorsHeader),
        path);
  std::string text(header, '\0');
  STOKER_TRY_STATUS(file.read_at(sizeof header, text.size(), text.data()));
  file.data_at_ = sizeof header + header;
  STOKER_TRY(tensors, parse_safetensors_header(text, size - file.data_at_, path));
  file.tensors_ = std::move(tensors);
  return file;
}

Status SafetensorsFile::read(const SafeTensor& tensor, std::uint64_t at, std::size_t size,
                             char* to) const {
  STOKER_CHECK(at <= tensor.end - tensor.begin && size <= tensor.end - tensor.begin - at,
               "what is read lies in the tensor");
  return read_at(data_at_ + tensor.begin + at, size, to);
}

Status SafetensorsFile::read_at(std::uint64_t at, std::size_t size, char* to) const {
  while (size > 0) {
    const ssize_t n = ::pread(fd_.get(), to, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot read", path_));
    if (n == 0) return fail("ends too early", path_);
    to += n;
    at += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
  return ok();
}

}  // namespace stoker::train
