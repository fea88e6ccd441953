#!/bin/sh
# The image's entry point. numba requires a writable cache, even if the image has all machine code, and the image is
# read-only. So this script makes one in /tmp, a tmpfs. Then it replaces itself with the command, which so gets SIGTERM.
set -eu
umask 077
if ! mkdir -p "$NUMBA_CACHE_DIR"; then
    echo "error: cannot write to $NUMBA_CACHE_DIR: mount a tmpfs at /tmp (docker run --tmpfs /tmp)" >&2
    exit 2
fi
exec stream-dedup "$@"
