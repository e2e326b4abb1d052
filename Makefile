# The front door. CMake does the work: `cmake --preset release && cmake --build --preset release`.
MODEL  := models/SmolLM2-135M-Instruct.Q4_1.gguf
PROMPT := Once upon a time, in a small village by the sea,
TOKENS := 96

.NOTPARALLEL:
.PHONY: run test test-gpu build bench peers model install clean

# Installs, builds, fetches the default model; generates text on stdout, everything else goes to stderr.
run: $(MODEL)
	@tools/build release batchone
	@build/release/batchone run $(MODEL) -p "$(PROMPT)" -n $(TOKENS)

test: build $(MODEL)
	@ctest --preset release

# What needs a GPU; fails where there is none.
test-gpu: build $(MODEL)
	@build/release/test_gpu --there
	@ctest --preset release -L gpu

build:
	@tools/build

# R_ceiling on two threads, and against llama.cpp after `make peers`; figures go to results/.
bench: build $(MODEL)
	@tools/bench

model: $(MODEL)
$(MODEL):
	@tools/fetch_model $@

peers:
	@tools/peers

# The loader finds a new shared library once its cache is made anew.
install: build
	@cmake --install build/release
	@if [ "$$(id -u)" -eq 0 ] && [ -z "$(DESTDIR)" ] && [ -x /sbin/ldconfig ]; then /sbin/ldconfig; fi

clean:
	@rm -rf build/release
