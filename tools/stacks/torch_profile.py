# SPDX-License-Identifier: MIT
"""The profile of a step by torch.profiler, as a document batchone.step-profile/1.

On a GPU its records are CUPTI's, of a graph those of its nodes. On the CPU a kernel is an operator in which no other
one runs. Each step is marked by a range of its own, with a pause before and after, so that it is plain whose a record is.
"""
import hashlib
import statistics
import time

MARK = "batchone_step"
NO_WORK = (MARK, "warm", "Context Sync", "Stream Sync", "Stream Wait Event", "Event Sync")
LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaGraphLaunch", "cuGraphLaunch")
PAUSE_S = 0.0005


def record(torch, step, between, steps, on_gpu):
    """All records of `steps` steps: (device?, name, begin, end)."""
    from torch.profiler import ProfilerActivity, profile as profiler, record_function
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    with profiler(activities=activities) as prof:
        for i in range(steps + 2):  # two for the profiler itself to warm up
            with record_function(MARK if i >= 2 else "warm"):
                step()
            between()
            if on_gpu:
                torch.cuda.synchronize()
            time.sleep(PAUSE_S)
    cpu = torch.autograd.DeviceType.CPU
    return [(e.device_type() != cpu, e.name(), e.start_ns(), e.start_ns() + e.duration_ns())
            for e in prof.profiler.kineto_results.events()]


def leaves(records):
    """Those of one thread's records in which no other lies."""
    ordered = sorted(records, key=lambda r: (r[2], -r[3]))
    return [r for i, r in enumerate(ordered) if i + 1 == len(ordered) or ordered[i + 1][2] >= r[3]]


def kind_of(name):
    return "memset" if name.startswith("Memset") else "copy" if name.startswith("Memcpy") else "kernel"


def split(records, on_gpu):
    """The steps, each as (begin, end, work, calls) with work and calls in the order of their begin."""
    marks = sorted((b, e) for device, name, b, e in records if not device and name == MARK)
    work = [r for r in records if r[0] and r[1] not in NO_WORK] if on_gpu else None
    calls = [r for r in records if not r[0] and r[1].startswith(LAUNCHES)]
    steps = []
    for begin, end in marks:
        inside = lambda r: begin <= r[2] < end  # noqa: B023, E731: used within the loop alone
        mine = [r for r in (work if on_gpu else records) if inside(r)]
        if not on_gpu:
            mine = leaves([r for r in mine if r[1].startswith("aten::")])
        steps.append((begin, end, sorted(mine, key=lambda r: r[2]), sorted(filter(inside, calls), key=lambda r: r[2])))
    return steps


def layers_in(names, layers):
    """Where the layers lie in a step's kernels: (first, end, fewest, most of one layer), or None. Known by a kernel that
    occurs once a layer, or else equally often in each."""
    if layers < 2:
        return None
    counts = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    anchors = [(count // layers, name) for name, count in counts.items() if count % layers == 0]
    if not anchors:
        return None
    often, anchor = min(anchors, key=lambda a: a[0])
    places = [i for i, name in enumerate(names) if name == anchor][::often]
    gaps = [b - a for a, b in zip(places, places[1:])]
    usual = statistics.mode(gaps)
    span = places[-1] - places[0] + usual

    def repeats(first):
        return sum(names[i] == names[i + usual] for i in range(first, first + span - usual))

    starts = [f for f in range(max(0, places[0] + 1 - usual), places[0] + 1) if f + span <= len(names)]
    if not starts:
        return None
    first = max(starts, key=lambda f: (repeats(f), -f))
    return first, first + span, min(gaps), max(gaps)


def gaps_of(work):
    """Nanoseconds in which nothing ran between the first and the last, and those in which more than one did."""
    covered, idle, busy, total = work[0][2], 0, 0, 0
    for _, _, begin, end in work:
        idle += max(0, begin - covered)
        busy += max(0, end - max(begin, covered))
        total += end - begin
        covered = max(covered, end)
    return idle, total - busy


def rows_of(steps, place):
    """The kernels by name and by whether they belong to the layers; steps unlike the first are left out."""
    names = [r[1] for r in steps[0]]
    alike = [s for s in steps if [r[1] for r in s] == names]
    rows = {}
    for i, name in enumerate(names):
        layer = None if place is None else place[0] <= i < place[1]
        rows.setdefault((name, layer), []).append(i)
    out = []
    for (name, layer), at in rows.items():
        times = [s[i][3] - s[i][2] for s in alike for i in at]
        totals = [sum(s[i][3] - s[i][2] for i in at) for s in alike]
        out.append({"name": name, "count": len(at), "ns": statistics.median(times), "total_ns": statistics.median(totals),
                    "layer": layer})
    return out, len(steps) - len(alike)


def document(steps, cell, count, unprofiled_ms, on_gpu):
    kernels = [[r for r in work if kind_of(r[1]) == "kernel"] for _, _, work, _ in steps]
    names = [r[1] for r in kernels[0]]
    place = layers_in(names, cell["shape"]["layers"])
    rows, unlike = rows_of(kernels, place)
    median = lambda values: statistics.median(values) / 1e6  # noqa: E731
    kernel_ms = median(sum(r[3] - r[2] for r in k) for k in kernels)
    idle, twice = zip(*(gaps_of(work) for _, _, work, _ in steps))
    launch_ms = sync_ms = None
    if on_gpu and all(calls for *_, calls in steps):
        launch_ms = median(sum(r[3] - r[2] for r in calls) for *_, calls in steps)
        sync_ms = median(max(0, end - calls[-1][3]) for _, end, _, calls in steps)
    profiled_ms = median(end - begin for begin, end, *_ in steps)
    first = steps[0][2][0][2]
    return {
        "found": True, "message": f"{unlike} of {count} steps ran other kernels than the first" if unlike else None,
        "kernels": rows, "sequence_sha256": hashlib.sha256("".join(n + "\n" for n in names).encode()).hexdigest(),
        "kernels_per_step": len(names),
        "kernels_per_layer": {"min": place[2], "max": place[3]} if place else None,
        "outside": len(names) - (place[1] - place[0]) if place else None,
        "kernel_ms": kernel_ms, "gap_ms": median(idle), "overlap_ms": median(twice),
        "launch_ms": launch_ms, "sync_ms": sync_ms,
        "host_over_kernel": (launch_ms + sync_ms) / kernel_ms if launch_ms is not None and kernel_ms > 0 else None,
        "profiled_ms": profiled_ms, "distortion": profiled_ms / unprofiled_ms,
        "activities": [{"kind": kind_of(n), "name": n, "begin_ns": b - first, "end_ns": e - first}
                       for _, n, b, e in steps[0][2]],
    }


def nothing(why):
    absent = ("sequence_sha256", "kernels_per_step", "kernels_per_layer", "outside", "kernel_ms", "gap_ms", "overlap_ms",
              "launch_ms", "sync_ms", "host_over_kernel", "profiled_ms", "distortion")
    return {"found": False, "message": why, "kernels": [], "activities": [], **dict.fromkeys(absent)}


def profile(torch, step, between, cell, count, unprofiled_ms):
    """The document; a profiler that fails is one with a message."""
    on_gpu = cell["device"].startswith("cuda")
    head = {"schema": "batchone.step-profile/1", "by": "torch.profiler", "batch": cell["batch"],
            "context": cell["context"], "steps": count, "unprofiled_ms": unprofiled_ms, "utilisation": None}
    try:
        steps = split(record(torch, step, between, count, on_gpu), on_gpu)
        empty = len(steps) != count or not all(work for _, _, work, _ in steps)
        body = nothing("torch.profiler recorded nothing") if empty else document(steps, cell, count, unprofiled_ms, on_gpu)
    except (RuntimeError, AttributeError, ValueError) as error:
        body = nothing(f"torch.profiler failed: {' '.join(str(error).split())}")
    return {**head, **body}
