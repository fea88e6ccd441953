#!/bin/sh
# The image's entry point. numba requires a writable cache, and the image is read-only. So this script copies the kernels
# that were compiled at build time (3 MB) to /tmp, a tmpfs. Then it replaces itself with the command, so that the command
# receives SIGTERM.
set -eu
umask 077
if ! mkdir -p "$NUMBA_CACHE_DIR" || ! cp -R /opt/stream-dedup/kernels/. "$NUMBA_CACHE_DIR"; then
    echo "error: cannot write to $NUMBA_CACHE_DIR: mount a tmpfs at /tmp (docker run --tmpfs /tmp)" >&2
    exit 2
fi
exec stream-dedup "$@"
