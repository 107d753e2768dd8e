#include <algorithm>
#include <cstdio>

#include "core/pure/nearest.hpp"
#include "launcher/look/commands.hpp"

namespace skerry::look {

bool Words::has(const std::string& flag) const {
  return std::ranges::find(flags, flag) != flags.end();
}

std::string Words::value(const std::string& option, const std::string& otherwise) const {
  const auto found = std::ranges::find(values, option, &std::pair<std::string, std::string>::first);
  return found == values.end() ? otherwise : found->second;
}

bool read_words(const std::vector<std::string>& words, const std::string& command,
                const char* usage, const std::vector<std::string>& flags,
                const std::vector<std::string>& options, Words* read, int* status) {
  *status = 2;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      std::fputs(usage, stdout);
      *status = 0;
      return false;
    }
    if (word.empty() || word[0] != '-') {
      if (!read->job.empty()) {
        std::fprintf(stderr, "skerry %s takes one job, not \"%s\" and \"%s\"\n", command.c_str(),
                     read->job.c_str(), word.c_str());
        return false;
      }
      read->job = word;
    } else if (std::ranges::find(flags, word) != flags.end()) {
      read->flags.push_back(word);
    } else if (std::ranges::find(options, word) != options.end()) {
      if (i + 1 == words.size()) {
        std::fprintf(stderr, "skerry %s: %s needs a value (skerry %s --help)\n", command.c_str(),
                     word.c_str(), command.c_str());
        return false;
      }
      read->values.emplace_back(word, words[++i]);
    } else {
      std::vector<std::string_view> known(flags.begin(), flags.end());
      known.insert(known.end(), options.begin(), options.end());
      const std::string near(skerry::nearest(word, known));
      std::fprintf(stderr, "skerry %s: unknown word %s%s (skerry %s --help)\n", command.c_str(),
                   word.c_str(), near.empty() ? "" : (", did you mean " + near + "?").c_str(),
                   command.c_str());
      return false;
    }
  }
  return true;
}

bool open_job(const std::string& command, const std::string& word, JobView* job) {
  const Status status = find_job(word, job);
  if (!status.ok())
    std::fprintf(stderr, "skerry %s: %s\n", command.c_str(), status.message().c_str());
  return status.ok();
}

std::string name_of(const memory::LockName& lock) {
  return concat("lock ", lock.index, " of rank ", lock.rank, " (segment ", lock.segment.owner, ".",
                lock.segment.generation, ")");
}

std::string elsewhere(const Sample& sample, const std::string& command) {
  std::string text;
  for (const std::string& remark : sample.remarks) text += concat(remark, "\n");
  const auto seen = static_cast<int32_t>(sample.ranks.size());
  if (seen < sample.all_ranks && sample.remarks.empty())
    text += concat(seen, " of ", sample.all_ranks,
                   " ranks are seen: the job was not started by `skerry run`, whose agents show "
                   "other hosts; there: skerry ",
                   command, " ", sample.job, "\n");
  return text;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace skerry::look
