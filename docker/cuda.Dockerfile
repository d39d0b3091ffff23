# Agon on one or several NVIDIA GPUs, with vLLM. The versions are those of constraints/gpu.lock: they resolve together and have
# not run on a GPU yet. scripts/check lints this file, and a weekly workflow builds it. From the root of a clone:
#   docker build -f docker/cuda.Dockerfile -t agon:cuda .
#   docker run --rm --gpus all --ipc=host -v "$PWD/runs:/home/agon/runs" -v "$HOME/.cache/huggingface:/home/agon/.cache/huggingface" \
#     agon:cuda doctor
# To pin the base by digest, look it up and write TAG@sha256:... below:
#   docker buildx imagetools inspect nvidia/cuda:13.0.1-devel-ubuntu24.04 --format '{{.Manifest.Digest}}'
FROM nvidia/cuda:13.0.1-devel-ubuntu24.04

# the devel image has nvcc, which vLLM's kernels may compile with; ninja and a compiler go with it
RUN apt-get update \
    && apt-get install -y --no-install-recommends python3 python3-dev python3-venv build-essential ninja-build git bubblewrap libseccomp2 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1001 agon \
    && python3 -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH

WORKDIR /opt/agon
COPY constraints/gpu.lock constraints/
# setuptools goes first: it builds the packages that have no wheel
RUN awk '/^[a-z]/ {wanted = /^setuptools==/} wanted' constraints/gpu.lock > setuptools.lock \
    && pip install --no-cache-dir --no-deps --require-hashes -r setuptools.lock \
    && pip install --no-cache-dir --no-build-isolation --require-hashes -r constraints/gpu.lock

COPY pyproject.toml README.md LICENSE ./
COPY packages packages
COPY src src
RUN pip install --no-cache-dir --no-deps --no-build-isolation ./packages/judge ./packages/lens .

USER 1001
WORKDIR /home/agon
ENV HF_HUB_DISABLE_TELEMETRY=1
ENTRYPOINT ["agon"]
CMD ["--help"]
