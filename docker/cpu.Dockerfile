# Agon on a CPU: the light install, with what the demo, evaluation and reports need.
# scripts/check lints it, and a weekly workflow builds it. From the root of a clone:
#   docker build -f docker/cpu.Dockerfile -t agon:cpu .
#   docker run --rm -v "$PWD/runs:/home/agon/runs" agon:cpu demo
# To pin the base by digest, look it up and write TAG@sha256:... below:
#   docker buildx imagetools inspect python:3.11.13-slim-bookworm --format '{{.Manifest.Digest}}'
FROM python:3.11.13-slim-bookworm

# git names the revision in a run's manifest; bubblewrap is for the sandbox, which also needs --privileged or a rootless runtime;
# three packages have no wheel, and one of them is C
RUN apt-get update \
    && apt-get install -y --no-install-recommends git bubblewrap libseccomp2 gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 agon

WORKDIR /opt/agon
COPY constraints/cpu.txt constraints/image-cpu.lock constraints/
# setuptools goes first: it builds the packages that have no wheel
RUN awk '/^[a-z]/ {wanted = /^setuptools==/} wanted' constraints/image-cpu.lock > setuptools.lock \
    && pip install --no-cache-dir --no-deps --require-hashes -r setuptools.lock \
    && pip install --no-cache-dir --no-deps --no-build-isolation --require-hashes -r constraints/image-cpu.lock
# torch comes from PyTorch's CPU index, as the default wheel brings gigabytes of CUDA; it is pinned by version and not by hash
RUN pip install --no-cache-dir --no-deps --index-url https://download.pytorch.org/whl/cpu "$(grep '^torch==' constraints/cpu.txt)"

COPY pyproject.toml README.md LICENSE ./
COPY packages packages
COPY src src
RUN pip install --no-cache-dir --no-deps --no-build-isolation ./packages/judge ./packages/lens .

USER 1000
WORKDIR /home/agon
ENV HF_HUB_DISABLE_TELEMETRY=1
ENTRYPOINT ["agon"]
CMD ["--help"]
