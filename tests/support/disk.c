/* What a power cut leaves. Preloaded, it keeps a copy of each file as it was at its last sync in the folder SYNCED_TO;
   one that was deleted goes when its folder is synced. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void drop_deleted(const char *folder, const char *copies) {
    char path[PATH_MAX];
    DIR *kept = opendir(copies);
    struct dirent *entry;
    while (kept && (entry = readdir(kept))) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (access(path, F_OK) == 0) continue;
        snprintf(path, sizeof path, "%s/%s", copies, entry->d_name);
        unlink(path);
    }
    if (kept) closedir(kept);
}

static void keep(int fd) {
    const char *copies = getenv("SYNCED_TO");
    char link[64], path[PATH_MAX], copy[PATH_MAX], block[65536];
    struct stat is;
    if (!copies || fstat(fd, &is)) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    if (S_ISDIR(is.st_mode)) {
        drop_deleted(path, copies);
        return;
    }
    int from = open(path, O_RDONLY);
    if (from < 0) return;
    snprintf(copy, sizeof copy, "%s/%s", copies, strrchr(path, '/') + 1);
    int to = open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    while (to >= 0 && (length = read(from, block, sizeof block)) > 0)
        if (write(to, block, length) != length) abort();
    close(from);
    if (to >= 0) close(to);
}

static int synced(const char *name, int fd) {
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, name);
    int result = real(fd);
    if (result == 0) keep(fd);
    return result;
}

int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }
