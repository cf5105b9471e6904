# veldt with the pinned versions, for the CPU:  docker build -t veldt . && docker run --rm --shm-size 2g veldt recipes
#
# With a GPU: docker build --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu126 -t veldt . , and docker run
# --gpus all. Processes of a run share memory: Docker's default of 64 MiB is too small, so give more with --shm-size.
FROM python:3.11-slim

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ENV PYTHONUNBUFFERED=1

WORKDIR /opt/veldt
# The dependencies first: they change less often than the code, and Docker keeps this layer.
COPY pyproject.toml constraints.txt README.md LICENSE ./
RUN mkdir -p src/veldt && touch src/veldt/__init__.py \
    && pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -c constraints.txt '.[atari,cluster,video]' \
    && pip uninstall --yes veldt
COPY src src
RUN pip install --no-cache-dir --no-deps -c constraints.txt .

# Runs are written into a volume, by a user without privileges.
RUN useradd --create-home veldt && mkdir /runs && chown veldt /runs
USER veldt
WORKDIR /runs
VOLUME /runs
ENTRYPOINT ["veldt"]
CMD ["--help"]
