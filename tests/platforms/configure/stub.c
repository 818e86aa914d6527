/* A compiler, linker or librarian of another system, as far as CMake's configuration asks for one.
 *
 * It makes every file that it is told to make, out of the text beside it (NAME.txt): what a real one's output would tell
 * CMake of compiler and platform. It refuses commands and sources that hold one of the words in NAME.refused. Nothing is
 * compiled: a check of CMake's that asks what a header declares is answered with yes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file)
    return NULL;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  char *text = calloc(size + 1, 1);
  size_t got = fread(text, 1, size, file);
  text[got] = 0;
  fclose(file);
  return text;
}

static int write_file(const char *path, const char *text) {
  FILE *file = fopen(path, "wb");
  if (!file)
    return 1;
  fputs(text, file);
  return fclose(file);
}

static char *beside(const char *program, const char *suffix) {
  size_t length = strlen(program);
  if (length > 4 && !strcmp(program + length - 4, ".exe"))
    length -= 4;
  char *path = calloc(length + strlen(suffix) + 1, 1);
  memcpy(path, program, length);
  strcat(path, suffix);
  return path;
}

static int is_source(const char *word) {
  const char *dot = strrchr(word, '.');
  return dot && word[0] != '-' && (!strcmp(dot, ".c") || !strcmp(dot, ".cpp") || !strcmp(dot, ".cxx"));
}

/* The file that a word names as the output: of clang-cl (/Fo, -Fo), lld-link and llvm-lib (/out:), rc and cc (a word of
 * its own after /fo or -o). */
static const char *output_in(const char *word, const char *next) {
  if (!strcmp(word, "-o") || !strcmp(word, "/fo") || !strcmp(word, "-fo"))
    return next;
  if (!strncmp(word, "/Fo", 3) || !strncmp(word, "-Fo", 3))
    return word + 3;
  if (!strncmp(word, "/out:", 5) || !strncmp(word, "-out:", 5))
    return word + 5;
  return NULL;
}

#ifdef _WIN32
#include <windows.h>
static char *own_path(void) {
  static char path[4096];
  GetModuleFileNameA(NULL, path, sizeof path);
  return path;
}
#else
#include <unistd.h>
static char *own_path(void) {
  static char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  path[length < 0 ? 0 : length] = 0;
  return path;
}
#endif

int main(int count, char **words) {
  char *says = read_file(beside(own_path(), ".txt"));
  char *refused = read_file(beside(own_path(), ".refused"));
  const char *output = NULL, *source = NULL;
  if (!says)
    return 2;
  for (int i = 1; i < count; i++) {
    const char *named = output_in(words[i], i + 1 < count ? words[i + 1] : NULL);
    output = named ? named : output;
    source = is_source(words[i]) ? words[i] : source;
  }
  for (char *word = refused ? strtok(refused, "\r\n") : NULL; word; word = strtok(NULL, "\r\n")) {
    for (int i = 1; i < count; i++)
      if (strstr(words[i], word)) {
        fprintf(stderr, "error: refused: %s\n", word);
        return 1;
      }
    char *text = source ? read_file(source) : NULL;
    if (text && strstr(text, word)) {
      fprintf(stderr, "%s: error: refused: %s\n", source, word);
      return 1;
    }
  }
  for (int i = 1; i < count; i++) /* how CMake learns what a dependency looks like in the output */
    if (!strcmp(words[i], "/showIncludes") && source)
      printf("%s\nNote: including file: ./foo.h\n", source);
  fwrite(says, 1, strcspn(says, "\n") + 1, output ? stderr : stdout);
  if (output)
    return write_file(output, says);
  return source ? write_file("a.out", says) : 0;
}
