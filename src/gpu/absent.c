/* SPDX-License-Identifier: MIT
 *
 * This room where the build has no CUDA: each entry says so.
 */
#include "gpu/gpu.h"

#if !B1_CUDA

static b1_status absent(b1_error *err)
{
    return b1i_fail(err, B1_UNSUPPORTED, "this build has no CUDA: nvcc was not found when it was made");
}

int b1i_gpu_toolkit(void) { return 0; }

int b1i_gpu_count(b1_error *err)
{
    absent(err);
    return 0;
}

b1_status b1i_gpu_describe(int ordinal, b1i_gpu_info *out, b1_error *err)
{
    (void)ordinal;
    *out = (b1i_gpu_info){0};
    return absent(err);
}

b1_status b1i_gpu_open(int ordinal, b1i_gpu **out, b1_error *err)
{
    (void)ordinal;
    *out = NULL;
    return absent(err);
}

void b1i_gpu_close(b1i_gpu *gpu) { (void)gpu; }

const b1i_gpu_info *b1i_gpu_get_info(const b1i_gpu *gpu)
{
    (void)gpu;
    return NULL;
}

b1_status b1i_gpu_free_bytes(b1i_gpu *gpu, uint64_t *bytes, b1_error *err)
{
    (void)gpu;
    *bytes = 0;
    return absent(err);
}

b1_status b1i_gpu_state(const b1i_gpu *gpu, b1_error *err)
{
    (void)gpu;
    return absent(err);
}

b1_status b1i_gpu_alloc(b1i_gpu *gpu, size_t bytes, const char *what, b1i_gpu_ptr *out, b1_error *err)
{
    (void)gpu;
    (void)bytes;
    (void)what;
    *out = 0;
    return absent(err);
}

void b1i_gpu_free(b1i_gpu *gpu, b1i_gpu_ptr memory)
{
    (void)gpu;
    (void)memory;
}

b1_status b1i_gpu_host_alloc(b1i_gpu *gpu, size_t bytes, const char *what, void **host, b1i_gpu_ptr *device,
                             b1_error *err)
{
    (void)gpu;
    (void)bytes;
    (void)what;
    *host = NULL;
    if (device) *device = 0;
    return absent(err);
}

void b1i_gpu_host_free(b1i_gpu *gpu, void *host)
{
    (void)gpu;
    (void)host;
}

b1_status b1i_gpu_upload(b1i_gpu *gpu, b1i_gpu_ptr to, const void *from, size_t bytes, b1_error *err)
{
    (void)gpu;
    (void)to;
    (void)from;
    (void)bytes;
    return absent(err);
}

b1_status b1i_gpu_download(b1i_gpu *gpu, void *to, b1i_gpu_ptr from, size_t bytes, b1_error *err)
{
    (void)gpu;
    (void)to;
    (void)from;
    (void)bytes;
    return absent(err);
}

b1_status b1i_gpu_fill(b1i_gpu *gpu, b1i_gpu_ptr to, uint8_t byte, size_t bytes, b1_error *err)
{
    (void)gpu;
    (void)to;
    (void)byte;
    (void)bytes;
    return absent(err);
}

b1_status b1i_gpu_upload_async(b1i_gpu *gpu, b1i_gpu_ptr to, const void *from, size_t bytes, b1_error *err)
{
    (void)gpu;
    (void)to;
    (void)from;
    (void)bytes;
    return absent(err);
}

b1_status b1i_gpu_copy_async(b1i_gpu *gpu, b1i_gpu_ptr to, b1i_gpu_ptr from, size_t bytes, b1_error *err)
{
    (void)gpu;
    (void)to;
    (void)from;
    (void)bytes;
    return absent(err);
}

b1_status b1i_gpu_load(b1i_gpu *gpu, const char *name, const void *fatbin, b1_error *err)
{
    (void)gpu;
    (void)name;
    (void)fatbin;
    return absent(err);
}

b1_status b1i_gpu_kernel_get(b1i_gpu *gpu, const char *name, size_t shared_bytes, b1i_gpu_kernel **out, b1_error *err)
{
    (void)gpu;
    (void)name;
    (void)shared_bytes;
    *out = NULL;
    return absent(err);
}

const char *b1i_gpu_kernel_name(const b1i_gpu_kernel *kernel)
{
    (void)kernel;
    return NULL;
}

b1_status b1i_gpu_kernel_describe(b1i_gpu *gpu, b1i_gpu_kernel *kernel, b1i_gpu_kernel_info *out, b1_error *err)
{
    (void)gpu;
    (void)kernel;
    *out = (b1i_gpu_kernel_info){0};
    return absent(err);
}

b1_status b1i_gpu_occupancy(b1i_gpu *gpu, b1i_gpu_kernel *kernel, int threads, size_t shared_bytes, int *blocks,
                            b1_error *err)
{
    (void)gpu;
    (void)kernel;
    (void)threads;
    (void)shared_bytes;
    *blocks = 0;
    return absent(err);
}

b1_status b1i_gpu_run(b1i_gpu *gpu, const b1i_gpu_launch *launch, b1_error *err)
{
    (void)gpu;
    (void)launch;
    return absent(err);
}

b1_status b1i_gpu_run_each(b1i_gpu *gpu, const b1i_gpu_launch *launches, int count, int sets, int first, int times,
                           b1_error *err)
{
    (void)gpu;
    (void)launches;
    (void)count;
    (void)sets;
    (void)first;
    (void)times;
    return absent(err);
}

b1_status b1i_gpu_sync(b1i_gpu *gpu, b1_error *err)
{
    (void)gpu;
    return absent(err);
}

b1_status b1i_gpu_query(b1i_gpu *gpu, bool *done, b1_error *err)
{
    (void)gpu;
    *done = false;
    return absent(err);
}

b1_status b1i_gpu_beside_start(b1i_gpu *gpu, const b1i_gpu_launch *launch, b1_error *err)
{
    (void)gpu;
    (void)launch;
    return absent(err);
}

b1_status b1i_gpu_beside_wait(b1i_gpu *gpu, b1_error *err)
{
    (void)gpu;
    return absent(err);
}

void b1i_gpu_seen_done(b1i_gpu *gpu) { (void)gpu; }

void *b1i_gpu_stream(b1i_gpu *gpu)
{
    (void)gpu;
    return NULL;
}

b1_status b1i_gpu_enter(b1i_gpu *gpu, b1_error *err)
{
    (void)gpu;
    return absent(err);
}

void b1i_gpu_leave(b1i_gpu *gpu) { (void)gpu; }

b1_status b1i_gpu_event_create(b1i_gpu *gpu, bool timing, b1i_gpu_event **out, b1_error *err)
{
    (void)gpu;
    (void)timing;
    *out = NULL;
    return absent(err);
}

void b1i_gpu_event_destroy(b1i_gpu *gpu, b1i_gpu_event *event)
{
    (void)gpu;
    (void)event;
}

b1_status b1i_gpu_event_record(b1i_gpu *gpu, b1i_gpu_event *event, b1_error *err)
{
    (void)gpu;
    (void)event;
    return absent(err);
}

b1_status b1i_gpu_event_sync(b1i_gpu *gpu, b1i_gpu_event *event, b1_error *err)
{
    (void)gpu;
    (void)event;
    return absent(err);
}

b1_status b1i_gpu_event_ns(b1i_gpu *gpu, b1i_gpu_event *from, b1i_gpu_event *to, uint64_t *ns, b1_error *err)
{
    (void)gpu;
    (void)from;
    (void)to;
    *ns = 0;
    return absent(err);
}

b1_status b1i_gpu_graph_create(b1i_gpu *gpu, const b1i_gpu_launch *launches, int count, bool programmatic,
                               b1i_gpu_graph **out, b1_error *err)
{
    (void)gpu;
    (void)launches;
    (void)count;
    (void)programmatic;
    *out = NULL;
    return absent(err);
}

void b1i_gpu_graph_destroy(b1i_gpu *gpu, b1i_gpu_graph *graph)
{
    (void)gpu;
    (void)graph;
}

b1_status b1i_gpu_graph_run(b1i_gpu *gpu, b1i_gpu_graph *graph, b1_error *err)
{
    (void)gpu;
    (void)graph;
    return absent(err);
}

b1_status b1i_gpu_graph_run_each(b1i_gpu *gpu, b1i_gpu_graph *const *graphs, int sets, int first, int times,
                                 b1_error *err)
{
    (void)gpu;
    (void)graphs;
    (void)sets;
    (void)first;
    (void)times;
    return absent(err);
}

void b1i_gpu_graph_get_setup(const b1i_gpu_graph *graph, b1i_gpu_graph_setup *out)
{
    (void)graph;
    *out = (b1i_gpu_graph_setup){0};
}

b1_status b1i_gpu_graph_describe(b1i_gpu *gpu, b1i_gpu_graph *graph, b1i_gpu_graph_info *out, b1_error *err)
{
    (void)gpu;
    (void)graph;
    *out = (b1i_gpu_graph_info){0};
    return absent(err);
}

b1_status b1i_gpu_graph_dot(b1i_gpu *gpu, b1i_gpu_graph *graph, const char *path, b1_error *err)
{
    (void)gpu;
    (void)graph;
    (void)path;
    return absent(err);
}

void b1i_gpu_clocks_read(int ordinal, b1i_gpu_clocks *out)
{
    (void)ordinal;
    *out = (b1i_gpu_clocks){.sm_mhz = -1, .memory_mhz = -1, .power_mw = -1, .temperature_c = -1};
}

void b1i_gpu_health_read(int ordinal, b1i_gpu_health *out)
{
    (void)ordinal;
    *out = (b1i_gpu_health){-1, -1, -1, -1, -1};
}

bool b1i_gpu_energy_read(int ordinal, uint64_t *millijoules)
{
    (void)ordinal;
    *millijoules = 0;
    return false;
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

void b1i_gpu_activities_free(b1i_gpu_activities *activities) { (void)activities; }
unsigned b1i_gpu_recording(void) { return 0; }
uint64_t b1i_gpu_activities_now(void) { return 0; }
unsigned b1i_gpu_cupti_version(void) { return 0; }

b1_status b1i_gpu_profiler(b1i_gpu *gpu, bool on, b1_error *err)
{
    (void)gpu;
    (void)on;
    return absent(err);
}

b1_status b1i_gpu_read_ceiling(b1i_gpu *gpu, b1i_gpu_ptr memory, size_t bytes, int passes, double *gbps,
                               const char **method, b1_error *err)
{
    (void)gpu;
    (void)memory;
    (void)bytes;
    (void)passes;
    *gbps = 0;
    *method = NULL;
    return absent(err);
}

#endif
