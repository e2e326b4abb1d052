/* SPDX-License-Identifier: MIT
 *
 * CUPTI's activity records. The library is opened at run time and stays open; it is looked for where BATCHONE_CUPTI
 * says (a file or a folder; "none": nowhere), by the loader's path, and in CUDA's usual folders. A build whose toolkit
 * has no cupti.h says that it has none.
 *
 * The records' structs are those of CUDA 12.4, with which what is read here (times, name, graph) has kept its place in
 * each later one: CUPTI only appends.
 *
 * CUPTI gives its buffers back from a thread of its own: `the.lock` is held for all that lies in `the`.
 */
#include "gpu/gpu.h"

#if B1_CUDA

#include "gpu/driver.h"

#include <stdlib.h>

#if __has_include(<cupti.h>)

#include <cupti.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { BUFFER_BYTES = 1 << 20, BUFFER_ALIGN = 8 };

/* clang-format off */
#define CUPTI_MAP(X) \
    X(cuptiGetVersion) X(cuptiGetResultString) X(cuptiActivityEnable) X(cuptiActivityDisable) \
    X(cuptiActivityRegisterCallbacks) X(cuptiActivityFlushAll) X(cuptiActivityGetNextRecord) \
    X(cuptiActivityGetNumDroppedRecords) X(cuptiGetTimestamp)
/* clang-format on */

static struct {
    pthread_mutex_t lock;
    void *library;
    uint32_t version;
    bool registered, recording;
    b1i_gpu_activities seen;
    size_t room;
#define MEMBER(name) __typeof__(name) *name;
    CUPTI_MAP(MEMBER)
#undef MEMBER
    unsigned recordings; /* of nodes, so far */
} the = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_uint nodes_recorded; /* b1i_gpu_recording() */

/* ---- finding the library ---- */

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
static const char *const folders[] = {"", "/usr/local/cuda/lib64", "/usr/local/cuda/extras/CUPTI/lib64",
                                      "/usr/local/cuda/lib"};

static bool try_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
    bool all = true;
#define FIND(name)                                 \
    do {                                           \
        void *at = dlsym(library, #name);          \
        all = all && at;                           \
        if (at) memcpy(&the.name, &at, sizeof at); \
    } while (0);
    CUPTI_MAP(FIND)
#undef FIND
    if (all && the.cuptiGetVersion(&the.version) == CUPTI_SUCCESS) the.library = library;
    return the.library != NULL;
}

static bool try_folder(const char *folder)
{
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", names[i]) < (int)sizeof path &&
            try_library(path))
            return true;
    return false;
}

static b1_status find_library(b1_error *err)
{
    const char *given = getenv("BATCHONE_CUPTI");
    struct stat info;
    if (the.library) return B1_OK;
    if (given && strcmp(given, "none") == 0)
        return b1i_fail(err, B1_UNSUPPORTED, "CUPTI is not used: BATCHONE_CUPTI says none");
    if (given && *given) {
        if (stat(given, &info) == 0 && S_ISDIR(info.st_mode) ? try_folder(given) : try_library(given)) return B1_OK;
        return b1i_fail(err, B1_UNSUPPORTED, "there is no usable CUPTI at %s, which BATCHONE_CUPTI names", given);
    }
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (try_folder(folders[i])) return B1_OK;
    return b1i_fail(err, B1_UNSUPPORTED,
                    "no usable CUPTI: looked for %s, %s and %s by the loader's path and in /usr/local/cuda; "
                    "BATCHONE_CUPTI may name a file or folder",
                    names[0], names[1], names[2]);
}

/* What CUPTI says of a call. */
static b1_status check(CUptiResult result, const char *doing, b1_error *err)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS) return B1_OK;
    if (the.cuptiGetResultString(result, &text) != CUPTI_SUCCESS || !text) text = "an unknown error";
    return b1i_fail(err, B1_UNSUPPORTED, "CUPTI refuses %s: %s (%d)", doing, text, (int)result);
}

/* ---- its buffers ---- */

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most)
{
    *most = 0;
    *buffer = aligned_alloc(BUFFER_ALIGN, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
}

/* What a call of the driver does; −1: nothing that counts. */
static int call_does(CUpti_CallbackId call)
{
    switch (call) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx:
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async:
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch:
        return b1i_gpu_did_launch;
    case CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize:
    case CUPTI_DRIVER_TRACE_CBID_cuStreamQuery:
    case CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize:
        return b1i_gpu_did_wait;
    default:
        return -1;
    }
}

/* The record as an activity; false: it is of no kind that counts. */
static bool take(const CUpti_Activity *record, b1i_gpu_activity *out)
{
    *out = (b1i_gpu_activity){0};
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        const CUpti_ActivityKernel9 *r = (const CUpti_ActivityKernel9 *)record;
        *out = (b1i_gpu_activity){b1i_gpu_did_kernel, r->graphId, r->start, r->end, ""};
        snprintf(out->name, sizeof out->name, "%s", r->name ? r->name : "?");
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *r = (const CUpti_ActivityMemset4 *)record;
        *out = (b1i_gpu_activity){b1i_gpu_did_memset, r->graphId, r->start, r->end, ""};
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy5 *r = (const CUpti_ActivityMemcpy5 *)record;
        *out = (b1i_gpu_activity){b1i_gpu_did_copy, r->graphId, r->start, r->end, ""};
    } else if (record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
        const CUpti_ActivityGraphTrace *r = (const CUpti_ActivityGraphTrace *)record;
        *out = (b1i_gpu_activity){b1i_gpu_did_graph, r->graphId, r->start, r->end, ""};
    } else if (record->kind == CUPTI_ACTIVITY_KIND_DRIVER) {
        const CUpti_ActivityAPI *r = (const CUpti_ActivityAPI *)record;
        const int did = call_does(r->cbid);
        if (did < 0) return false;
        *out = (b1i_gpu_activity){(b1i_gpu_did)did, 0, r->start, r->end, ""};
    } else {
        return false;
    }
    return true;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
    CUpti_Activity *record = NULL;
    b1i_gpu_activity a;
    (void)size;
    pthread_mutex_lock(&the.lock);
    while (valid && the.cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (!the.recording || !take(record, &a)) continue;
        if (b1i_grow(&the.seen.items, &the.room, the.seen.count + 1, sizeof a))
            the.seen.items[the.seen.count++] = a;
        else
            the.seen.dropped++;
    }
    size_t dropped = 0;
    if (the.cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS && the.recording)
        the.seen.dropped += dropped;
    pthread_mutex_unlock(&the.lock);
    free(buffer);
}

/* ---- recording ---- */

static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMSET,
                                           CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_GRAPH_TRACE,
                                           CUPTI_ACTIVITY_KIND_DRIVER};
enum { NODES = 3, GRAPHS, KINDS = sizeof kinds / sizeof *kinds }; /* kinds of a recording of nodes, of graphs */

static void switch_off(void)
{
    for (int i = 0; i < KINDS; i++) the.cuptiActivityDisable(kinds[i]);
    atomic_store(&nodes_recorded, 0);
}

/* Records the kinds [first, last). */
static b1_status begin(b1i_gpu *gpu, int first, int last, b1_error *err)
{
    b1_status st;
    bool begun = false;
    pthread_mutex_lock(&the.lock);
    st = the.recording ? b1i_fail(err, B1_ARGUMENT, "activities are being recorded already") : find_library(err);
    pthread_mutex_unlock(&the.lock);
    if (st != B1_OK) return st;
    B1I_TRY(b1i_gpu_begin(gpu, err));
    begun = true;
    B1I_CU(gpu, cuStreamSynchronize(gpu->stream), "waiting for it");
    if (!the.registered)
        B1I_TRY(check(the.cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "its callbacks", err));
    the.registered = true;
    for (int i = first; i < last; i++) B1I_TRY(check(the.cuptiActivityEnable(kinds[i]), "records of activities", err));
    pthread_mutex_lock(&the.lock);
    the.recording = true;
    if (last == NODES) atomic_store(&nodes_recorded, ++the.recordings);
    pthread_mutex_unlock(&the.lock);
fail:
    if (st != B1_OK && begun) switch_off();
    if (begun) b1i_gpu_end(gpu);
    return st;
}

b1_status b1i_gpu_activities_begin(b1i_gpu *gpu, bool graphs, b1_error *err)
{
    return begin(gpu, 0, graphs ? GRAPHS : NODES, err);
}

b1_status b1i_gpu_calls_begin(b1i_gpu *gpu, b1_error *err) { return begin(gpu, GRAPHS, KINDS, err); }

unsigned b1i_gpu_recording(void) { return atomic_load(&nodes_recorded); }

uint64_t b1i_gpu_activities_now(void)
{
    uint64_t now = 0;
    pthread_mutex_lock(&the.lock);
    const bool there = the.library;
    pthread_mutex_unlock(&the.lock);
    return there && the.cuptiGetTimestamp(&now) == CUPTI_SUCCESS ? now : 0;
}

static int by_begin(const void *a, const void *b)
{
    const b1i_gpu_activity *x = a, *y = b;
    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

b1_status b1i_gpu_activities_end(b1i_gpu *gpu, b1i_gpu_activities *out, b1_error *err)
{
    *out = (b1i_gpu_activities){0};
    pthread_mutex_lock(&the.lock);
    const bool recording = the.recording;
    pthread_mutex_unlock(&the.lock);
    if (!recording) return b1i_fail(err, B1_ARGUMENT, "no activities are being recorded");
    b1_status st = b1i_gpu_sync(gpu, err);
    /* Flushed without the lock, which take_buffer() takes. */
    b1_status flushed = check(the.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "its records", err);
    switch_off();
    pthread_mutex_lock(&the.lock);
    *out = the.seen;
    the.seen = (b1i_gpu_activities){0};
    the.room = 0;
    the.recording = false;
    pthread_mutex_unlock(&the.lock);
    if (out->count) qsort(out->items, out->count, sizeof *out->items, by_begin);
    return st != B1_OK ? st : flushed;
}

unsigned b1i_gpu_cupti_version(void) { return the.version; }

#else

static b1_status absent(b1_error *err)
{
    return b1i_fail(err, B1_UNSUPPORTED, "this build has no CUPTI: the toolkit that made it had no cupti.h");
}

b1_status b1i_gpu_activities_begin(b1i_gpu *gpu, bool graphs, b1_error *err)
{
    (void)gpu;
    (void)graphs;
    return absent(err);
}

b1_status b1i_gpu_calls_begin(b1i_gpu *gpu, b1_error *err)
{
    (void)gpu;
    return absent(err);
}

b1_status b1i_gpu_activities_end(b1i_gpu *gpu, b1i_gpu_activities *out, b1_error *err)
{
    (void)gpu;
    *out = (b1i_gpu_activities){0};
    return absent(err);
}

unsigned b1i_gpu_cupti_version(void) { return 0; }
unsigned b1i_gpu_recording(void) { return 0; }
uint64_t b1i_gpu_activities_now(void) { return 0; }

#endif

void b1i_gpu_activities_free(b1i_gpu_activities *activities)
{
    b1i_free(activities->items);
    *activities = (b1i_gpu_activities){0};
}

#endif
