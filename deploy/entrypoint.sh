#!/bin/sh
# The image's entry point. numba insists on a cache that it can write to, and the image is read-only: so the kernels
# that were compiled at build time, 3 MB, are copied into /tmp, which is a tmpfs. Then the command takes this process's
# place, so that it gets SIGTERM itself.
set -eu
umask 077
if ! mkdir -p "$NUMBA_CACHE_DIR" || ! cp -R /opt/stream-dedup/kernels/. "$NUMBA_CACHE_DIR"; then
    echo "error: cannot write to $NUMBA_CACHE_DIR: mount a tmpfs at /tmp (docker run --tmpfs /tmp)" >&2
    exit 2
fi
exec stream-dedup "$@"
