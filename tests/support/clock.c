/* A clock that jumps. Preloaded, it adds to the time of day the seconds that stand in the file CLOCK_JUMP, 8 bytes of an
   integer, at every look; clocks that only measure durations are left alone, as by a real jump. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t jump(void) {
    static volatile int64_t *seconds;
    if (!seconds) {
        const char *path = getenv("CLOCK_JUMP");
        int fd = path ? open(path, O_RDONLY) : -1;
        if (fd < 0) return 0;
        void *mapped = mmap(0, sizeof *seconds, PROT_READ, MAP_SHARED, fd, 0);
        close(fd);
        if (mapped == MAP_FAILED) abort();
        seconds = mapped;
    }
    return *seconds;
}

int clock_gettime(clockid_t id, struct timespec *result) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(id, result);
    if (status == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) result->tv_sec += jump();
    return status;
}

int gettimeofday(struct timeval *result, void *zone) {
    struct timespec now;
    (void) zone;
    int status = clock_gettime(CLOCK_REALTIME, &now);
    result->tv_sec = now.tv_sec;
    result->tv_usec = now.tv_nsec / 1000;
    return status;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
