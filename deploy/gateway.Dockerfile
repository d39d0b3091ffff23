# The gateway: no torch, no GPU. scripts/check lints this file, and a weekly workflow builds it. From the root of a clone:
#   docker build -f deploy/gateway.Dockerfile -t agon-gateway .
# To pin the base by digest, look it up and write TAG@sha256:... below:
#   docker buildx imagetools inspect python:3.11.13-slim-bookworm --format '{{.Manifest.Digest}}'
FROM python:3.11.13-slim-bookworm

WORKDIR /opt/agon
COPY constraints/image-gateway.lock constraints/
RUN pip install --no-cache-dir --require-hashes -r constraints/image-gateway.lock

COPY pyproject.toml README.md LICENSE ./
COPY packages packages
COPY src src
RUN pip install --no-cache-dir --no-deps --no-build-isolation ./packages/judge ./packages/lens . \
    && useradd --create-home --uid 1000 agon

USER 1000
WORKDIR /home/agon
ENV HF_HUB_DISABLE_TELEMETRY=1
EXPOSE 8000
ENTRYPOINT ["agon", "serve"]
