#include "worker/train/checkpoint/shard_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "wire/lineage.hpp"
#include "worker/train/checkpoint/direct_writer.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kPiece = 8u << 20;  // read and hashed at a time
constexpr std::array kParts{StatePart::Parameter, StatePart::Moment1, StatePart::Moment2};

const char* dtype_name(Element element) {
  return element == Element::F64 ? "f64" : "f32";
}

std::string header_of(const ShardId& id) {
  std::string header(kShardHeader, '\0');
  const auto put = [&](std::size_t at, auto value) {
    std::memcpy(&header[at], &value, sizeof value);
  };
  std::memcpy(header.data(), "STOKERSH", 8);
  put(8, std::uint32_t{1});
  put(12, id.generation.value);
  put(16, id.iteration.value);
  put(24, id.shard);
  put(28, id.shards);
  return header;
}

// "; it is shard 0 of 2 of step-000080.g000003": what a damaged file's header tells.
std::string header_hint(const std::string& header) {
  if (header.size() < kShardHeader || !header.starts_with("STOKERSH")) return "";
  ShardId id;
  std::memcpy(&id.generation.value, &header[12], 4);
  std::memcpy(&id.iteration.value, &header[16], 8);
  std::memcpy(&id.shard, &header[24], 4);
  std::memcpy(&id.shards, &header[28], 4);
  return fmt::format(" (its header says shard {} of {} of {})", id.shard, id.shards,
                     wire::checkpoint_name(id.iteration, id.generation));
}

const char* bytes_at(const FlatState& state, StatePart part, std::size_t element) {
  return static_cast<const char*>(state.part(part).data) + element * size_of(state.element());
}

Status write_content(DirectWriter& out, const FlatState& state, const ShardId& id) {
  const std::string header = header_of(id);
  STOKER_TRY_STATUS(out.write(header.data(), header.size()));
  const auto pieces =
      pieces_of(state.table(), shard_range(state.table().flat_size, id.shard, id.shards));
  for (const StatePart part : kParts)
    for (const Piece& piece : pieces)
      STOKER_TRY_STATUS(out.write(bytes_at(state, part, piece.parameter->offset + piece.first),
                                  piece.count * size_of(state.element())));
  return ok();
}

// Where a range of the manifest lies in memory; null when the model has no such place.
char* place_of(const FlatState& state, const wire::ManifestRange& range) {
  for (const StatePart part : kParts) {
    if (range.part != part_name(part)) continue;
    for (const Parameter& p : state.table().parameters)
      if (p.name == range.tensor && range.begin <= p.count && range.count <= p.count - range.begin)
        return const_cast<char*>(bytes_at(state, part, p.offset + range.begin));
  }
  return nullptr;
}

Status read_exactly(int fd, char* data, std::size_t size, const std::string& path,
                    Xxh3Stream& hash) {
  while (size > 0) {
    const ssize_t n = ::read(fd, data, std::min(size, kPiece));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot read", path));
    if (n == 0) return fail("ends too early", path);
    hash.update(data, static_cast<std::size_t>(n));
    data += n;
    size -= static_cast<std::size_t>(n);
  }
  return ok();
}

}  // namespace

std::string shard_name(const ShardId& id) {
  return fmt::format("shard-{:05}-of-{:05}.bin", id.shard, id.shards);
}

std::vector<wire::ManifestRange> shard_ranges(const FlatState& state, const ShardId& id) {
  std::vector<wire::ManifestRange> ranges;
  std::uint64_t at = kShardHeader;
  const auto pieces =
      pieces_of(state.table(), shard_range(state.table().flat_size, id.shard, id.shards));
  for (const StatePart part : kParts)
    for (const Piece& piece : pieces) {
      ranges.push_back({piece.parameter->name, std::string(part_name(part)),
                        dtype_name(state.element()), piece.first, piece.count, shard_name(id), at});
      at += piece.count * size_of(state.element());
    }
  return ranges;
}

Result<wire::ManifestFile> write_shard(const std::string& directory, const FlatState& state,
                                       const ShardId& id) {
  const std::string path = directory + "/" + shard_name(id), aside = path + ".tmp";
  const FlatRange range = shard_range(state.table().flat_size, id.shard, id.shards);
  STOKER_TRY(out,
             DirectWriter::create(aside, 3 * (range.end - range.begin) * size_of(state.element())));
  STOKER_TRY_STATUS(write_content(*out, state, id));
  STOKER_TRY_STATUS(out->finish());
  if (::rename(aside.c_str(), path.c_str()) != 0)
    return fail(write_error("cannot rename into place", path));
  return wire::ManifestFile{shard_name(id), out->written(), hex64(out->digest())};
}

Status read_shard(const std::string& directory, const wire::ManifestFile& file,
                  const std::vector<wire::ManifestRange>& ranges, FlatState& state) {
  const std::string path = directory + "/" + file.name;
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (static_cast<std::uint64_t>(info.st_size) != file.size)
    return fail(fmt::format("{} bytes instead of {}", info.st_size, file.size), path);
  Xxh3Stream hash;
  std::string header(kShardHeader, '\0');
  STOKER_TRY_STATUS(read_exactly(fd.get(), header.data(), kShardHeader, path, hash));
  std::uint64_t at = kShardHeader;
  for (const auto& range : ranges) {
    char* place = place_of(state, range);
    if (place == nullptr || range.dtype != dtype_name(state.element()) || range.file_offset != at)
      return fail(fmt::format("the range of {} {} does not fit the model or the file", range.tensor,
                              range.part),
                  path);
    const std::size_t size = range.count * size_of(state.element());
    STOKER_TRY_STATUS(read_exactly(fd.get(), place, size, path, hash));
    at += size;
  }
  if (at != file.size) return fail("has bytes that no range describes", path);
  if (hex64(hash.digest()) != file.xxh3)
    return fail("its content is not what the manifest says" + header_hint(header), path);
  return ok();
}

}  // namespace stoker::train
