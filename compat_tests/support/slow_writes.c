/* Makes writes slow to files whose path contains SLOW_WRITES_TO, by as many milliseconds as the file SLOW_WRITES_MS
   currently has. To be preloaded into a broker. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static void wait_for_disk(int fd) {
    const char *where = getenv("SLOW_WRITES_TO"), *how_long = getenv("SLOW_WRITES_MS");
    char link[64], path[PATH_MAX];
    if (!where || !how_long) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    if (!strstr(path, where)) return;
    FILE *file = fopen(how_long, "r");
    int milliseconds = 0;
    if (!file) return;
    if (fscanf(file, "%d", &milliseconds) == 1 && milliseconds > 0) usleep(1000 * milliseconds);
    fclose(file);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) {
    wait_for_disk(fd);
    return NEXT(write)(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *data, int count) {
    wait_for_disk(fd);
    return NEXT(writev)(fd, data, count);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at) {
    wait_for_disk(fd);
    return NEXT(pwrite)(fd, data, size, at);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    wait_for_disk(fd);
    return NEXT(pwrite64)(fd, data, size, at);
}

ssize_t pwritev(int fd, const struct iovec *data, int count, off_t at) {
    wait_for_disk(fd);
    return NEXT(pwritev)(fd, data, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *data, int count, off64_t at) {
    wait_for_disk(fd);
    return NEXT(pwritev64)(fd, data, count, at);
}

ssize_t pwritev2(int fd, const struct iovec *data, int count, off_t at, int flags) {
    wait_for_disk(fd);
    return NEXT(pwritev2)(fd, data, count, at, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *data, int count, off64_t at, int flags) {
    wait_for_disk(fd);
    return NEXT(pwritev64v2)(fd, data, count, at, flags);
}
