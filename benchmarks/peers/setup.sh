#!/bin/sh
# Makes a virtual environment with pinned versions for each peer named, or for all of them:
#
#     benchmarks/peers/setup.sh [envpool] [sb3] [sample-factory] [cpprb] [ray]
#
# They go into $VELDT_PEERS (~/.cache/veldt-peers), made with $PYTHON (python3): the pins are for 3.11. An
# environment is finished when its stamp holds its pins: running this again does nothing, and a changed pin is
# installed anew.
set -eu

root="${VELDT_PEERS:-$HOME/.cache/veldt-peers}"
python="${PYTHON:-python3}"

pins() {
    # torch is veldt's version everywhere, so that the libraries are compared and not torch.
    case "$1" in
    envpool)
        # OpenCV is for Gymnasium's AtariPreprocessing.
        echo torch==2.13.0 numpy==2.4.6 envpool==1.2.5 ale-py==0.12.1 gymnasium==1.4.0 \
            opencv-python-headless==5.0.0.93
        ;;
    sb3)
        echo torch==2.13.0 numpy==2.4.6 stable-baselines3==2.9.2 ale-py==0.12.1 gymnasium==1.4.0 \
            opencv-python-headless==5.0.0.93
        ;;
    sample-factory)
        # Its last release knows only Gymnasium before 1.0, which knows only ale-py before 0.11.
        echo torch==2.13.0 numpy==1.26.4 sample-factory==2.1.1 ale-py==0.10.1 gymnasium==0.29.1
        ;;
    cpprb)
        echo numpy==2.4.6 cpprb==11.0.0
        ;;
    ray)
        echo torch==2.13.0 numpy==2.4.6 'ray[rllib]==2.60.0' gymnasium==1.2.2 cpprb==11.0.0
        ;;
    *)
        echo "setup.sh: no peer is called '$1': the peers are envpool, sb3, sample-factory, cpprb and ray" >&2
        exit 2
        ;;
    esac
}

[ $# -gt 0 ] || set -- envpool sb3 sample-factory cpprb ray

for peer; do
    pins="$(pins "$peer")"
    venv="$root/$peer"
    if [ "$(cat "$venv/.pins" 2>/dev/null)" = "$pins" ]; then
        echo "$peer: up to date in $venv"
        continue
    fi
    echo "$peer: installing into $venv"
    "$python" -m venv --clear "$venv"
    # shellcheck disable=SC2086 # one argument for each pin
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check $pins
    echo "$pins" >"$venv/.pins"
done
