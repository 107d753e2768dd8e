// `skerry matrix`: who talked to whom.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "launcher/look/commands.hpp"
#include "launcher/look/sample.hpp"

namespace skerry::look {
namespace {

constexpr const char* matrix_usage =
    "usage: skerry matrix [JOB] [--ranks] [--json] [--svg FILE]\n\n"
    "Which nodes the ranks of a running job have talked to since it began: operations and bytes "
    "of\n"
    "put, get, accumulate and read-modify-write, by the node of the rank that issued them and the\n"
    "node of their target. Reads the job's memory and asks nothing of it.\n\n"
    "  JOB         its name, or the process of a rank or of `skerry run`; without: the only job "
    "of\n"
    "              this user on this machine (skerry stacks lists several)\n"
    "  --ranks     a row for each rank, not for each node\n"
    "  --json      for programs\n"
    "  --svg FILE  and a picture of the bytes\n";

struct Row {
  int32_t name = 0;  // of a node or rank
  std::vector<origin::NodeTraffic> to;
};

std::vector<Row> rows_of(const Sample& sample, bool by_rank) {
  std::vector<Row> rows;
  for (const RankSample& one : sample.ranks) {
    const int32_t name = by_rank ? one.rank : one.node;
    auto row = std::ranges::find(rows, name, &Row::name);
    if (row == rows.end()) row = rows.insert(row, {name, {one.to.size(), {0, 0}}});
    for (size_t node = 0; node < one.to.size(); ++node) {
      row->to[node].operations += one.to[node].operations;
      row->to[node].bytes += one.to[node].bytes;
    }
  }
  std::ranges::sort(rows, {}, &Row::name);
  return rows;
}

void print(const std::vector<Row>& rows, const char* from, const char* what,
           uint64_t origin::NodeTraffic::*value) {
  std::printf("%s\n%10s", what, "to node");
  for (size_t node = 0; node < rows.front().to.size(); ++node) std::printf(" %12zu", node);
  for (const Row& row : rows) {
    std::printf("\n%s %*d", from, 9 - static_cast<int>(std::string(from).size()), row.name);
    for (const origin::NodeTraffic& to : row.to)
      std::printf(" %12llu", static_cast<unsigned long long>(to.*value));
  }
  std::printf("\n");
}

void print_json(const Sample& sample, const std::vector<Row>& rows, const char* from) {
  std::string out = concat("{\"job\": ", quoted(sample.job), ", \"rows\": [");
  for (const Row& row : rows) {
    out += concat(&row == &rows.front() ? "" : ", ", "{\"", from, "\": ", row.name);
    for (const bool is_bytes : {false, true}) {
      out += is_bytes ? ", \"bytes\": [" : ", \"operations\": [";
      for (const origin::NodeTraffic& to : row.to)
        out += concat(&to == &row.to.front() ? "" : ", ", is_bytes ? to.bytes : to.operations);
      out += "]";
    }
    out += "}";
  }
  std::printf("%s]}\n", out.c_str());
}

// A square for each pair, the darker the more bytes, by the logarithm.
bool draw(const std::string& path, const Sample& sample, const std::vector<Row>& rows,
          const char* from) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return false;
  const size_t columns = rows.front().to.size();
  const int side = static_cast<int>(
      std::clamp<size_t>(600 / std::max(columns, rows.size()), 2, 40));
  const int left = 60, top = 50;
  uint64_t most = 1;
  for (const Row& row : rows)
    for (const origin::NodeTraffic& to : row.to) most = std::max(most, to.bytes);
  std::fprintf(
      file,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" "
      "height=\"100%%\" fill=\"white\"/>\n<text x=\"8\" y=\"16\">job %s: bytes from %ss "
      "(rows) to nodes (columns), at most %llu</text>\n",
      static_cast<size_t>(left) + std::max<size_t>(columns * static_cast<size_t>(side), 400) + 20,
      static_cast<size_t>(top) + rows.size() * static_cast<size_t>(side) + 20, sample.job.c_str(),
      from, static_cast<unsigned long long>(most));
  for (size_t y = 0; y < rows.size(); ++y) {
    const size_t at_y = static_cast<size_t>(top) + y * static_cast<size_t>(side);
    if (side >= 12)
      std::fprintf(file, "<text x=\"8\" y=\"%zu\">%d</text>\n",
                   at_y + static_cast<size_t>(side) / 2 + 4, rows[y].name);
    for (size_t x = 0; x < columns; ++x) {
      const origin::NodeTraffic& to = rows[y].to[x];
      const double share = std::log1p(static_cast<double>(to.bytes)) /
                           std::log1p(static_cast<double>(most));
      const int light = 255 - static_cast<int>(200 * share);
      std::fprintf(file,
                   "<rect x=\"%zu\" y=\"%zu\" width=\"%d\" height=\"%d\" fill=\"rgb(%d,%d,255)\" "
                   "stroke=\"#ddd\" stroke-width=\"0.5\"><title>%s %d to node %zu: %llu bytes, "
                   "%llu operations</title></rect>\n",
                   static_cast<size_t>(left) + x * static_cast<size_t>(side), at_y, side, side,
                   light, light, from, rows[y].name, x, static_cast<unsigned long long>(to.bytes),
                   static_cast<unsigned long long>(to.operations));
    }
  }
  for (size_t x = 0; side >= 12 && x < columns; ++x)
    std::fprintf(file, "<text x=\"%zu\" y=\"%d\">%zu</text>\n",
                 static_cast<size_t>(left) + x * static_cast<size_t>(side) + 2, top - 6, x);
  std::fputs("</svg>\n", file);
  return std::fclose(file) == 0;
}

}  // namespace

int matrix_main(const std::vector<std::string>& words) {
  Words read;
  int status = 0;
  if (!read_words(words, "matrix", matrix_usage, {"--ranks", "--json"}, {"--svg"}, &read, &status))
    return status;
  JobView job;
  if (!open_job("matrix", read.job, &job)) return 1;
  const Sample sample = take_whole_sample(job);
  const char* const from = read.has("--ranks") ? "rank" : "node";
  const std::vector<Row> rows = rows_of(sample, read.has("--ranks"));
  if (read.has("--json")) {
    print_json(sample, rows, from);
  } else {
    print(rows, from, "operations", &origin::NodeTraffic::operations);
    print(rows, from, "bytes", &origin::NodeTraffic::bytes);
    std::fputs(elsewhere(sample, "matrix").c_str(), stdout);
  }
  const std::string picture = read.value("--svg", "");
  if (!picture.empty() && !draw(picture, sample, rows, from)) {
    std::fprintf(stderr, "skerry matrix: cannot write %s\n", picture.c_str());
    return 1;
  }
  return 0;
}

}  // namespace skerry::look
